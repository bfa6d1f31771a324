"""How good the networks are, after an epoch: on the test set, and on given labels that were held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pars.augment import Views
from pars.data import Dataset
from pars.engine.ema import calibrate
from pars.engine.feed import Feed, as_tensor
from pars.engine.predict import BATCH, accuracy, predict_proba
from pars.method_api import Network

CALIBRATION_ROWS = 4096  # enough for BatchNorm's means and variances; a fraction of the cost of testing


class Examiner:
    """Reads the rows that no method may see."""

    def __init__(self, data: Dataset, feed: Feed, labels: Tensor, held_out: npt.NDArray[np.bool_]) -> None:
        self._feed, self._test = feed, data.test
        self._trained, held = np.flatnonzero(~held_out), np.flatnonzero(held_out)
        self._held = torch.from_numpy(held).to(feed.device)
        self._held_labels = labels[self._held].cpu()

    @property
    def held_out_rows(self) -> int:
        return len(self._held_labels)

    def calibrate(self, nets: Sequence[Network]) -> None:
        """Give the averaged networks BatchNorm statistics of their own, from training rows as evaluation sees rows."""
        rows = self._trained[:: -(-len(self._trained) // CALIBRATION_ROWS)]
        parts = np.array_split(rows, -(-len(rows) // BATCH))
        for net in nets:
            calibrate(net.average, (self._views.plain(self._feed.inputs[torch.from_numpy(part)]) for part in parts))

    def examine(self, nets: Sequence[Network]) -> tuple[dict[str, Any], Tensor | None]:
        """Accuracies for the log; the held-out rows that the averaged weights are right on.

        `raw` and `ema` are of the raw and the averaged weights at one look at a row; where predictions take several
        looks, `mirrored` is of the averaged weights with all of them.
        """
        out: dict[str, Any] = {}
        right = None
        if self._test is not None:
            labels = torch.from_numpy(self._test.labels)
            out["test"], _ = self._accuracies(nets, as_tensor(self._test.inputs), labels)
        if self.held_out_rows:
            out["holdout"], right = self._accuracies(nets, self._feed.inputs[self._held], self._held_labels)
        return out, right

    def _accuracies(self, nets: Sequence[Network], inputs: Tensor, labels: Tensor) -> tuple[dict[str, float], Tensor]:
        first, *more = self._views.test_time_views
        average = [net.average for net in nets]
        raw, averaged = (
            predict_proba(modules, inputs, [first], self._feed.device)
            for modules in ([net.module for net in nets], average)
        )
        out = {"raw": accuracy(raw, labels), "ema": accuracy(averaged, labels)}
        if more:
            others = predict_proba(average, inputs, more, self._feed.device)
            together = (averaged + len(more) * others) / (1 + len(more))
            out["mirrored"] = accuracy(together, labels)
        return out, averaged.argmax(dim=1) == labels

    @property
    def _views(self) -> Views:
        return self._feed.views
