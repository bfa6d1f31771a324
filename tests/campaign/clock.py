"""A clock that jumps by hours while commands run, and between a kill and its repetition: the same bytes at the end.

    PYTHONPATH=tests python -m campaign.clock >> results/faults-clock.jsonl

A small library, compiled here and preloaded, answers for the wall clock: every 0.3 s it adds something else, between
400 days back and eight years ahead, the same in all processes. Monotonic time stays as it is, as where a clock is set.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from campaign import kills

SOURCE = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long jump(const struct timespec *now) {
    static const long hours[] = {3, -5, 0, 480, -9600, 70080, -1};
    return 3600 * hours[(now->tv_sec * 10 + now->tv_nsec / 100000000) / 3 % 7];
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    int code = (int)syscall(SYS_clock_gettime, clock, out);
    if (!code && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) out->tv_sec += jump(out);
    return code;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    int code = clock_gettime(CLOCK_REALTIME, &now);
    (void)zone;
    out->tv_sec = now.tv_sec, out->tv_usec = now.tv_nsec / 1000;
    return code;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
"""


def preloaded(folder: Path) -> dict[str, str] | None:
    """Environment variables that make the clock of a new process jump; None where no library can be compiled."""
    (folder / "clock.c").write_text(SOURCE)
    library = folder / "clock.so"
    if (compiler := shutil.which("cc")) is None:
        return None
    command = [compiler, "-shared", "-fPIC", "-O2", str(folder / "clock.c"), "-o", str(library)]
    if subprocess.run(command, check=False).returncode:
        return None
    variables = {"LD_PRELOAD": str(library)}
    code = "import time\nfor _ in range(8): print(time.time_ns() // 10**9); time.sleep(0.3)"
    said = subprocess.run([sys.executable, "-c", code], env=os.environ | variables, capture_output=True, text=True)
    times = [int(line) for line in said.stdout.split()]
    assert max(times) - min(times) > 365 * 86400, "the clock does not jump"
    return variables


def start(args: Sequence[str], variables: dict[str, str]) -> list[subprocess.Popen[str]]:
    """`pars ARGS` in a process of its own, or in two that train together."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    number = int(variables.get("WORLD_SIZE", "1"))
    processes = []
    for rank in range(number):
        of_rank = {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": port, "MASTER_ADDR": "127.0.0.1"}
        environment = os.environ | variables | (of_rank if number > 1 else {})
        command = [sys.executable, "-m", "pars", *args]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                          text=True))  # fmt: skip
    return processes


def run(
    kind: str, args: Sequence[str], out: Path, variables: dict[str, str], kill_after: float | None = None
) -> tuple[int, str]:
    """Exit code and stderr of a command; -9 where it was killed."""
    if kind == "encode":
        Path(args[2]).parent.mkdir(exist_ok=True)
    if args[0] == "train" and (out / "config.toml").exists():
        args = ["resume", str(out)]
    both = {"WORLD_SIZE": "2"} if kind == "processes" else {}
    processes = start(args, variables | both)
    if kill_after is not None:
        time.sleep(kill_after)
        for process in processes:
            process.kill()
    said = [process.communicate(timeout=900)[1] for process in processes]
    return max((process.returncode for process in processes), key=abs), "".join(said)


def odd_lines(said: str) -> list[str]:
    """What a jumping clock could spoil: a traceback, a negative rate or time left, one of more than an hour."""
    lines = [line for line in said.splitlines() if "Traceback" in line or re.search(r"-\d+ (rows/s|s left)", line)]
    return lines + [line for line in said.splitlines() if (m := re.search(r"(\d+) s left", line)) and int(m[1]) > 3600]


def outcome(kind: str, args: list[str], out: Path, variables: dict[str, str]) -> dict[str, Any]:
    """A command at a steady clock, at one that jumps, and killed at one time of day and repeated at another."""
    begun = time.monotonic()
    code, said = run(kind, args, out, {})
    seconds = time.monotonic() - begun
    assert code == 0, said
    whole = kills.snapshot(out)
    found: dict[str, Any] = {"kind": kind}
    for how in ("jumping", "killed and repeated"):
        shutil.rmtree(out)
        if how != "jumping":
            run(kind, args, out, variables, kill_after=0.6 * seconds)
        code, said = run(kind, args, out, variables)
        files = kills.snapshot(out)
        different = sorted(name for name in {*whole, *files} if whole.get(name) != files.get(name))
        # `encode` does not write over a file that is whole: it may have been killed after its last byte.
        ended = code == 0 or (kind == "encode" and how != "jumping" and "exists" in said)
        found[how] = {"identical": ended and not different, "code": code, "different": different,
                      "odd": odd_lines(said)}  # fmt: skip
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=kills.KINDS, default=kills.KINDS)
    options = parser.parse_args()
    about = {"command": "PYTHONPATH=tests python -m campaign.clock"}
    bad = False
    with tempfile.TemporaryDirectory() as name:
        if (variables := preloaded(Path(name))) is None:
            print(json.dumps(about | {"skipped": "no C compiler"}))
            return 0
        every = kills.commands(Path(name))
        for kind in options.only:
            out = Path(name) / "out"
            shutil.rmtree(out, ignore_errors=True)
            line = outcome(kind, every[kind], out, variables)
            bad |= any(not line[how]["identical"] or line[how]["odd"] for how in ("jumping", "killed and repeated"))
            print(json.dumps(about | line), flush=True)
    return int(bad)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
