"""Per-example training dynamics: probabilities and margins of each row's label over the epochs, a few numbers a row.

A network that has memorized a wrong label no longer shows it; its earlier predictions do. So all rows are predicted
after every epoch, and means over two spans of epochs are stored: an early one, before labels are memorized, and a late
one, in which the network is best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pars.engine.batches import Feed, evaluation_batch
from pars.engine.checkpoint import check_state
from pars.method_api import Apply, apply_here

CLIP = 20.0  # of a margin in logits: beyond it nothing is learned about a label, and one epoch must not rule the mean
COUNTS = ("agree", "forgotten", "first_agree")
SUMS = ("margin_early", "margin_early_square", "margin_late", "margin_late_square", "p", "p_square", "p_last")


@dataclass(frozen=True)
class Spans:
    """Which epochs (from 0) are early and late. Margins are summed before and after `first`, the first part's end."""

    first: int
    early: range  # the second half of the first part
    late: range  # the last two thirds of the rest


def spans(stages: Sequence[int]) -> Spans:
    """The spans of a run whose stages have so many epochs: the first stage, or a third of a run that has only one.

    >>> spans([40, 60])
    Spans(first=40, early=range(20, 40), late=range(60, 100))
    >>> spans([30])
    Spans(first=10, early=range(5, 10), late=range(16, 30))
    >>> spans([1])
    Spans(first=0, early=range(0, 0), late=range(0, 1))
    """
    epochs = sum(stages)
    first = stages[0] if len(stages) > 1 else epochs // 3
    return Spans(first, range(first // 2, first), range(epochs - max(1, -(-2 * (epochs - first) // 3)), epochs))


class Dynamics:
    """Running sums for every row [n], on the CPU: 41 + 4K bytes a row.

    early, late        mean probabilities [n, K]; in the late span an epoch weighs the more the later it is
    margin_*, p        of the given label: log-probability above the best other class; probability. And their squares
    p_last             probability of the given label after the last epoch
    agree, forgotten   in how many epochs the given label was the prediction; how often it ceased to be
    first_agree        epoch (from 1) in which it first was, 0 = never
    Rows without a label have only the first two.
    """

    def __init__(self, n_rows: int, n_classes: int, when: Spans, every: int) -> None:
        self.spans, self.every = when, every
        self.tensors: dict[str, Tensor] = {
            **{name: torch.zeros(n_rows, n_classes, dtype=torch.float16) for name in ("early", "late")},
            **{name: torch.zeros(n_rows) for name in SUMS},
            **{name: torch.zeros(n_rows, dtype=torch.int32) for name in COUNTS},
            "agreed": torch.zeros(n_rows, dtype=torch.bool),
            "epochs": torch.zeros(4, dtype=torch.float64),  # before, after `first`; weights of early, late so far
        }

    def is_due(self, epoch: int) -> bool:
        """Whether to record after this epoch (from 0); always after the last of a span."""
        last = epoch + 1 in (self.spans.first, self.spans.late.stop)
        return (epoch + 1) % self.every == 0 or last

    @torch.no_grad()
    def record(
        self, modules: Sequence[nn.Module], feed: Feed, labels: Tensor, epoch: int, apply: Apply = apply_here
    ) -> None:
        """Add the predictions of an epoch (from 0): the networks' mean probabilities for a weak view of every row.

        modules: in evaluation mode. labels: [n] given labels, -1 = unlabeled.
        """
        when, epochs = self.spans, self.tensors["epochs"]
        part = "margin_early" if epoch < when.first else "margin_late"
        epochs[0 if epoch < when.first else 1] += 1
        shares = {}  # of this epoch in the mean of its span
        if epoch in when.early:
            epochs[2] += 1
            shares["early"] = 1 / float(epochs[2])
        if epoch in when.late:
            weight = epoch - when.late.start + 1  # 1, 2, 3, …
            epochs[3] += weight
            shares["late"] = weight / float(epochs[3])
        size = evaluation_batch(feed.inputs.shape[1:])
        for number, rows in enumerate(torch.split(torch.arange(len(labels)), size)):
            view = feed.view(rows.to(feed.device), "view/dynamics/weak", "weak", epoch, number)
            p = torch.stack([apply(module, view).float().softmax(dim=1) for module in modules]).mean(dim=0).cpu()
            t = {name: tensor[rows[0] : rows[-1] + 1] for name, tensor in self.tensors.items() if name != "epochs"}
            for name, share in shares.items():
                # Half precision suffices: a growing weight keeps the last step of the mean above its rounding.
                t[name].copy_(torch.lerp(t[name].float(), p, share))
            given = labels[rows].cpu()
            labeled, own = given >= 0, given.clamp_min(0)[:, None]
            log_p = p.clamp_min(1e-30).log()
            margin = log_p.gather(1, own)[:, 0] - log_p.scatter(1, own, -torch.inf).amax(dim=1)
            agrees = (margin > 0) & labeled
            margin = margin.clamp(-CLIP, CLIP) * labeled
            of_given = p.gather(1, own)[:, 0] * labeled
            t[part] += margin
            t[f"{part}_square"] += margin.square()
            t["p"] += of_given
            t["p_square"] += of_given.square()
            t["p_last"].copy_(of_given)
            t["forgotten"] += t["agreed"] & ~agrees
            t["agree"] += agrees
            t["first_agree"].masked_fill_(agrees & (t["first_agree"] == 0), epoch + 1)
            t["agreed"].copy_(agrees)

    def load(self, tensors: Mapping[str, Tensor], where: Path) -> None:
        """Continue from the tensors of a checkpoint; `where` is its file, for messages."""
        check_state(tensors, self.tensors, where, kind="dynamics")
        self.tensors = {name: tensors[name] for name in self.tensors}

    def rows(self, labels: Tensor, held_out: npt.NDArray[np.bool_]) -> dict[str, Tensor]:
        """The dynamics of each row, tensors [n] or [n, K] by name: what `pars.audit.from_dynamics` reads.

        labels, held_out: [n], passed on to the result.
        """
        t, (n_early, n_late, weight_early, _) = self.tensors, self.tensors["epochs"].tolist()
        out: dict[str, Tensor] = {"late": t["late"]} | ({"early": t["early"]} if weight_early else {})
        for name, n in (("margin_early", n_early), ("margin_late", n_late), ("p", n_early + n_late)):
            if n:
                mean = t[name] / n
                out[f"{name}_mean"], out[f"{name}_std"] = mean, (t[f"{name}_square"] / n - mean**2).clamp_min(0).sqrt()
        epochs = max(1.0, n_early + n_late)
        return out | {
            "margin_mean": (t["margin_early"] + t["margin_late"])
            / epochs,  # area under the margin (Pleiss et al. 2020)
            "p_last": t["p_last"],
            "agree": t["agree"] / epochs,  # share of epochs
            "forgotten": t["forgotten"],
            "first_agree": t["first_agree"],
            "given": labels.cpu(),
            "held_out": torch.from_numpy(held_out),
        }
