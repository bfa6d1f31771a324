"""A disk that is full at each write of a fit: one message, exit code 2; with space again it ends in the same bytes.

    python tests/campaign/full_disk.py >> results/faults-full-disk.jsonl

Twice: the k-th write fails with ENOSPC, for every k; and, where file systems may be mounted, on a tmpfs of every size.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

METHODS = ("ce", "logistic-regression")


def arguments(folder: Path, method: str, out: Path) -> list[str]:
    rows = folder / "rows.csv"
    if not rows.exists():
        rng = np.random.default_rng(0)
        lines = [f"{2 * (row % 2) + rng.random():.4f},{rng.random():.4f},{'ab'[row % 2]}" for row in range(80)]
        rows.write_text("u,v,label\n" + "\n".join(lines) + "\n")
    return ["fit", str(rows), "--label", "label", "--method", method, "--no-baseline", "--out", str(out)]


def pars(args: list[str]) -> tuple[int, str]:
    """Exit code and stderr of the command, in this process."""
    from pars.cli import main

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main(args)
    return code, said.getvalue()


@contextlib.contextmanager
def full_at(number: int) -> Iterator[list[str]]:
    """The number-th write to a file fails as on a full disk, and all after it; yields what was written before."""
    written: list[str] = []
    sync, open_ = os.fsync, Path.open

    def count(what: str) -> None:
        written.append(what)
        if len(written) >= number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fsync(handle: int) -> None:
        count("file")
        sync(handle)

    def opened(self: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        if mode == "a":
            count(self.name)
        return open_(self, mode, *args, **options)

    with mock.patch.object(os, "fsync", fsync), mock.patch.object(Path, "open", opened):
        yield written


def snapshot(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def try_write(folder: Path, method: str, whole: dict[str, bytes], number: int) -> str:
    """The outcome of a disk that is full at that write."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    args = arguments(folder, method, out)
    with full_at(number):
        code, said = pars(args)
    if code != 2 or "no space left" not in said or "Traceback" in said:
        return f"code {code}: {said[-300:]}"
    half = [name for name in snapshot(out) if name.endswith(".part")] if out.exists() else []
    if half:
        return f"left {half}"
    code, said = pars(args)
    if code != 0:
        return f"resumed with code {code}: {said[-300:]}"
    return "resumed" if snapshot(out) == whole else "other bytes"


def every_write(folder: Path, method: str, step: int = 1) -> dict[str, Any]:
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    with full_at(sys.maxsize) as written:
        code, said = pars(arguments(folder, method, out))
    assert code == 0, said
    whole = snapshot(out)
    outcomes = {number: try_write(folder, method, whole, number) for number in range(1, len(written) + 1, step)}
    bad = {number: outcome for number, outcome in outcomes.items() if outcome != "resumed"}
    return {"method": method, "writes": len(written), "tried": len(outcomes), "resumed": len(outcomes) - len(bad),
            "bad": bad}  # fmt: skip


def small_tmpfs(folder: Path, method: str, sizes: int) -> dict[str, Any] | None:
    """The fit on a tmpfs of several sizes, then the same folder with space; None where nothing can be mounted."""
    place = folder / "tmpfs"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        return None
    outcomes = []
    try:
        args = arguments(folder, method, place / "out")
        code, said = pars(args)
        assert code == 0, said
        whole = snapshot(place / "out")
        pages = -(-sum(4096 * -(-len(content) // 4096) for content in whole.values()) // 4096) + 8
        for size in sorted({max(2, pages * at // sizes) for at in range(1, sizes)}):
            shutil.rmtree(place / "out")
            subprocess.run(["mount", "-o", f"remount,size={4096 * size}", str(place)], check=True)
            code, said = pars(args)
            clear = code == 0 or (code == 2 and "Traceback" not in said and "space" in said)
            subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
            again, then = pars(args)
            same = again == 0 and snapshot(place / "out") == whole
            outcome = "resumed" if clear and same else f"{code} {said[-200:]} then {again} {then[-200:]}"
            outcomes.append({"kilobytes": 4 * size, "full": code == 2, "outcome": outcome})
    finally:
        subprocess.run(["umount", str(place)], check=False)
    bad = [each for each in outcomes if each["outcome"] != "resumed"]
    return {"method": method, "sizes": len(outcomes), "full": sum(each["full"] for each in outcomes),
            "resumed": len(outcomes) - len(bad), "bad": bad}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, default=10, help="of the tmpfs")
    options = parser.parse_args()
    bad = False
    for method in METHODS:
        for how in ("every write", "tmpfs"):
            with tempfile.TemporaryDirectory() as name:
                found = (
                    every_write(Path(name), method)
                    if how == "every write"
                    else small_tmpfs(Path(name), method, options.sizes)
                )
            print(
                json.dumps(
                    {"command": "python tests/campaign/full_disk.py", "how": how} | (found or {"skipped": True})
                ),
                flush=True,
            )
            bad = bad or bool(found and found["bad"])
    return int(bad)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
