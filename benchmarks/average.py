"""What BatchNorm statistics averaged weights need: those copied from the trained weights, or their own.

    python benchmarks/average.py --root DATA      # writes results/average.jsonl, about two minutes

The robust loss alone on 10 000 CIFAR-10 images, sym 50 %, preset cifar10-small cut to 10 epochs; every other epoch the
test accuracy of the trained weights, of their average with copied statistics, and of their average calibrated.
"""

from __future__ import annotations

import argparse
import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pars import run
from pars.engine import Callback, accuracy, as_tensor, predict_proba
from pars.noise import NoiseConfig

RESULTS = Path(__file__).parent.parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root")
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = run.preset("cifar10-small")(NoiseConfig(kind="symmetric", rate=0.5), "warmup")
    config = replace(
        config,
        data=replace(config.data, root=options.root),
        train=replace(config.train, epochs=10, evaluate_every=2),
        device="cpu",
    )
    prepared = run.load_training_data(config)
    trainer = run.build_trainer(config, prepared, None)
    test = prepared.data.test
    assert test is not None
    inputs, labels = as_tensor(test.inputs), torch.from_numpy(test.labels)
    lines: list[dict[str, Any]] = []

    class Compare(Callback):
        def epoch(self, line: dict[str, Any]) -> None:
            if "test" not in line:
                return
            net = trainer.nets[0]
            copied = copy.deepcopy(net.average)
            for kept, current in zip(copied.buffers(), net.module.buffers(), strict=True):
                kept.copy_(current)
            plain = predict_proba([copied], inputs, [trainer.views.plain], "cpu")
            found = {"trained": line["test"]["raw"], "copied": accuracy(plain, labels), "own": line["test"]["ema"]}
            lines.append({"epoch": line["epoch"], **{key: round(value, 2) for key, value in found.items()}})
            print(lines[-1], flush=True)

    trainer.callback = Compare()
    trainer.run()
    command = "python benchmarks/average.py"
    (RESULTS / "average.jsonl").write_text("".join(json.dumps(line | {"command": command}) + "\n" for line in lines))


if __name__ == "__main__":
    main()
