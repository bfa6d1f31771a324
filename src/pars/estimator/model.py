"""What is left of a fit: the averaged networks, and how they read rows."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pars.augment import Views
from pars.data import Inputs
from pars.engine import Trainer, as_tensor, predict_proba, resolve_device
from pars.errors import UserError
from pars.estimator.rows import Reader

BATCH = {1: 256, 3: 32}  # rows of a batch, for feature vectors and for images


@dataclass(frozen=True, eq=False)
class Model:
    """Networks on the CPU, so that a pickle is read where no GPU is."""

    networks: tuple[nn.Module, ...]
    reader: Reader
    views: Views

    @classmethod
    def of(cls, trainer: Trainer, reader: Reader) -> Model:
        return cls(tuple(net.average.cpu().eval() for net in trainer.nets), reader, trainer.views)

    def predict_proba(self, inputs: Inputs, device: str) -> npt.NDArray[np.float32]:
        """Probabilities [n, K] of rows that the reader has read."""
        rows = as_tensor(inputs)
        where = resolve_device(device)  # type: ignore[arg-type]
        networks = self.networks if where == "cpu" else tuple(copy.deepcopy(n).to(where) for n in self.networks)
        parts = torch.split(rows, BATCH[len(self.reader.shape)])
        found = torch.cat([self._batch(networks, part, where) for part in parts])
        bad = np.flatnonzero(~found.isfinite().all(dim=1).numpy())
        if bad.size:
            raise UserError(
                f"X: the network has no finite answer to row {bad[0]}; are its values far from those of fit?"
            )
        return found.numpy()

    def _batch(self, networks: tuple[nn.Module, ...], part: torch.Tensor, where: str) -> torch.Tensor:
        """Always as many rows: the last bit of a sum depends on the shape of the matrices, and a row's answer must not
        depend on which rows it is asked with."""
        size = BATCH[len(self.reader.shape)]
        padded = torch.cat([part, part[-1:].expand(size - len(part), *part.shape[1:])])
        return predict_proba(networks, padded, self.views.test_time_views, where)[: len(part)]
