"""Rows on the device, and the views of them: batches for steps, passes between epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from pars import seeds
from pars.augment import Views, gather_rows
from pars.engine.order import Rows
from pars.engine.predict import BATCH
from pars.method_api import Batch, Network, Sweep, ViewName, features_of, head_of


class Feed:
    """The training rows of a run. A view's parameters are a function of (seed, draw, view, epoch, step)."""

    def __init__(
        self, inputs: Tensor, labels: Tensor, views: Views, *, seed: int, device: str, cached: Tensor | None = None
    ) -> None:
        self.inputs, self.labels = inputs.to(device), labels.to(device)
        self.cached = None if cached is None else cached.to(device)
        self.views, self.seed, self.device = views, seed, device

    def batch(self, draw: str, rows: Rows, epoch: int, step: int) -> Batch:
        index = torch.from_numpy(rows).to(self.device)

        def make_view(name: str, number: int) -> Tensor:
            return self._view(index, f"view/{seeds.batch_stream(draw)}/{name}/{number}", name, epoch, step)

        return Batch(index, self.labels[index], make_view)

    def passes(self, epoch: int) -> Callable[..., Sweep]:
        """What `Epoch.sweep` runs before this epoch."""

        @torch.no_grad()
        def run_pass(net: Network, rows: Tensor, view: ViewName, index: int, *, features: bool) -> Sweep:
            module, found = net.module, []
            was_training = module.training
            module.eval()
            try:
                for number, part in enumerate(torch.split(rows, BATCH)):
                    seen = (
                        self.views.plain(self.inputs[part])
                        if view == "plain"
                        else self._view(part, f"view/pass/{view}/{index}", view, epoch, number)
                    )
                    inner = features_of(module, seen) if features else None
                    logits = module(seen) if inner is None else head_of(module)(inner)
                    found.append((logits.float(), inner))
            finally:
                module.train(was_training)
            net.forwards += len(rows)
            logits = torch.cat([logits for logits, _ in found])
            kept = [inner.float() for _, inner in found if inner is not None]
            return Sweep(logits, torch.cat(kept) if kept else None)

        return run_pass

    def weak(self, rows: Tensor, stream: str, epoch: int, step: int) -> Tensor:
        """Weak views of some rows, with parameters from a stream of their own."""
        return self._view(rows, f"view/{stream}/weak", "weak", epoch, step)

    def _view(self, index: Tensor, stream: str, name: str, epoch: int, step: int) -> Tensor:
        view = self.views.weak if name == "weak" else self.views.strong
        params = view.draw(seeds.generator(self.seed, stream, epoch, step), len(index), tuple(self.inputs.shape[1:]))
        return self.views.finish(view.apply(gather_rows(self.inputs, self.cached, index, params), params))


def as_tensor(array: npt.NDArray[Any]) -> Tensor:
    """A tensor over the same memory where torch can; a read-only memory map is copied."""
    return torch.from_numpy(array if array.flags.writeable and not any(s < 0 for s in array.strides) else array.copy())
