"""What is measured while a run trains: losses and selections of an epoch, accuracies after it.

Only this file reads what no method may see: true labels, the test set, and the labels of held-out rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pars.augment import TestTimeView
from pars.data import Dataset, DiskImages
from pars.engine.batches import DiskRows, Feed, as_tensor, evaluation_batch
from pars.method_api import Apply, Network, Selection, apply_here

CALIBRATION_ROWS = 4096  # enough for BatchNorm's means and variances; a fraction of the cost of testing


@torch.no_grad()
def predict_proba(
    modules: Sequence[nn.Module],
    inputs: Tensor | DiskRows,
    test_time_views: Sequence[TestTimeView],
    device: str,
    apply: Apply = apply_here,
) -> Tensor:
    """Class probabilities [n, K], float32, on the CPU: the mean over networks and test-time views of each row.

    inputs: [n, ...] as they are stored. test_time_views: test-time augmentation, functions of inputs [B, ...] that
    return network inputs; one of them is plain evaluation. The networks' mode is left as it was.
    """
    found, size = [], evaluation_batch(inputs.shape[1:])
    for module in modules:
        was_training = module.training
        module.eval()
        try:
            for view in test_time_views:
                parts = [
                    apply(module, view(inputs[start : start + size].to(device))).float().softmax(dim=1).cpu()
                    for start in range(0, len(inputs), size)
                ]
                found.append(torch.cat(parts))
        finally:
            module.train(was_training)
    return torch.stack(found).mean(dim=0)


def accuracy(probabilities: Tensor, labels: Tensor) -> float:
    """Accuracy in percent of probabilities [n, K] against labels [n]; rows labeled -1 do not count."""
    labeled = labels >= 0
    return 100 * float((probabilities.argmax(dim=1) == labels)[labeled].double().mean())


def recalls(probabilities: Tensor, labels: Tensor) -> dict[str, float]:
    """Mean and smallest recall over classes, in percent, of probabilities [n, K] against labels [n].

    The mean recall is also called balanced accuracy. Classes without a row do not count, nor do rows labeled -1.

    >>> recalls(torch.eye(3)[[0, 0, 1]], torch.tensor([0, 1, 1]))
    {'balanced': 75.0, 'worst_class': 50.0}
    """
    labeled = labels >= 0
    true, found = labels[labeled], probabilities.argmax(dim=1)[labeled]
    n_classes = probabilities.shape[1]
    rows, right = true.bincount(minlength=n_classes), true[found == true].bincount(minlength=n_classes)
    recall = 100 * (right[rows > 0].double() / rows[rows > 0])
    return {"balanced": float(recall.mean()), "worst_class": float(recall.min())}


class Evaluator:
    """Accuracies of the networks on the test set and on given labels that were held out."""

    def __init__(
        self,
        data: Dataset,
        feed: Feed,
        labels: Tensor,
        held_out: npt.NDArray[np.bool_],
        judging: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """`labels` [n] are the given labels of all training rows; `held_out` [n] marks those not trained on, `judging`
        [n] those of them that are not evaluated on either."""
        self._feed, self._test = feed, data.test
        self._trained = np.flatnonzero(~held_out)
        judged = held_out & (labels.cpu().numpy() >= 0)  # rows that a review dropped have no label to compare with
        held = np.flatnonzero(judged if judging is None else judged & ~judging)
        self._held = torch.from_numpy(held).to(feed.device)
        self._held_labels = labels[self._held].cpu()
        self.held_out_rows = len(held)

    @torch.no_grad()
    def calibrate(self, nets: Sequence[Network]) -> None:
        """Measure BatchNorm's statistics of the averaged networks anew, on training rows as evaluation sees rows.

        Averaged weights have smaller activations than the weights they are the average of. With the latter's
        statistics, as FixMatch copies them, they lose up to six points of accuracy while the learning rate is high
        (docs/method.md).
        """
        rows = self._trained[:: -(-len(self._trained) // CALIBRATION_ROWS)]
        parts = np.array_split(rows, -(-len(rows) // evaluation_batch(self._feed.inputs.shape[1:])))
        for net in nets:
            norms = [m for m in net.average.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
            if not norms:
                continue
            momenta = [norm.momentum for norm in norms]
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum, norm.training = None, True  # no momentum: the plain mean over all batches
            try:
                for part in parts:
                    inputs = self._feed.views.plain(self._feed.inputs[torch.from_numpy(part)])
                    net.apply(net.average, inputs)
            finally:
                for norm, momentum in zip(norms, momenta, strict=True):
                    norm.momentum, norm.training = momentum, False

    def evaluate(self, nets: Sequence[Network]) -> tuple[dict[str, Any], Tensor | None]:
        """Accuracies for the log, and a mask [m] of the held-out rows whose given label the averaged weights predict.

        `raw` and `ema` are of the raw and the averaged weights without test-time augmentation; where predictions use
        it, `mirrored` is of the averaged weights with it. On the test set `balanced` and `worst_class` are the mean and
        the smallest recall of the averaged weights over classes. The mask is none if no rows are held out.
        """
        first, *more = self._feed.views.test_time_views
        modules, average, device = [net.module for net in nets], [net.average for net in nets], self._feed.device
        apply = nets[0].apply
        rows: dict[str, tuple[Tensor | DiskRows, Tensor]] = {}
        if self._test is not None:
            source = self._test.inputs
            test = DiskRows(source, device) if isinstance(source, DiskImages) else as_tensor(source)
            rows["test"] = test, torch.from_numpy(self._test.labels)
        if self.held_out_rows:
            inputs = self._feed.inputs
            held = inputs.subset(self._held) if isinstance(inputs, DiskRows) else inputs[self._held]
            rows["holdout"] = held, self._held_labels
        out: dict[str, Any] = {}
        correct = None
        for split, (inputs, labels) in rows.items():
            raw, averaged = (predict_proba(of, inputs, [first], device, apply) for of in (modules, average))
            out[split] = {"raw": accuracy(raw, labels), "ema": accuracy(averaged, labels)}
            if more:
                others = predict_proba(average, inputs, more, device, apply)
                together = (averaged + len(more) * others) / (1 + len(more))
                out[split]["mirrored"] = accuracy(together, labels)
            if split == "test":
                out[split] |= recalls(averaged, labels)
            if split == "holdout":
                correct = averaged.argmax(dim=1) == labels
        return out, correct


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


@dataclass(eq=False)
class EpochMeter:
    """Mean of each loss in an epoch, and how good its selections were.

    The sums stay on the device and are read once, when the epoch ends: no step waits for a number.
    """

    true_labels: Tensor | None  # [n]
    sums: dict[str, Tensor] = field(default_factory=dict)

    def add_step(self, losses: Mapping[str, Tensor], selections: Mapping[str, Selection]) -> None:
        """The losses of a step, and what it selected."""
        new = {f"loss/{name}": value.detach().double() for name, value in losses.items()}
        new["loss/steps"] = torch.ones((), dtype=torch.float64)
        for name, s in selections.items():
            selected, predicted, given = s.selected, s.predicted, s.batch.labels
            if self.true_labels is None:  # the other counts are 0
                of_all = torch.stack((torch.ones_like(selected), selected)).sum(dim=1).double()
                new[f"selection/{name}"] = nn.functional.pad(of_all, (0, len(COUNTS) - 2))
                continue
            true = self.true_labels[s.batch.rows]
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
            new[f"selection/{name}"] = torch.stack(counts).sum(dim=1).double()
        for key, value in new.items():
            self.sums[key] = self.sums[key] + value if key in self.sums else value

    def read(self) -> dict[str, dict[str, Any]]:
        """The epoch so far, for the log: "losses", the mean of each over the steps; "selection"; "notes", if any.

        A selection has counts and shares (0 to 1). rows, selected, unselected: numbers of rows. pseudo_accuracy, also
        of selected and of unselected rows: share of rows whose prediction is the true label. labels_right_selected,
        labels_right_unselected: share of labeled rows whose given label is the true one. memorized: share of wrong
        labels that are predicted. Shares of no rows are left out, and without true labels all shares are.
        """
        out: dict[str, dict[str, Any]] = {"losses": {}, "selection": {}}
        for key, total in self.sums.items():
            kind, _, name = key.partition("/")
            if kind == "note":
                out.setdefault("notes", {})[name] = float(total)
            elif kind == "loss" and name != "steps":
                out["losses"][name] = float(total) / float(self.sums["loss/steps"])
            elif kind == "selection":
                c = dict(zip(COUNTS, total.tolist(), strict=True))
                out["selection"][name] = {
                    "rows": c["rows"],
                    "selected": c["selected"],
                    "unselected": c["rows"] - c["selected"],
                }
                right, known = c["selected_pseudo_right"], c["selected_known"]
                others_right, others_known = c["unselected_pseudo_right"], c["unselected_known"]
                shares = {
                    "pseudo_accuracy": (right + others_right, known + others_known),
                    "pseudo_accuracy_selected": (right, known),
                    "pseudo_accuracy_unselected": (others_right, others_known),
                    "labels_right_selected": (c["selected_given_right"], c["selected_labeled"]),
                    "labels_right_unselected": (c["unselected_given_right"], c["unselected_labeled"]),
                    "memorized": (c["wrong_labels_predicted"], c["wrong_labels"]),
                }
                out["selection"][name] |= {key: part / whole for key, (part, whole) in shares.items() if whole}
        return out
