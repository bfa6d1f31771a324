"""Classifiers of feature vectors that are not networks: nearest neighbors and logistic regression.

They have no epochs, stages or batches, so the training loop has no part in them. `fitting` dispatches to `fit_classic`
by name. What comes out predicts as a network does, and its labels are audited by out-of-fold probabilities.
"""

from typing import TYPE_CHECKING

from pars.classic.catalog import CLASSIC, check_has_epochs, check_known, is_classic_folder, markdown_table
from pars.lazy_package import import_lazily

if TYPE_CHECKING:
    from pars.classic.fit import ClassicClassifier, ClassicFit, fit_classic, linear_predictions, load_fit, save_fit

__all__ = [
    "CLASSIC",
    "ClassicClassifier",
    "ClassicFit",
    "check_has_epochs",
    "check_known",
    "fit_classic",
    "is_classic_folder",
    "linear_predictions",
    "load_fit",
    "markdown_table",
    "save_fit",
]

import_lazily(
    __name__,
    {"pars.classic.fit": "ClassicClassifier, ClassicFit, fit_classic, linear_predictions, load_fit, save_fit"},
)
