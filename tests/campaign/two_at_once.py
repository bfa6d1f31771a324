"""Two processes on one folder, begun at random moments: one works, the other waits, says so, or finds it done.

    PYTHONPATH=tests python -m campaign.two_at_once >> results/faults-two-at-once.jsonl

The same command twice; and a command that reads what the other one writes. In the end the folder is, after the command
once more, what one undisturbed process leaves.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np

from campaign import kills

PRELOAD = ["pars.cli.audit", "pars.cli.predict", "pars.cli.report", "pars.cli.inspect", "pars.cli.evaluate",
           "pars.cli.review", "pars.html_report", "pars.reviewing"]  # fmt: skip
FINE = ("in use by another process", "exists", "already holds a run", "is being reviewed already")
UNFINISHED = ("is not a run", "is not finished", "is missing", "no finished", "does not exist", "not a folder",
              "recorded no", "has no", "train")  # fmt: skip


def pairs(folder: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Two commands by name; the first one makes the folder `out`."""
    every = {name: args for name, args in kills.commands(folder).items() if name != "processes"}
    every["train"] = [word if word != "6" else "30" for word in every["train"]]
    out, rows = str(folder / "out"), str(folder / "rows.csv")
    found = {name: (args, args) for name, args in every.items()}
    readers = {"audit": ["audit", out], "predict": ["predict", out, rows, "--out", str(folder / "p.csv")],
               "report": ["report", out, str(folder / "report.html")], "inspect": ["inspect", out],
               "review": ["review", out, "--export"]}  # fmt: skip
    found |= {f"fit and {name}": (every["fit"], args) for name, args in readers.items()}
    found |= {f"train and {name}": (every["train"], readers[name]) for name in ("audit", "inspect", "report")}
    found |= {f"{name} twice": (args, args) for name, args in readers.items()}
    return found


def work(args: list[str], said: str) -> None:
    """The command, its stderr in a file."""
    with open(said, "w") as file:  # noqa: PTH123
        os.dup2(file.fileno(), 2)
        os.dup2(file.fileno(), 1)
        kills.work_loudly(args)


class Runner(kills.Commands):
    def begin(self, args: list[str], said: Path) -> ForkServerProcess:
        process = self.context.Process(target=work, args=(args, str(said)))
        process.start()
        return process


def ends_well(code: int | None, said: str, reads: bool) -> bool:
    """Done, or refused in one line for a reason that has to do with the other process."""
    if "Traceback" in said:
        return False
    return code == 0 or (code == 2 and any(words in said for words in FINE + (UNFINISHED if reads else ())))


def trial(runner: Runner, name: str, pair: tuple[list[str], list[str]], folder: Path, whole: dict[str, Any],
          seconds: float, rng: np.random.Generator) -> dict[str, Any]:  # fmt: skip
    first, second = pair
    out = folder / "out"
    reads = first != second
    if not name.endswith("twice"):
        shutil.rmtree(out, ignore_errors=True)
    if name == "encode":
        out.mkdir()
    files = [folder / "said1", folder / "said2"]
    delay = float(rng.choice([0, rng.uniform(0, seconds)]))
    one = runner.begin(first, files[0])
    time.sleep(delay)
    two = runner.begin(second, files[1])
    for process in (one, two):
        process.join(600)
    codes = [one.exitcode, two.exitcode]
    said = [file.read_text()[-2000:] for file in files]
    well = ends_well(codes[0], said[0], False) and ends_well(codes[1], said[1], reads) and 0 in codes
    found = without_reports(kills.snapshot(out))
    different = sorted(n for n in {*whole, *found} if whole.get(n) != found.get(n)) if name[-5:] != "twice" else []
    line = {"pair": name, "delay": round(delay, 2), "codes": codes, "well": well, "different": different}
    return line if well and not different else line | {"said": [text[-400:] for text in said]}


def without_reports(files: dict[str, Any]) -> dict[str, Any]:
    """Without what the reading commands add to the folder."""
    return {name: content for name, content in files.items() if not name.startswith(("plots/", "review/", "audit/"))
            and "/plots/" not in name}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=3, help="of each pair")
    parser.add_argument("--only", nargs="+")
    options = parser.parse_args()
    kills.PRELOAD.extend(PRELOAD)
    runner, rng, bad, total = Runner(), np.random.default_rng(5), 0, 0
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wholes: dict[str, tuple[dict[str, Any], float]] = {}
        for pair, (first, second) in pairs(folder).items():
            if options.only and pair not in options.only:
                continue
            made_by = next(args for name, (args, _) in pairs(folder).items() if name == "fit") if first[0] not in (
                "fit", "train", "compare", "encode", "bench") else first  # fmt: skip
            key = " ".join(made_by)
            if key not in wholes or pair.endswith("twice"):
                shutil.rmtree(folder / "out", ignore_errors=True)
                begun = time.monotonic()
                assert runner.run("", made_by).code == 0
                wholes[key] = without_reports(kills.snapshot(folder / "out")), time.monotonic() - begun
            for _ in range(options.trials):
                whole, seconds = wholes[key]
                line = trial(runner, pair, (first, second), folder, whole, seconds, rng)
                total += 1
                bad += not line["well"] or bool(line["different"])
                lines.append(line)
                print(json.dumps({"command": "PYTHONPATH=tests python -m campaign.two_at_once", **line}), flush=True)
    print(json.dumps({"trials": total, "bad": bad}), file=sys.stderr)
    return int(bad > 0)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
