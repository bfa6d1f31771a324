"""Folders that earlier versions wrote, finished and killed half-way, given to every command of this one.

    PYTHONPATH=tests python -m campaign.old_folders >> results/faults-old-folders.jsonl

An upgrade in the middle of the work: earlier sources, taken from git, begin a fit, a run and a comparison; this version
goes on with them, or refuses in one line and leaves every byte as it was. A run of another format is always refused.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from campaign import full_disk, kills

VERSIONS = {"873c6cd": 1, "482a8f3": 2, "713be52": 2}  # commits by the format of their run folders
SMALL = ("--data.limit", "200", "--train.epochs", "300", "--model.name", "linear", "--train.checkpoint-seconds", "0")
NOW = 2


def sources(commit: str, folder: Path) -> Path:
    archive = subprocess.run(["git", "archive", commit, "src"], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


def old(source: Path, args: list[str], until: Path | None = None) -> None:
    """An earlier `pars ARGS`: to its end, or killed as soon as `until` has two lines."""
    environment = os.environ | {"PYTHONPATH": str(source)}
    process = subprocess.Popen([sys.executable, "-m", "pars", *args], env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    while until is not None and process.poll() is None:
        if until.exists() and until.read_bytes().count(b"\n") > 1:
            process.kill()
        time.sleep(0.01)
    said = process.communicate()[1]
    assert process.returncode == (0 if until is None else -9), said


def prepare(source: Path, folder: Path) -> None:
    """fit, run: finished; fit-begun, run-begun, compare-begun: killed in their first epochs."""
    kills.commands(folder)
    fit = ["fit", str(folder / "rows.csv"), "--label", "label", "--method", "ce", "--out"]
    old(source, [*fit, str(folder / "fit")])
    old(source, [*fit, str(folder / "fit-begun")], folder / "fit-begun" / "robust" / "metrics.jsonl")
    train = ["train", "--method", "ce", *SMALL, "--out"]
    old(source, [*train, str(folder / "run-begun")], folder / "run-begun" / "metrics.jsonl")
    old(source, [word if word != "300" else "3" for word in [*train, str(folder / "run")]])
    compare = ["compare", "--methods", "ce,elr", *SMALL, "--out", str(folder / "compare-begun")]
    old(source, compare, folder / "compare-begun" / "elr" / "metrics.jsonl")
    shutil.copytree(folder / "fit", folder / "fit-mixed")  # this version trained the one run, the earlier one the other
    shutil.rmtree(folder / "fit-mixed" / "robust")
    code, said = full_disk.pars([*fit, str(folder / "new")])
    assert code == 0, said
    shutil.copytree(folder / "new" / "robust", folder / "fit-mixed" / "robust")


def cases(folder: Path) -> dict[str, list[str]]:
    rows, page = folder / "rows.csv", folder / "page.html"
    found: dict[str, tuple[object, ...]] = {}
    for fit in ("fit", "fit-begun", "fit-mixed"):
        out = folder / fit
        command = ("fit", rows, "--label", "label", "--method", "ce", "--out", out)
        found |= {f"{fit}: fit": command, f"{fit}: audit": ("audit", out), f"{fit}: report": ("report", out, page),
                  f"{fit}: predict": ("predict", out, rows), f"{fit}: evaluate": ("evaluate", out, rows),
                  f"{fit}: inspect": ("inspect", out), f"{fit}: review": ("review", out, "--export")}  # fmt: skip
    for run in ("run", "run-begun"):
        out = folder / run
        found |= {f"{run}: resume": ("resume", out), f"{run}: train": ("train", "--method", "ce", *SMALL, "--out", out),
                  f"{run}: audit": ("audit", out), f"{run}: report": ("report", out, page),
                  f"{run}: inspect": ("inspect", out), f"{run}: predict": ("predict", out, "digits"),
                  f"{run}: evaluate": ("evaluate", out, "digits")}  # fmt: skip
    compare = ("compare", "--methods", "ce,elr", *SMALL, "--out", folder / "compare-begun")
    found["compare-begun: compare"] = compare
    return {name: [str(word) for word in args] for name, args in found.items()}


def lasting(folder: Path) -> dict[str, bytes]:
    """Without what a killed process leaves, and the next one removes."""
    files = full_disk.snapshot(folder)
    return {name: content for name, content in files.items() if Path(name).name != "lock" and ".part" not in name}


def outcome(name: str, args: list[str], folder: Path, version: int) -> tuple[str, str]:
    """What came of a call: "goes on", "refused", or what is wrong with it; and its last line."""
    touched = folder / name.partition(":")[0]
    kept = folder / "kept"
    shutil.copytree(touched, kept)
    before = lasting(touched)
    try:
        code, said = full_disk.pars(args)
    except BaseException as error:
        code, said = 1, f"traceback: {error!r}"
    after = lasting(touched)
    shutil.rmtree(touched)
    kept.rename(touched)
    own = [line for line in said.splitlines() if line.startswith("pars ")]
    last = (said.splitlines() or [""])[-1].replace(str(folder), "")
    if code == 2 and len(own) == 1 and after == before:
        return "refused", last
    if code == 0 and (version == NOW or name == "fit-mixed: inspect"):  # it reads only the run of this version
        return "goes on", ""
    changed = sorted(each for each in {*before, *after} if before.get(each) != after.get(each))
    return f"code {code}, changed {changed[:5]}", last


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--versions", nargs="+", default=list(VERSIONS), metavar="COMMIT")
    options = parser.parse_args()
    bad = 0
    for commit in options.versions:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "work"
            folder.mkdir()
            prepare(sources(commit, Path(name)), folder)
            version = VERSIONS.get(commit, NOW)
            outcomes = {name: outcome(name, args, folder, version) for name, args in cases(folder).items()}
        wrong = {name: found for name, found in outcomes.items() if found[0] not in ("goes on", "refused")}
        bad += len(wrong)
        refusals: dict[str, list[str]] = {}
        for case, (what, said) in outcomes.items():
            if what == "refused":
                refusals.setdefault(said.partition(": ")[2], []).append(case)
        line = {"command": "PYTHONPATH=tests python -m campaign.old_folders", "from": commit, "format": version,
                "calls": len(outcomes), "go_on": sum(what == "goes on" for what, _ in outcomes.values()),
                "refused": sum(what == "refused" for what, _ in outcomes.values()), "bad": wrong,
                "refusals": refusals}  # fmt: skip
        print(json.dumps(line, ensure_ascii=False), flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
