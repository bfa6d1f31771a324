"""What a classifier without a network is: hyper-parameters that fit rows, and a model that is a few arrays."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.int64]
Arrays = dict[str, npt.NDArray[Any]]


class ClassicModel(Protocol):
    """Predicts rows; all of it is in `arrays`, so that it can be stored."""

    def predict_proba(self, x: Floats) -> npt.NDArray[np.float64]:
        """Probabilities [m, K] of rows [m, d]."""
        ...

    def arrays(self) -> Arrays: ...

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> Self: ...


class ClassicSettings(Protocol):
    """Hyper-parameters: a frozen dataclass."""

    def fit(
        self, x: Floats, labels: Integers, n_classes: int, seed: int
    ) -> tuple[ClassicModel, npt.NDArray[np.float64]]:
        """The model of rows [n, d] with labels [n], and what it would predict of each row without its label [n, K]."""
        ...
