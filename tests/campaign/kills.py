"""SIGKILL at random moments of six commands; the same command again, and each ends in the same bytes.

    python tests/campaign/kills.py --kills 100 --out results/faults-kills.jsonl

A trial kills a command up to three times, each at a random moment of an undisturbed run's time, then lets it end and
compares every file with those of the undisturbed run. Every trial adds a line to the file; the same call continues
after the last line, and says what the file adds up to.

Of two processes that train together a random one is killed and then, as torchrun does it, the other. Of `bench` it is
the runner, its cell, or both. `bench` keeps its run folders, and its ledger is compared without times and in any order.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np

PRELOAD = ["pars.cli.fit", "pars.cli.train", "pars.cli.encode", "pars.cli.compare", "pars.cli.bench", "pars.cli.resume",
           "pars.fitting.pipeline", "pars.run.train", "sklearn.datasets", "sklearn.decomposition",
           "torch._dynamo"]  # fmt: skip
SMALL = ["--data.limit", "200", "--train.epochs", "6", "--model.name", "linear", "--train.checkpoint-seconds", "0"]
NOISE = ["--noise.kind", "symmetric", "--noise.rate", "0.4"]
TIMES = ("seconds", "core_seconds", "commit")  # of a line of the ledger; somebody may commit meanwhile
KINDS = ("fit", "train", "compare", "encode", "processes", "bench")


def commands(folder: Path) -> dict[str, list[str]]:
    """The commands by name, and the files that they read; OUT is the same path in every trial."""
    rng = np.random.default_rng(0)
    lines = [f"{2 * (row % 2) + rng.random():.4f},{rng.random():.4f},{'ab'[row % 2]}" for row in range(120)]
    (folder / "rows.csv").write_text("u,v,label\n" + "\n".join(lines) + "\n")
    words = [f'"{" ".join(f"w{number}" for number in rng.integers(0, 60, 12))}",{"ab"[row % 2]}' for row in range(300)]
    (folder / "texts.csv").write_text("text,label\n" + "\n".join(words) + "\n")
    out = str(folder / "out")
    text = ["--text", "text", "--label", "label", "--encoder", "tfidf", "--batch", "5"]
    table = ["table1", "--scale", "smoke", "--seeds", "1", "--cols", "cifar10-sym-50", "--rows", "ce,wann", "--keep"]
    return {
        "fit": ["fit", str(folder / "rows.csv"), "--label", "label", "--out", out],
        "train": ["train", "--method", "pars", *NOISE, *SMALL, "--out", out],
        "compare": ["compare", "--methods", "ce,elr", *SMALL, "--out", out],
        "encode": ["encode", str(folder / "texts.csv"), f"{out}/x.npz", *text],
        "processes": ["train", "--method", "elr", *NOISE, *SMALL, "--out", out],
        "bench": ["bench", *table, "--out", f"{out}/ledger.jsonl", "--work", f"{out}/work"],
    }


def work(args: list[str], variables: dict[str, str]) -> None:
    """What a person would type, again and again; `pars train` is resumed by its own command."""
    os.environ.update(variables)
    sys.stderr = sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    work_loudly(args)


def work_loudly(args: list[str]) -> None:
    """The same, heard."""
    import torch

    from pars.cli import main

    torch.set_num_threads(1)
    if args[0] == "encode":
        Path(args[2]).parent.mkdir(exist_ok=True)
    if args[0] == "train" and (Path(args[-1]) / "config.toml").exists():
        args = ["resume", args[-1]]
    sys.exit(main(args))


def snapshot(folder: Path) -> dict[str, Any]:
    """Every file but locks; lines of a ledger without what differs from run to run, sorted.

    A cell that outlives its killed runner is left for the end by the next runner, if it still trains then.
    """
    files = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}
    found: dict[str, Any] = {name: file.read_bytes() for name, file in files.items() if "lock" not in name}
    for name in found:
        if Path(name).name in ("ledger.jsonl", "line.json"):
            lines = [json.loads(text) for text in found[name].splitlines()]
            kept = [{key: value for key, value in line.items() if key not in TIMES} for line in lines]
            found[name] = sorted(kept, key=lambda line: str(line["cell"]))
    return found


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    found: list[int] = []
    with suppress(OSError):
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            found += [int(text) for text in file.read_text().split()]
    return found


class Commands:
    """Processes forked from a server that has imported everything."""

    def __init__(self) -> None:
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(PRELOAD)

    def run(self, kind: str, args: list[str], kill: tuple[float, np.random.Generator] | None = None) -> Ended:
        """Run a command to its end, or kill it after so many seconds."""
        begun = time.monotonic()
        processes = self._start(args, 2 if kind == "processes" else 1)
        struck = []
        if kill is not None:
            after, rng = kill
            processes[0].join(after)
            if processes[0].is_alive():
                struck = self._kill(kind, processes, rng)
        for process in processes:
            process.join(600)
            assert not process.is_alive(), f"{kind} hangs"
        return Ended(processes[0].exitcode, time.monotonic() - begun, struck)

    def _start(self, args: list[str], number: int) -> list[ForkServerProcess]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        of_all = {"WORLD_SIZE": str(number), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        variables: list[dict[str, str]] = [{}]
        if number > 1:
            variables = [of_all | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(number)]
        processes = [self.context.Process(target=work, args=(args, each)) for each in variables]
        for process in processes:
            process.start()
        return processes

    def _kill(self, kind: str, processes: list[ForkServerProcess], rng: np.random.Generator) -> list[str]:
        """Kill a command that runs; what was killed."""
        if kind == "processes":
            first = int(rng.integers(2))
            processes[first].kill()
            time.sleep(float(rng.uniform(0, 0.3)))
            processes[1 - first].kill()
            return [f"rank {first}"]
        struck = []
        which = str(rng.choice(("runner", "cell", "both"))) if kind == "bench" else "runner"
        cells = children(processes[0].pid or 0) if kind == "bench" else []
        if which != "cell" or not cells:
            processes[0].kill()
            struck.append("runner")
        if which != "runner":
            for cell in cells:
                with suppress(OSError):
                    os.kill(cell, signal.SIGKILL)
                    struck.append("cell")
        return struck


class Ended:
    """How a command ended: exit code, seconds, what was killed."""

    def __init__(self, code: int | None, seconds: float, killed: list[str]) -> None:
        self.code, self.seconds, self.killed = code, seconds, killed


def trial(runner: Commands, kind: str, args: list[str], out: Path, undisturbed: tuple[dict[str, Any], float],
          rng: np.random.Generator) -> dict[str, Any]:  # fmt: skip
    """Kill up to three times, end, compare."""
    whole, seconds = undisturbed
    shutil.rmtree(out, ignore_errors=True)
    kills: list[dict[str, Any]] = []
    for _ in range(int(rng.integers(1, 4))):
        after = float(rng.uniform(0, seconds))
        ended = runner.run(kind, args, (after, rng))
        if not ended.killed:
            found = snapshot(out)
            break
        kills.append({"seconds": round(after, 3), "of": ended.killed})
        if ended.code == 0:  # of `bench` only the cell was killed, and it began that again
            found = snapshot(out)
            break
    else:
        ended, found = runner.run(kind, args), snapshot(out)
    different = sorted(name for name in {*whole, *found} if whole.get(name) != found.get(name))
    return {"kills": kills, "code": ended.code, "different": different}


def trials(options: argparse.Namespace, first: int, kills: int) -> Iterator[dict[str, Any]]:
    """Trials from number `first` on, until there are so many kills."""
    runner, begun = Commands(), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        out, every = Path(name) / "out", commands(Path(name))
        wholes: dict[str, tuple[dict[str, Any], float]] = {}
        numbers = itertools.count(first) if options.again is None else iter(options.again)
        while kills < options.kills and time.monotonic() - begun < 60 * options.minutes:
            if (number := next(numbers, None)) is None:
                return
            kind = options.only[number % len(options.only)]
            if kind not in wholes:
                for _ in range(1 if kind == "bench" else 2):  # the first is slower: it reads data sets from disk
                    shutil.rmtree(out, ignore_errors=True)
                    ended = runner.run(kind, every[kind])
                    assert ended.code == 0, f"{kind} ends with {ended.code} undisturbed"
                wholes[kind] = snapshot(out), ended.seconds
            rng = np.random.default_rng([7, options.seed, number])
            done = trial(runner, kind, every[kind], out, wholes[kind], rng)
            # `encode` does not write over a file that is whole: it may have been killed after its last byte.
            same = not done["different"] and (done["code"] == 0 or kind == "encode")
            kills += len(done["kills"])
            yield {"trial": number, "kind": kind, "identical": same, **done}


def summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Kills, finishes after at least one, and how many of those are identical; trials that no kill hit stand apart."""
    by_kind = {}
    for kind in KINDS:
        of_kind = [line for line in lines if line["kind"] == kind]
        by_kind[kind] = {
            "kills": sum(len(line["kills"]) for line in of_kind),
            "finishes": sum(bool(line["kills"]) for line in of_kind),
            "identical": sum(line["identical"] for line in of_kind if line["kills"]),
            "ended_before_the_kill": sum(not line["kills"] for line in of_kind),
        }
    return {key: sum(each[key] for each in by_kind.values()) for key in by_kind["fit"]} | {"by_kind": by_kind}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no trial after this")
    parser.add_argument("--again", nargs="+", type=int, metavar="TRIAL", help="only these, after mending")
    parser.add_argument("--out", type=Path, help="continue this file; default: only print")
    options = parser.parse_args()
    command = f"python tests/campaign/kills.py --kills {options.kills} --seed {options.seed}"
    lines: list[dict[str, Any]] = []
    if options.out is not None and options.out.exists():
        lines = [json.loads(text) for text in options.out.read_text().splitlines()]
    first = max((line["trial"] for line in lines), default=-1) + 1
    for line in trials(options, first, sum(len(each["kills"]) for each in lines)):
        lines.append({"command": command, **line})
        print(json.dumps(lines[-1]), flush=True)
        if options.out is not None:
            with options.out.open("a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    print(json.dumps(summary(lines)))
    return 0 if all(line["identical"] for line in lines) else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
