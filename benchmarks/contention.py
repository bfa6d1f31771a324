"""How much slower a run is where other processes use the cores: 12 epochs on digits, idle and beside two busy loops.

    python benchmarks/contention.py --json      # on a machine that does nothing else

The three kinds of runs alternate; times are medians in seconds of wall time, start of Python included:
`idle`, `busy` (two processes that never sleep run, too) and `idle_two_threads` (`OMP_NUM_THREADS=2` and libgomp's own
waiting, as before the number of threads was chosen). `ratio` is busy / idle.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

SOURCE = Path(__file__).resolve().parents[1] / "src"
FLAGS = "--preset digits --noise.kind symmetric --noise.rate 0.5 --train.epochs 12"
LOOP = "while True: pass"
SETTINGS = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
BEFORE = {"OMP_NUM_THREADS": "2", "GOMP_SPINCOUNT": "300000"}  # libgomp's default, where no policy is set


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each kind")
    parser.add_argument("--processes", type=int, default=2, help="busy processes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    found: dict[str, list[float]] = {"idle": [], "idle_two_threads": [], "busy": []}
    timed_run({})  # the first one reads files from disk
    for _ in range(options.repeats):
        found["idle"].append(timed_run({}))
        found["idle_two_threads"].append(timed_run(BEFORE))
        with busy(options.processes):
            found["busy"].append(timed_run({}))
    medians = {name: round(median(times), 2) for name, times in found.items()}
    result = {
        **medians,
        "ratio": round(medians["busy"] / medians["idle"], 2),
        "idle_over_two_threads": round(medians["idle"] / medians["idle_two_threads"], 3),
        "runs": {name: [round(seconds, 2) for seconds in times] for name, times in found.items()},
        "cores": os.cpu_count(),
    }
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))


def timed_run(environment: dict[str, str]) -> float:
    """Seconds that a run takes in a process of its own."""
    env = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    env |= {"PYTHONPATH": str(SOURCE)} | environment
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pars", "train", *FLAGS.split(), "--out", f"{folder}/run"]
        start = time.perf_counter()
        subprocess.run(command, env=env, check=True, capture_output=True)
        return time.perf_counter() - start


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that compute without a pause."""
    started = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(processes)]
    try:
        time.sleep(1)  # they are at it before the run measures how busy the cores are
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
