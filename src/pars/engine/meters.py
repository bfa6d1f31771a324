"""Sums over an epoch, kept on the device and read once: no step waits for a number."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from pars.method_api import Selection

COUNTS = (
    "rows",
    "ambiguous",
    "ambiguous_known",
    "noisy_known",
    "ambiguous_pseudo_right",
    "noisy_pseudo_right",
    "ambiguous_labeled",
    "noisy_labeled",
    "ambiguous_given_right",
    "noisy_given_right",
    "wrong_labels",
    "wrong_labels_predicted",
)


class EpochMeter:
    """Mean of each loss, and how good the epoch's selections were. Only this class sees true labels while training."""

    def __init__(self, true_labels: Tensor | None) -> None:
        self._true = true_labels
        self.sums: dict[str, Tensor] = {}

    def add_losses(self, losses: Mapping[str, Tensor]) -> None:
        for name, value in losses.items():
            self._add(f"loss/{name}", value.detach().double())
        self._add("loss/steps", torch.ones((), dtype=torch.float64))

    def add_selections(self, selections: Mapping[str, Selection]) -> None:
        for name, s in selections.items():
            ambiguous, predicted, given = s.selected, s.predicted, s.batch.labels
            true = torch.full_like(given, -2) if self._true is None else self._true[s.batch.rows]
            known = true >= 0  # unlabeled rows of a user's data have no truth to compare with
            labeled = known & (given >= 0)
            right, kept, wrong = predicted == true, labeled & (given == true), labeled & (given != true)
            counts = (
                torch.ones_like(ambiguous),
                ambiguous,
                ambiguous & known,
                ~ambiguous & known,
                ambiguous & right,
                ~ambiguous & right,
                ambiguous & labeled,
                ~ambiguous & labeled,
                ambiguous & kept,
                ~ambiguous & kept,
                wrong,
                wrong & (predicted == given),
            )
            self._add(f"selection/{name}", torch.stack(counts).sum(dim=1).double())

    def add_notes(self, notes: Mapping[str, float]) -> None:
        """Numbers that the method said before the epoch."""
        self.sums |= {f"note/{name}": torch.tensor(value, dtype=torch.float64) for name, value in notes.items()}

    def notes(self) -> dict[str, float]:
        return {key.removeprefix("note/"): float(v) for key, v in self.sums.items() if key.startswith("note/")}

    def _add(self, key: str, value: Tensor) -> None:
        self.sums[key] = self.sums[key] + value if key in self.sums else value

    def losses(self) -> dict[str, float]:
        steps = float(self.sums["loss/steps"])
        return {
            key.removeprefix("loss/"): float(total) / steps
            for key, total in self.sums.items()
            if key.startswith("loss/") and key != "loss/steps"
        }

    def selections(self) -> dict[str, dict[str, float]]:
        """Shares per selection; left out are those of nothing, and without true labels those that need them."""
        out = {}
        for key, total in self.sums.items():
            if key.startswith("selection/"):
                counts = dict(zip(COUNTS, total.tolist(), strict=True))
                out[key.removeprefix("selection/")] = self._shares(counts)
        return out

    def _shares(self, c: dict[str, float]) -> dict[str, float]:
        noisy = c["rows"] - c["ambiguous"]
        shares = {"rows": c["rows"], "ambiguous": c["ambiguous"], "noisy": noisy}
        if self._true is None:
            return shares
        known = {
            "pseudo_accuracy": (
                c["ambiguous_pseudo_right"] + c["noisy_pseudo_right"],
                c["ambiguous_known"] + c["noisy_known"],
            ),
            "pseudo_accuracy_ambiguous": (c["ambiguous_pseudo_right"], c["ambiguous_known"]),
            "pseudo_accuracy_noisy": (c["noisy_pseudo_right"], c["noisy_known"]),
            "labels_right_ambiguous": (c["ambiguous_given_right"], c["ambiguous_labeled"]),
            "labels_right_noisy": (c["noisy_given_right"], c["noisy_labeled"]),
            "memorized": (c["wrong_labels_predicted"], c["wrong_labels"]),
        }
        return shares | {name: part / whole for name, (part, whole) in known.items() if whole}
