"""Fine-tune a pre-trained network on few images with wrong labels: cross-entropy and PARS, one command each.

    python benchmarks/fine_tune.py --root DATA                    # 2 000 CIFAR-10 images at 96 px, 40 % wrong labels
    python benchmarks/fine_tune.py --root DATA --rows 400 --epochs 4

EfficientNet-lite0 with the ImageNet weights of its package. Appends one line per run to results/fine_tune.jsonl; runs
that are there already are skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from pars import data
from pars.cli.main import main as pars_command

OUT = Path(__file__).resolve().parents[1] / "results" / "fine_tune.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="folder with cifar-10-batches-py")
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--test", type=int, default=1_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--methods", nargs="+", default=["ce", "pars"])
    options = parser.parse_args()
    found = data.cifar10(options.root, download=False)
    assert found.test is not None
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.npz"
        np.savez(
            rows,
            x=found.train.inputs[: options.rows],
            y=found.train.labels[: options.rows],
            x_test=found.test.inputs[: options.test],
            y_test=found.test.labels[: options.test],
        )
        for method in options.methods:
            flags = (
                f"train --preset images --method {method} --noise.kind symmetric --noise.rate 0.4 "
                f"--noise.convention exclusive --model.name lite0 --model.size {options.size} "
                f"--train.epochs {options.epochs} --train.batch-size 32 --train.lr 0.01 --train.backbone-lr 0.002 "
                f"--train.weight-decay 0.001 --train.dynamics-every 0 --train.evaluate-every {options.epochs} --json"
            )
            key = {"rows": options.rows, "test": options.test, "command": f"pars {flags} --data.name rows.npz"}
            if OUT.exists() and any(json.loads(line)["command"] == key["command"] and json.loads(line)["rows"] ==
                                    options.rows for line in OUT.read_text(encoding="utf-8").splitlines()):  # fmt: skip
                continue
            printed, began = io.StringIO(), time.perf_counter()
            with contextlib.redirect_stdout(printed):
                code = pars_command([*flags.split(), "--data.name", str(rows), "--out", f"{folder}/{method}"])
            assert code == 0, f"{method} ended with {code}"
            result = json.loads(printed.getvalue())
            line = {"method": method, **key, "accuracy": result["test"], "flop": result["flop"]}
            line |= {"stages": result["stages"], "seconds": round(time.perf_counter() - began, 1)}
            with OUT.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(method, result["test"], flush=True)


if __name__ == "__main__":
    main()
