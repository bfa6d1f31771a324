"""How often a fit says that robust training helped or hurt where labels have nothing to do with the rows.

    python benchmarks/verdict_null.py            # 200 fits, results/verdict-null.jsonl, an hour or two of one core
    python benchmarks/verdict_null.py --show     # only print what is there

Nobody can predict such labels, so every classifier is equally accurate, and each "helped" and "hurt" is an error. Half
of the sets are normal features with random labels of 2, 3, 5 or 10 classes, half are digits whose labels were
shuffled; 300 or 600 rows each. At most 5 % errors are expected, for intervals are of 95 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch

import pars

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks import audit_null

PATH = Path(__file__).parent.parent / "results" / "verdict-null.jsonl"
KINDS = {"no signal": 100, "shuffled": 100}


def judge(kind: str, seed: int) -> dict[str, Any]:
    x, given, _ = audit_null.rows(kind, seed)
    some = slice(300 if seed % 2 else None)
    begun = time.process_time()
    result = pars.fit(x[some], given[some], seed=seed)
    gain = result.held_out_gain
    assert gain is not None
    return {
        "rows": len(given[some]),
        "verdict": result.verdict,
        "gain": [round(value, 4) for value in (gain.low, gain.gain, gain.high)],
        "first_line": str(result).splitlines()[0],
        "cpu_seconds": round(time.process_time() - begun, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="only print what is there")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    lines = [json.loads(line) for line in PATH.read_text().splitlines()] if PATH.exists() else []
    have = {(line["kind"], line["seed"]) for line in lines}
    for seed in range(0 if options.show else max(KINDS.values())):
        for kind, draws in KINDS.items():
            if seed < draws and (kind, seed) not in have:
                lines.append({"kind": kind, "seed": seed, **judge(kind, seed)})
                with PATH.open("a") as file:
                    file.write(json.dumps(lines[-1] | {"command": "python benchmarks/verdict_null.py"}) + "\n")
    print("| kind | sets | helped | hurt | inconclusive | cannot judge |\n|---|---|---|---|---|---|")
    for kind in KINDS:
        here = [line for line in lines if line["kind"] == kind]
        count = Counter(line["verdict"] for line in here)
        said = sum(line["first_line"].startswith("Cannot judge") for line in here)
        print(f"| {kind} | {len(here)} | {count['helped']} | {count['hurt']} | {count['inconclusive']} | {said} |")


if __name__ == "__main__":
    main()
