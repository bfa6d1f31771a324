"""Show that a refactoring changes no result: train with two versions of the package and compare the weights bit by bit.

    python benchmarks/identity.py --base 8f939b6            # this tree against a commit
    python benchmarks/identity.py --base 8f939b6 --only elr

Every run has one thread, a fixed seed, and a few epochs. Names of methods and flags may differ between the versions:
`Case` has the flags of both. Exit code 1 if any tensor differs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from sklearn.datasets import load_digits

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Case:
    """One training run: its name, the flags both versions share, and those of each."""

    name: str
    flags: str
    before: str = ""
    after: str = ""


DIGITS = "--preset digits --noise.kind symmetric --noise.rate 0.5 --train.epochs 4"
FEATURES = "--preset features --data.name features.npz --train.epochs 4"
FAST = "--preset cifar10-fast --data.name images.npz --train.epochs 6 --train.batch-size 64 --model.width 8"
AS_IT_IS = "--method.reference-epochs 4"  # constants meant for as many epochs as the run has
LITERAL_ROBUST = "--method.robust nce+mae"
CASES = (
    Case("pars digits", f"{DIGITS} --method pars"),
    Case("pars features", f"{FEATURES} --method pars"),
    Case("pars-paper digits", f"{DIGITS} --method pars-paper {LITERAL_ROBUST}"),
    Case("pars-paper features", f"{FEATURES} --method pars-paper {LITERAL_ROBUST}"),
    Case("pars-paper without L_pseudo", f"{DIGITS} --method pars-paper --method.no-pseudo"),
    Case("pars-fast", f"{FAST} --method pars-fast --method.agreement-start 0.6"),
    Case("pars-fast without late selection", f"{FAST} --method pars-fast"),
    Case("best epoch", f"{FEATURES} --data.holdout 0.2", "--train.keep best-epoch", "--train.select best-epoch"),
    Case("budget", "--preset features --data.name features.npz --budget 0.0005"),
    Case("elr digits", f"{DIGITS} --method elr", "", AS_IT_IS),
    Case("elr features", f"{FEATURES} --method elr", "", AS_IT_IS),
    Case("ssr digits", f"{DIGITS} --method ssr"),
    Case("ssr features", f"{FEATURES} --method ssr"),
    Case("pes digits", f"{DIGITS} --method pes"),
    Case("dividemix digits", f"{DIGITS} --method dividemix"),
    Case("unicon digits", f"{DIGITS} --method unicon"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, metavar="REV", help="the commit to compare with")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this")
    options = parser.parse_args()
    different = 0
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        before = work / "before"
        git("worktree", "add", "--detach", str(before), options.base)
        try:
            write_data(work)
            for case in (case for case in CASES if options.only in case.name):
                weights = [
                    train(work, tree, f"{case.flags} {own}".split(), f"{case.name} {side}".replace(" ", "-"))
                    for side, tree, own in (("before", before, case.before), ("after", ROOT, case.after))
                ]
                same = same_bits(*weights)
                different += not same
                print(
                    f"{case.name}: {'bit-identical' if same else 'DIFFERENT'} ({len(weights[0])} tensors)", flush=True
                )
        finally:
            git("worktree", "remove", "--force", str(before))
    return min(1, different)


def write_data(work: Path) -> None:
    """Digits as feature vectors and as color images of 32×32 pixels, a third of the labels wrong."""
    digits = load_digits()
    rng = np.random.default_rng(0)
    given = np.where(rng.random(len(digits.target)) < 1 / 3, rng.integers(10, size=len(digits.target)), digits.target)
    images = np.kron(digits.images * 15, np.ones((1, 4, 4)))[..., None].repeat(3, axis=3).astype(np.uint8)
    for file, x in (("features.npz", digits.data.astype(np.float32)), ("images.npz", images)):
        np.savez(work / file, x=x[:1200], y=given[:1200], x_test=x[1200:], y_test=digits.target[1200:])


def train(work: Path, tree: Path, flags: Sequence[str], name: str) -> dict[str, np.ndarray]:
    out = work / name
    env = os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pars", "train", *flags, "--out", str(out)]
    subprocess.run(command, cwd=work, env=env, check=True, capture_output=True, text=True)
    return load_file(out / "model.safetensors")


def same_bits(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    return first.keys() == second.keys() and all(
        value.shape == second[name].shape and value.tobytes() == second[name].tobytes() for name, value in first.items()
    )


def git(*args: str) -> None:
    subprocess.run(["git", *args], cwd=ROOT, check=True, capture_output=True)


if __name__ == "__main__":
    sys.exit(main())
