"""Steps of methods with two networks, each of which says given logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from engine.helpers import SHORT, network, toy, views
from torch import Tensor, nn

from methods.reference import AsIs, make_step
from pars.engine import TrainConfig, Trainer
from pars.method_api import Losses, Network, Step
from pars.methods import Supervised


class Says(nn.Module):
    """A network that answers these logits to whatever it is shown, and learns them."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, x: Tensor) -> Tensor:
        assert len(x) == len(self.logits)
        return self.logits


def random_pair(seed: int, *, rows: int = 12, classes: int = 4) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng([seed, 2])
    first, second = torch.tensor(rng.uniform(-3, 3, (2, rows, classes)), dtype=torch.float32)
    return first, second


def two_network_step(
    logits: Sequence[Tensor],
    labels: Tensor,
    *,
    forget_rate: float = 0.0,
    state: Mapping[str, Tensor] | None = None,
) -> Step:
    shown = {"raw/weak": torch.zeros(len(labels), 1), "more/weak": torch.zeros(0, 1)}
    kept = {"forget_rate": torch.tensor(forget_rate, dtype=torch.float64)}
    nets = tuple(Network(Says(each.clone()), AsIs()) for each in logits)
    return make_step(shown, labels, nets=nets, state=kept | dict(state or {}))


def gradients(step: Step, losses: Losses) -> list[Tensor]:
    """Of the sum of the losses, in the logits of each network."""
    torch.autograd.backward(list(losses.values()))
    return [each.grad for net in step.nets for each in net.module.parameters() if each.grad is not None]


def cross_entropies(logits: Tensor, labels: Tensor) -> list[float]:
    """Row by row in float64."""
    rows = zip(logits.double().numpy(), labels.tolist(), strict=True)
    return [float(np.log(np.exp(row).sum()) - row[y]) for row, y in rows]


def smallest(losses: Sequence[float], count: int, among: Sequence[int] | None = None) -> set[int]:
    """Positions of the smallest losses."""
    return set(sorted(range(len(losses)) if among is None else among, key=lambda i: losses[i])[:count])


def alone(index: int, config: TrainConfig = SHORT) -> Trainer:
    """The index-th of two networks, trained by cross-entropy without the other."""
    networks = [network(seed=index)]
    method = Supervised(loss="ce")
    return Trainer(method=method, data=toy(), networks=networks, views=views(), config=config, seed=0)


def assert_each_is_trained_alone(both: Trainer) -> None:
    """Bit for bit: weights, averages, optimizers."""
    both.run()
    for index in (0, 1):
        one = alone(index, both.config)
        one.run()
        ours, theirs = both.learners[index].tensors(0), one.learners[0].tensors(0)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
