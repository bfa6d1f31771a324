"""SIGKILL at random moments of `fit`, `train`, `encode` and `compare`; run again, each ends in the same bytes.

    python tests/campaign/kills.py --kills 100 >> results/faults-kills.jsonl

A trial kills a command up to three times, each at a random moment of an undisturbed run's time, then lets it end and
compares every file with those of the undisturbed run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

PRELOAD = ["pars.cli.fit", "pars.cli.train", "pars.cli.encode", "pars.cli.compare", "pars.fitting.pipeline",
           "pars.run.train", "sklearn.datasets", "sklearn.decomposition", "torch._dynamo"]  # fmt: skip
SMALL = ["--data.limit", "200", "--train.epochs", "6", "--model.name", "linear", "--train.checkpoint-seconds", "0"]


def commands(folder: Path) -> dict[str, list[str]]:
    """The commands by name, and the files that they read; OUT is the same path in every trial."""
    rng = np.random.default_rng(0)
    lines = [f"{2 * (row % 2) + rng.random():.4f},{rng.random():.4f},{'ab'[row % 2]}" for row in range(120)]
    (folder / "rows.csv").write_text("u,v,label\n" + "\n".join(lines) + "\n")
    words = [f'"{" ".join(f"w{number}" for number in rng.integers(0, 60, 12))}",{"ab"[row % 2]}' for row in range(300)]
    (folder / "texts.csv").write_text("text,label\n" + "\n".join(words) + "\n")
    out = str(folder / "out")
    text = ["--text", "text", "--label", "label", "--encoder", "tfidf", "--batch", "5"]
    return {
        "fit": ["fit", str(folder / "rows.csv"), "--label", "label", "--out", out],
        "train": [
            "train",
            "--method",
            "pars",
            "--noise.kind",
            "symmetric",
            "--noise.rate",
            "0.4",
            *SMALL,
            "--out",
            out,
        ],
        "compare": ["compare", "--methods", "ce,elr", *SMALL, "--out", out],
        "encode": ["encode", str(folder / "texts.csv"), f"{out}/x.npz", *text],
    }


def work(args: list[str]) -> None:
    """What a person would type, again and again; `pars train` is resumed by its own command."""
    import torch

    from pars.cli import main

    torch.set_num_threads(1)
    sys.stderr = sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    if args[0] == "encode":
        Path(args[2]).parent.mkdir(exist_ok=True)
    if args[0] == "train" and (Path(args[-1]) / "config.toml").exists():
        args = ["resume", args[-1]]
    sys.exit(main(args))


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file but locks."""
    files = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}
    return {name: file.read_bytes() for name, file in files.items() if "lock" not in name}


class Commands:
    """Processes forked from a server that has imported everything."""

    def __init__(self) -> None:
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(PRELOAD)

    def run(self, args: list[str], kill_after: float | None = None) -> tuple[int | None, float]:
        """Exit code and seconds of a command, killed after so many seconds."""
        process = self.context.Process(target=work, args=(args,))
        begun = time.monotonic()
        process.start()
        process.join(kill_after)
        if process.is_alive():
            process.kill()
        process.join()
        return process.exitcode, time.monotonic() - begun


def trial(
    runner: Commands, args: list[str], out: Path, whole: dict[str, bytes], seconds: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Kill up to three times, end, compare."""
    shutil.rmtree(out, ignore_errors=True)
    kills = 0
    for _ in range(int(rng.integers(1, 4))):
        code, _ = runner.run(args, float(rng.uniform(0, seconds)))
        if code is not None and code < 0:
            kills += 1
        else:
            break
    code, _ = runner.run(args)
    found = snapshot(out)
    different = sorted(name for name in {*whole, *found} if whole.get(name) != found.get(name))
    return {"kills": kills, "code": code, "different": different}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=("fit", "train", "compare", "encode"))
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no trial after this")
    options = parser.parse_args()
    rng = np.random.default_rng([7, options.seed])
    begun, runner = time.monotonic(), Commands()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        out, every = folder / "out", commands(folder)
        chosen = {key: args for key, args in every.items() if options.only is None or key in options.only}
        wholes: dict[str, tuple[dict[str, bytes], float]] = {}
        totals = {key: {"kills": 0, "finishes": 0, "identical": 0} for key in chosen}
        order = list(chosen)
        number = 0
        while sum(t["kills"] for t in totals.values()) < options.kills:
            if time.monotonic() - begun > 60 * options.minutes:
                break
            key = order[number % len(order)]
            number += 1
            if key not in wholes:
                shutil.rmtree(out, ignore_errors=True)
                code, seconds = runner.run(chosen[key])
                assert code == 0, f"{key} ends with {code} undisturbed"
                wholes[key] = snapshot(out), seconds
            done = trial(runner, chosen[key], out, *wholes[key], rng)
            same = done["code"] == 0 and not done["different"]
            totals[key]["kills"] += done["kills"]
            totals[key]["finishes"] += 1
            totals[key]["identical"] += same
            if not same:
                print(f"{key}: {done}", file=sys.stderr, flush=True)
    line = {
        "command": f"python tests/campaign/kills.py --kills {options.kills} --seed {options.seed}",
        "kills": sum(t["kills"] for t in totals.values()),
        "finishes": sum(t["finishes"] for t in totals.values()),
        "identical": sum(t["identical"] for t in totals.values()),
        "by_command": totals,
    }
    print(json.dumps(line))
    return 0 if line["identical"] == line["finishes"] else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
