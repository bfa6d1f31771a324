"""Steps and epochs made by hand: each view of each draw, each pass over rows, is a given tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from methods.reference import AsIs
from pars.method_api import Batch, Epoch, Network, Step, Sweep, ViewName

Rows = tuple[Tensor, Tensor, Mapping[str, Tensor]]  # row numbers, given labels, views by "name/index"


def step_of(
    batches: Mapping[str, Rows],
    state: dict[str, Tensor],
    *,
    net: Network | None = None,
    seed: int = 0,
    progress: float = 0.25,
    stage_progress: float = 0.5,
) -> Step:
    """A step; without a network of its own the views are the logits."""

    def batch(rows: Tensor, labels: Tensor, views: Mapping[str, Tensor]) -> Batch:
        return Batch(rows, labels, lambda name, index: views[f"{name}/{index}"])

    return Step(
        nets=(net or Network(AsIs(), AsIs()),),
        batches={name: batch(*parts) for name, parts in batches.items()},
        state=state,
        rng=np.random.default_rng(seed),
        epoch=0,
        progress=progress,
        stage_progress=stage_progress,
    )


def epoch_of(
    given: Tensor,
    state: dict[str, Tensor],
    n_classes: int,
    *,
    logits: Sequence[Tensor] = (),
    features: Tensor | None = None,
    rows: Tensor | None = None,
) -> Epoch:
    """The time before an epoch; a pass over rows finds logits[index] and these features, whatever the network."""

    def run_pass(net: Network, rows: Tensor, view: ViewName, index: int, *, features: bool) -> Sweep:
        return Sweep(logits[index][rows], found[rows] if features and found is not None else None)

    found = features
    return Epoch(
        nets=(Network(AsIs(), AsIs()),),
        index=0,
        epochs=1,
        rows=torch.arange(len(given)) if rows is None else rows,
        given=given,
        n_classes=n_classes,
        state=state,
        rng=np.random.default_rng(0),
        run_pass=run_pass,
    )


def random(seed: int, *shape: int, size: float = 3.0) -> Tensor:
    """Numbers in [-size, size), float32."""
    return torch.tensor(np.random.default_rng(seed).uniform(-size, size, shape), dtype=torch.float32)


def random_classes(seed: int, n: int, n_classes: int) -> Tensor:
    return torch.tensor(np.random.default_rng([seed, 1]).integers(n_classes, size=n))
