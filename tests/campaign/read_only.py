"""Folders and file systems that may not be written, and files that may not be read: one message, nothing changed.

    PYTHONPATH=tests python -m campaign.read_only >> results/faults-read-only.jsonl

Root, who may write everywhere, begins again without that right (setpriv). Twice: by permissions and, where file systems
may be mounted, on one that is mounted read-only. What only reads has to work there.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from campaign import full_disk, kills, mutations

RIGHTS = "-dac_override,-dac_read_search"
FIT = ("--label", "label", "--method", "ce", "--no-baseline")
SMALL = ("--data.limit", "200", "--train.epochs", "2", "--model.name", "linear")
BENCH = ("bench", "table1", "--scale", "smoke", "--seeds", "1", "--cols", "cifar10-sym-50", "--rows", "ce")


def prepare(folder: Path) -> None:
    """A table, a finished fit, a finished and an unfinished run, a ledger: everything that is read."""
    kills.commands(folder)  # rows.csv, texts.csv
    mutations.make_seeds(folder)
    for args in (
        ("fit", folder / "rows.csv", *FIT, "--out", folder / "fit"),
        ("fit", folder / "rows.csv", "--label", "label", "--method", "wann", "--no-baseline", "--out", folder / "wann"),
        (*BENCH, "--out", folder / "ledger.jsonl", "--work", folder / "work"),
    ):
        code, said = full_disk.pars([str(word) for word in args])
        assert code == 0, said
    shelf = folder / "shelf"
    for name in ("a", "b"):
        (shelf / name).mkdir(parents=True)
        shutil.copy(folder / "p.png", shelf / name / "p.png")
    secret = shutil.copytree(folder / "fit", folder / "secret")
    for name in ("robust/model.safetensors", "rows.npz"):
        (secret / name).chmod(0)
    shutil.copy(folder / "rows.csv", folder / "secret.csv")
    (folder / "secret.csv").chmod(0)


def cases(here: Path, free: Path) -> dict[str, tuple[int, list[str]]]:
    """Calls by name, with the exit code: `here` may not be written (it is also the working folder), `free` may be."""
    rows, fit, run = here / "rows.csv", here / "fit", here / "run"
    found: dict[str, tuple[int, tuple[object, ...]]] = {
        "fit": (2, ("fit", rows, *FIT, "--out", here / "new")),
        "fit below": (2, ("fit", rows, *FIT, "--out", here / "new" / "fit")),
        "fit again": (2, ("fit", rows, *FIT, "--out", fit)),
        "fit adds a baseline": (2, ("fit", rows, "--label", "label", "--method", "ce", "--out", fit)),
        "fit wann": (2, ("fit", rows, "--label", "label", "--method", "wann", "--out", here / "new")),
        "fit reads": (0, ("fit", rows, *FIT, "--out", free / "fit")),
        "fit of a secret table": (2, ("fit", here / "secret.csv", *FIT, "--out", free / "secret")),
        "selftest": (2, ("selftest", rows, "--label", "label", "--method", "ce", "--out", here / "new")),
        "train": (2, ("train", *SMALL, "--out", here / "new")),
        "train by default": (2, ("train", *SMALL)),
        "train over a run": (2, ("train", *SMALL, "--out", run)),
        "resume": (2, ("resume", here / "stopped")),
        "resume a finished run": (0, ("resume", run)),
        "compare": (2, ("compare", "--methods", "ce,elr", *SMALL, "--out", here / "new")),
        "compare by default": (2, ("compare", "--methods", "ce,elr", *SMALL)),
        "encode to a file": (2, ("encode", here / "texts.csv", here / "x.npz", "--text", "text", "--encoder", "tfidf")),
        "encode to a folder": (2, ("encode", here / "texts.csv", here / "x", "--text", "text", "--encoder", "tfidf")),
        "encode reads": (0, ("encode", here / "texts.csv", free / "x.npz", "--text", "text", "--encoder", "tfidf")),
        "pack": (2, ("pack", here / "shelf", here / "packed")),
        "pack reads": (0, ("pack", here / "shelf", free / "packed")),
        "bench": (2, (*BENCH, "--seeds", "2", "--out", here / "ledger.jsonl", "--work", free / "work")),
        "bench without a work folder": (2, (*BENCH, "--out", free / "ledger.jsonl", "--work", here / "new")),
        "bench by default": (2, BENCH),
        "bench report": (2, ("bench", "report", "--ledger", here / "ledger.jsonl", "--markdown", here / "r.md")),
        "bench report reads": (0, ("bench", "report", "--ledger", here / "ledger.jsonl", "--markdown", free / "r.md",
                                   "--html", free / "r.html")),
        "audit": (2, ("audit", fit)),
        "audit of a run": (2, ("audit", run)),
        "audit of wann": (2, ("audit", here / "wann")),
        "audit reads": (0, ("audit", fit, "--out", free / "audit")),
        "audit of a secret": (2, ("audit", here / "secret", "--out", free / "audit2")),
        "review": (2, ("review", fit, "--no-open")),
        "review exports": (2, ("review", fit, "--export")),
        "report": (2, ("report", fit, here / "report.html")),
        "report reads": (0, ("report", fit, free / "report.html")),
        "report of a run": (0, ("report", run, free / "run.html")),
        "predict to a file": (2, ("predict", fit, rows, "--out", here / "p.csv")),
        "predict reads": (0, ("predict", fit, rows)),
        "predict by wann": (0, ("predict", here / "wann", rows)),
        "predict by a secret": (2, ("predict", here / "secret", rows)),
        "predict a secret table": (2, ("predict", fit, here / "secret.csv")),
        "evaluate": (0, ("evaluate", fit, rows)),
        "inspect": (2, ("inspect", run)),
        "inspect reads": (0, ("inspect", run, "--plots", free / "plots")),
        "augment-preview": (2, ("augment-preview", "digits", here / "views.png")),
        "demo": (2, ("demo", "--epochs", "4", "--out", here / "new")),
        "methods": (0, ("methods",)),
    }  # fmt: skip
    return {name: (code, [str(word) for word in args]) for name, (code, args) in found.items()}


def state(folder: Path) -> dict[str, Any]:
    """Everything in a folder: what it holds (of what may be read), its time and its rights."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() and about.st_mode & 0o400 else None
        found[path.relative_to(folder).as_posix()] = (content, about.st_mode, about.st_mtime_ns)
    return found


