"""What recording training dynamics costs: CPU time with and without, in pairs.

    python benchmarks/audit_cost.py      # writes results/audit-cost.jsonl, a minute

Digits, preset `digits` cut to 5 epochs and evaluated at the end only; one thread, five pairs, the median ratio counts.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import replace
from pathlib import Path

import torch

from pars import run
from pars.noise import NoiseConfig

RESULTS = Path(__file__).parent.parent / "results" / "audit-cost.jsonl"
PAIRS = 5


def seconds(method: str, every: int) -> float:
    config = run.preset("digits")(NoiseConfig(kind="symmetric", rate=0.5), method)
    train = replace(config.train, epochs=5, evaluate_every=5, dynamics_every=every)
    config = replace(config, train=train, device="cpu")
    trainer = run.build_trainer(config, run.load_training_data(config), None)
    begun = time.process_time()
    trainer.run()
    return time.process_time() - begun


def main() -> None:
    torch.set_num_threads(1)
    lines = []
    for method in ("ce", "pars"):
        ratios = [seconds(method, 1) / seconds(method, 0) for _ in range(PAIRS)]
        found = {"ratio": round(statistics.median(ratios), 3), "pairs": [round(ratio, 3) for ratio in ratios]}
        lines.append({"method": method, **found, "command": "python benchmarks/audit_cost.py"})
        print(json.dumps(lines[-1]), flush=True)
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
