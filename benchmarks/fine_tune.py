"""Fine-tune a pre-trained network on few images with wrong labels: cross-entropy and PARS, one command.

    python benchmarks/fine_tune.py --root DATA --work FOLDER    # 2 000 CIFAR-10 images at 96 px, 40 % wrong labels
    python benchmarks/fine_tune.py --root DATA --work FOLDER --rows 400 --epochs 2 --rates 0.01

EfficientNet-lite0 with the ImageNet weights of its package. Every method is trained with each of `--rates` (of the
head; the backbone has a fifth of it); a tenth of the given, partly wrong, labels is held out, and the rate with the
best averaged weights on them at the end is the method's ("chosen"). Runs stay in FOLDER: the same command goes on where
it was stopped. Appends one line per run to results/fine_tune.jsonl; runs that are there already are skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from pars import data
from pars.cli.main import main as pars_command

MORE = {"pars": " --method.mu 1"}  # as on Clothing1M: a self-training batch of the labeled one's size costs less
OUT = Path(__file__).resolve().parents[1] / "results" / "fine_tune.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="folder with cifar-10-batches-py")
    parser.add_argument("--work", type=Path, required=True, help="folder for the rows and the runs")
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--test", type=int, default=1_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.01])
    parser.add_argument("--methods", nargs="+", default=["ce", "pars"])
    options = parser.parse_args()
    rows = options.work / f"rows-{options.rows}-{options.test}.npz"
    if not rows.exists():
        write_rows(options, rows)
    done = [json.loads(line) for line in OUT.read_text(encoding="utf-8").splitlines()] if OUT.exists() else []
    for rate in options.rates:
        for method in options.methods:
            flags = (
                f"train --preset images --method {method} --noise.kind symmetric --noise.rate 0.4 "
                f"--noise.convention exclusive --model.name lite0 --model.size {options.size} "
                f"--train.epochs {options.epochs} --train.batch-size 32 --train.lr {rate} "
                f"--train.backbone-lr {rate / 5:g} --train.weight-decay 0.001 --train.dynamics-every 0 "
                f"--train.evaluate-every {options.epochs} --data.holdout 0.1 --json{MORE.get(method, '')}"
            )
            key = {"rows": options.rows, "test": options.test, "command": f"pars {flags} --data.name rows.npz"}
            if any(key.items() <= line.items() for line in done):
                continue
            out = options.work / f"{method}-{options.rows}-{options.epochs}-{options.size}-{rate:g}"
            new = [*flags.split(), "--train.checkpoint-seconds", "60", "--data.name", str(rows), "--out", str(out)]
            result = run(["resume", str(out), "--json"] if (out / "config.toml").exists() else new)
            line = {"method": method, "lr": rate, **key, "test_accuracy": result["test"]}
            line |= {"holdout_accuracy": result.get("holdout"), "flop": result["flop"], "stages": result["stages"]}
            with OUT.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(method, rate, line["test_accuracy"], line["holdout_accuracy"], flush=True)
            done.append(line)
    for method in options.methods:
        mine = [line for line in done if line["method"] == method and line["rows"] == options.rows and "lr" in line]
        best = max(mine, key=lambda line: line["holdout_accuracy"]["ema"]["last"])
        print(f"{method}: chosen lr {best['lr']:g}, test {best['test_accuracy']['ema']['last']:.1f} %")


def write_rows(options: argparse.Namespace, out: Path) -> None:
    found = data.cifar10(options.root, download=False)
    assert found.test is not None
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        out,
        x=found.train.inputs[: options.rows],
        y=found.train.labels[: options.rows],
        x_test=found.test.inputs[: options.test],
        y_test=found.test.labels[: options.test],
    )


def run(command: list[str]) -> dict[str, Any]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = pars_command(command)
    assert code == 0, f"pars {' '.join(command)} ended with {code}"
    result: dict[str, Any] = json.loads(printed.getvalue())
    return result


if __name__ == "__main__":
    main()
