"""Is a step of two networks faster in one pass? Both one after the other, or as one network with two groups.

    python benchmarks/two_networks.py      # writes results/two-networks.jsonl

The pair is exact: convolutions get two groups, BatchNorm twice the channels, linear layers a batched product; its
logits are compared with those of the two networks first. A step is forward, cross-entropy, backward on a batch for
each. Milliseconds are medians over 21 interleaved rounds, one thread; `ratio` is the pair's time over the two's: below
1 the pair is faster.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pars.models import MLP, SmallCNN

RESULTS = Path(__file__).parent.parent / "results"
ROUNDS = 21


class PairedLinear(nn.Module):
    """Two linear layers, [2, B, in] -> [2, B, out], as one batched product."""

    def __init__(self, first: nn.Linear, second: nn.Linear) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack((first.weight, second.weight)).mT.contiguous().detach())
        biases: list[Tensor] = [
            torch.zeros(layer.out_features) if layer.bias is None else layer.bias for layer in (first, second)
        ]
        self.bias = nn.Parameter(torch.stack(biases)[:, None].detach())

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight)


class PairedNorm(nn.Module):
    """BatchNorm of [2, B, d]: 2d channels."""

    def __init__(self, first: nn.BatchNorm1d) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2 * first.num_features)

    def forward(self, x: Tensor) -> Tensor:
        both: Tensor = self.norm(x.transpose(0, 1).flatten(1))
        return both.reshape(x.shape[1], 2, -1).transpose(0, 1)


class PairedMLP(nn.Module):
    def __init__(self, first: MLP, second: MLP) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for one, two in zip([*first.body, first.head], [*second.body, second.head], strict=True):
            if isinstance(one, nn.Linear):
                layers.append(PairedLinear(one, cast(nn.Linear, two)))
            else:
                layers.append(PairedNorm(one) if isinstance(one, nn.BatchNorm1d) else nn.ReLU())
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """[2, B, d] -> [2, B, K]."""
        out: Tensor = self.layers(x)
        return out


class PairedCNN(nn.Module):
    def __init__(self, first: SmallCNN, second: SmallCNN) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for one, two in zip(first.blocks, second.blocks, strict=True):
            if isinstance(one, nn.Conv2d):
                conv = nn.Conv2d(2 * one.in_channels, 2 * one.out_channels, 3, padding=1, bias=False, groups=2)
                conv.weight = nn.Parameter(torch.cat([one.weight, cast(nn.Conv2d, two).weight]).detach())
                layers.append(conv)
            elif isinstance(one, nn.BatchNorm2d):
                layers.append(nn.BatchNorm2d(2 * one.num_features))
            else:
                layers.append(one)
        self.blocks = nn.Sequential(*layers)
        self.head = PairedLinear(first.head, second.head)

    def forward(self, x: Tensor) -> Tensor:
        """[2, B, C, H, W] -> [2, B, K]."""
        maps: Tensor = self.blocks(torch.cat([x[0], x[1]], dim=1))
        features = maps.mean(dim=(2, 3)).reshape(len(maps), 2, -1).transpose(0, 1)
        out: Tensor = self.head(features)
        return out


def step_of_two(nets: list[nn.Module], x: Tensor, labels: Tensor) -> None:
    torch.stack([F.cross_entropy(net(x[i]), labels[i]) for i, net in enumerate(nets)]).sum().backward()  # type: ignore[no-untyped-call]


def step_of_pair(pair: nn.Module, x: Tensor, labels: Tensor) -> None:
    logits = pair(x)
    (2 * F.cross_entropy(logits.flatten(0, 1), labels.flatten())).backward()  # type: ignore[no-untyped-call]


def compare(name: str, nets: list[nn.Module], pair: nn.Module, x: Tensor) -> dict[str, object]:
    labels = torch.arange(x.shape[0] * x.shape[1]).reshape(2, -1) % 10
    with torch.no_grad():
        difference = (pair(x) - torch.stack([net(x[i]) for i, net in enumerate(nets)])).abs().max()
    assert difference < 1e-3, f"the pair differs by {difference}"
    times: dict[str, list[float]] = {"two": [], "pair": []}
    for _ in range(ROUNDS):
        for kind in times:
            began = time.perf_counter()
            if kind == "two":
                step_of_two(nets, x, labels)
            else:
                step_of_pair(pair, x, labels)
            times[kind].append(1000 * (time.perf_counter() - began))
    medians = {f"{kind}_ms": round(statistics.median(found), 3) for kind, found in times.items()}
    ratio = statistics.median(pair / two for two, pair in zip(times["two"], times["pair"], strict=True))
    return {"network": name, **medians, "ratio": round(ratio, 2), "difference": float(difference)}


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    lines = []
    for batch in (64, 256):
        heads = [MLP((1280,), 10, hidden=(256,), batch_norm=True) for _ in range(2)]
        x = torch.randn(2, batch, 1280)
        lines.append(compare(f"mlp, 1280 features, batch {batch}", list(heads), PairedMLP(*heads), x))
        for side, channels, width in ((8, 1, 16), (32, 3, 16), (32, 3, 32)):
            cnns = [SmallCNN((channels, side, side), 10, width=width) for _ in range(2)]
            x = torch.randn(2, batch, channels, side, side)
            name = f"small_cnn, width {width}, {side} px, batch {batch}"
            lines.append(compare(name, list(cnns), PairedCNN(*cnns), x))
    text = "".join(json.dumps(line | {"command": "python benchmarks/two_networks.py"}) + "\n" for line in lines)
    (RESULTS / "two-networks.jsonl").write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
