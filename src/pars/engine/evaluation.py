"""What is measured while a run trains: losses and selections of an epoch, accuracies after it.

Only this file reads what no method may see: true labels, the test set, and the labels of held-out rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pars.augment import TestTimeView, Views
from pars.data import Dataset
from pars.engine.batches import EVALUATION_BATCH, Feed, as_tensor
from pars.method_api import Network, Selection

CALIBRATION_ROWS = 4096  # enough for BatchNorm's means and variances; a fraction of the cost of testing


@torch.no_grad()
def predict_proba(
    modules: Sequence[nn.Module], inputs: Tensor, test_time_views: Sequence[TestTimeView], device: str
) -> Tensor:
    """Class probabilities [n, K], float32, on the CPU: the mean over networks and test-time views of each row.

    inputs: [n, ...] as they are stored. test_time_views: test-time augmentation, functions of inputs [B, ...] that
    return network inputs; one of them is plain evaluation. The networks' mode is left as it was.
    """
    found = [_predict_one(module, inputs, view, device) for module in modules for view in test_time_views]
    return torch.stack(found).mean(dim=0)


def _predict_one(module: nn.Module, inputs: Tensor, view: TestTimeView, device: str) -> Tensor:
    was_training = module.training
    module.eval()
    try:
        parts = [
            module(view(inputs[start : start + EVALUATION_BATCH].to(device))).float().softmax(dim=1).cpu()
            for start in range(0, len(inputs), EVALUATION_BATCH)
        ]
    finally:
        module.train(was_training)
    return torch.cat(parts)


def accuracy(probabilities: Tensor, labels: Tensor) -> float:
    """Accuracy in percent of probabilities [n, K] against labels [n]; rows labeled -1 do not count."""
    labeled = labels >= 0
    return 100 * float((probabilities.argmax(dim=1) == labels)[labeled].double().mean())


@torch.no_grad()
def calibrate(average: nn.Module, batches: Iterable[Tensor]) -> None:
    """Measure BatchNorm's statistics anew, over batches of network inputs.

    Averaged weights have smaller activations than the weights they are the average of. With the latter's statistics, as
    FixMatch copies them, they lose up to six points of accuracy while the learning rate is high (docs/method.md).
    """
    norms = [m for m in average.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum, norm.training = None, True  # no momentum: the plain mean over all batches
    try:
        for batch in batches:
            average(batch)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum, norm.training = momentum, False


class Evaluator:
    """Accuracies of the networks on the test set and on given labels that were held out."""

    def __init__(self, data: Dataset, feed: Feed, labels: Tensor, held_out: npt.NDArray[np.bool_]) -> None:
        """`labels` [n] are the given labels of all training rows; `held_out` [n] marks those not trained on."""
        self._feed, self._test = feed, data.test
        self._trained, held = np.flatnonzero(~held_out), np.flatnonzero(held_out)
        self._held = torch.from_numpy(held).to(feed.device)
        self._held_labels = labels[self._held].cpu()

    @property
    def held_out_rows(self) -> int:
        """Number of held-out rows."""
        return len(self._held_labels)

    def calibrate(self, nets: Sequence[Network]) -> None:
        """Give the averaged networks BatchNorm statistics of their own, from training rows as evaluation sees rows."""
        rows = self._trained[:: -(-len(self._trained) // CALIBRATION_ROWS)]
        parts = np.array_split(rows, -(-len(rows) // EVALUATION_BATCH))
        for net in nets:
            calibrate(net.average, (self._views.plain(self._feed.inputs[torch.from_numpy(part)]) for part in parts))

    def evaluate(self, nets: Sequence[Network]) -> tuple[dict[str, Any], Tensor | None]:
        """Accuracies for the log, and a mask [m] of the held-out rows whose given label the averaged weights predict.

        `raw` and `ema` are of the raw and the averaged weights without test-time augmentation; where predictions use
        it, `mirrored` is of the averaged weights with it. The mask is none if no rows are held out.
        """
        out: dict[str, Any] = {}
        correct = None
        if self._test is not None:
            labels = torch.from_numpy(self._test.labels)
            out["test"], _ = self._accuracies(nets, as_tensor(self._test.inputs), labels)
        if self.held_out_rows:
            out["holdout"], correct = self._accuracies(nets, self._feed.inputs[self._held], self._held_labels)
        return out, correct

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


COUNTS = (
    "rows",
    "selected",
    "selected_known",
    "unselected_known",
    "selected_pseudo_right",
    "unselected_pseudo_right",
    "selected_labeled",
    "unselected_labeled",
    "selected_given_right",
    "unselected_given_right",
    "wrong_labels",
    "wrong_labels_predicted",
)
"""What is counted of each selection; "known" are rows whose true label is known."""


class EpochMeter:
    """Mean of each loss in an epoch, and how good its selections were.

    The sums stay on the device and are read once, when the epoch ends: no step waits for a number. `true_labels` [n].
    """

    def __init__(self, true_labels: Tensor | None) -> None:
        self._true = true_labels
        self.sums: dict[str, Tensor] = {}

    def add_losses(self, losses: Mapping[str, Tensor]) -> None:
        for name, value in losses.items():
            self._add(f"loss/{name}", value.detach().double())
        self._add("loss/steps", torch.ones((), dtype=torch.float64))

    def add_selections(self, selections: Mapping[str, Selection]) -> None:
        for name, s in selections.items():
            selected, predicted, given = s.selected, s.predicted, s.batch.labels
            true = torch.full_like(given, -2) if self._true is None else self._true[s.batch.rows]
            known = true >= 0  # unlabeled rows of a user's data have no truth to compare with
            labeled = known & (given >= 0)
            pseudo_right = predicted == true
            given_right, given_wrong = labeled & (given == true), labeled & (given != true)
            counts = (
                torch.ones_like(selected),
                selected,
                selected & known,
                ~selected & known,
                selected & pseudo_right,
                ~selected & pseudo_right,
                selected & labeled,
                ~selected & labeled,
                selected & given_right,
                ~selected & given_right,
                given_wrong,
                given_wrong & (predicted == given),
            )
            self._add(f"selection/{name}", torch.stack(counts).sum(dim=1).double())

    def add_notes(self, notes: Mapping[str, float]) -> None:
        """Numbers that the method logged before the epoch."""
        self.sums |= {f"note/{name}": torch.tensor(value, dtype=torch.float64) for name, value in notes.items()}

    def notes(self) -> dict[str, float]:
        return {key.removeprefix("note/"): float(v) for key, v in self.sums.items() if key.startswith("note/")}

    def _add(self, key: str, value: Tensor) -> None:
        self.sums[key] = self.sums[key] + value if key in self.sums else value

    def losses(self) -> dict[str, float]:
        """The mean of each loss over the steps so far."""
        steps = float(self.sums["loss/steps"])
        return {
            key.removeprefix("loss/"): float(total) / steps
            for key, total in self.sums.items()
            if key.startswith("loss/") and key != "loss/steps"
        }

    def selections(self) -> dict[str, dict[str, float]]:
        """Counts and shares (0 to 1) of each selection, by its name.

        rows, selected, unselected: numbers of rows. pseudo_accuracy, also of selected and of unselected rows: share of
        rows whose prediction is the true label. labels_right_selected, labels_right_unselected: share of labeled rows
        whose given label is the true one. memorized: share of wrong labels that are predicted. Shares of no rows are
        left out, and without true labels all shares are.
        """
        out = {}
        for key, total in self.sums.items():
            if key.startswith("selection/"):
                counts = dict(zip(COUNTS, total.tolist(), strict=True))
                out[key.removeprefix("selection/")] = self._shares(counts)
        return out

    def _shares(self, c: dict[str, float]) -> dict[str, float]:
        counts = {"rows": c["rows"], "selected": c["selected"], "unselected": c["rows"] - c["selected"]}
        if self._true is None:
            return counts
        shares = {
            "pseudo_accuracy": (
                c["selected_pseudo_right"] + c["unselected_pseudo_right"],
                c["selected_known"] + c["unselected_known"],
            ),
            "pseudo_accuracy_selected": (c["selected_pseudo_right"], c["selected_known"]),
            "pseudo_accuracy_unselected": (c["unselected_pseudo_right"], c["unselected_known"]),
            "labels_right_selected": (c["selected_given_right"], c["selected_labeled"]),
            "labels_right_unselected": (c["unselected_given_right"], c["unselected_labeled"]),
            "memorized": (c["wrong_labels_predicted"], c["wrong_labels"]),
        }
        return counts | {name: part / whole for name, (part, whole) in shares.items() if whole}