def without_leave_to_write(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)


@contextlib.contextmanager
def mounted(folder: Path, place: Path) -> Iterator[bool]:
    """The folder again, elsewhere and read-only; False where that cannot be."""
    place.mkdir()
    done = subprocess.run(["mount", "--bind", str(folder), str(place)], capture_output=True).returncode == 0
    try:
        again = ["mount", "-o", "remount,ro,bind", str(place)]
        yield done and subprocess.run(again, capture_output=True).returncode == 0
    finally:
        if done:
            subprocess.run(["umount", str(place)], check=False)


def outcome(name: str, code: int, args: list[str], folder: Path) -> str:
    """ "as it should be", or what is wrong: the exit code, more than one line, changed files."""
    before = state(folder)
    begun = time.monotonic()
    try:
        found, said = full_disk.pars(args)
    except BaseException as error:
        return f"traceback: {error!r}"
    lines = said.splitlines()
    own = [line for line in lines if line.startswith("pars ")]
    if found != code:
        return f"code {found}, expected {code}: {said[-300:]}"
    if state(folder) != before:
        return "changed what was there"
    if code == 2 and (len(own) != 1 or lines[-1] != own[0]):
        return f"not one line: {said[-300:]}"
    if time.monotonic() - begun > 300:
        return "took minutes"
    return "as it should be"


def try_all(how: str, here: Path, free: Path) -> dict[str, Any]:
    free.mkdir()
    os.chdir(here)
    outcomes = {name: outcome(name, code, args, here) for name, (code, args) in cases(here, free).items()}
    os.chdir("/")
    bad = {name: said for name, said in outcomes.items() if said != "as it should be"}
    about = {"command": "PYTHONPATH=tests python -m campaign.read_only", "how": how}
    return about | {"calls": len(outcomes), "as_they_should_be": len(outcomes) - len(bad), "bad": bad}


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        try:
            folder = Path(name) / "here"
            folder.mkdir()
            prepare(folder)
            lines = []
            with mounted(folder, Path(name) / "mounted") as done:
                if done:
                    lines.append(try_all("read-only file system", Path(name) / "mounted", Path(name) / "free1"))
                    print(json.dumps(lines[-1]), flush=True)
            without_leave_to_write(folder)
            lines.append(try_all("permissions", folder, Path(name) / "free2"))
            print(json.dumps(lines[-1]), flush=True)
        finally:
            subprocess.run(["chmod", "-R", "u+rwX", name], check=False)
    return int(any(line["bad"] for line in lines))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if os.geteuid() == 0 and os.environ.get("PARS_ORDINARY") is None:
        os.environ["PARS_ORDINARY"] = "1"
        again = [sys.executable, "-m", "campaign.read_only", *sys.argv[1:]]
        os.execvp("setpriv", ["setpriv", f"--bounding-set={RIGHTS}", *again])
    sys.exit(main())
