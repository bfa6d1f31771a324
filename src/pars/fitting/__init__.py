"""One pipeline from a user's rows to a classifier, the list of wrong labels, and whether robust training helped.

`pars.fit`, `pars fit`, `pars selftest`, `pars predict` and the estimators are callers of this package.
"""

from typing import TYPE_CHECKING

from pars.lazy_package import import_lazily

if TYPE_CHECKING:
    from pars.fitting.entry import fit
    from pars.fitting.pipeline import audit_fit, content_of, fit_table
    from pars.fitting.prediction import Predictor, evaluate, load_predictor
    from pars.fitting.result import FitResult, Gain, Retraining
    from pars.fitting.rows import read_rows, read_test_rows
    from pars.fitting.self_test import SelftestResult, selftest, selftest_table
    from pars.fitting.settings import FitSettings
    from pars.fitting.training import ClassicTraining, Training, no_progress, reads_texts, train_dataset

__all__ = [
    "ClassicTraining",
    "FitResult",
    "FitSettings",
    "Gain",
    "Predictor",
    "Retraining",
    "SelftestResult",
    "Training",
    "audit_fit",
    "content_of",
    "evaluate",
    "fit",
    "fit_table",
    "load_predictor",
    "no_progress",
    "read_rows",
    "read_test_rows",
    "reads_texts",
    "selftest",
    "selftest_table",
    "train_dataset",
]

import_lazily(
    __name__,
    {
        "pars.fitting.entry": "fit",
        "pars.fitting.pipeline": "audit_fit, content_of, fit_table",
        "pars.fitting.prediction": "Predictor, evaluate, load_predictor",
        "pars.fitting.result": "FitResult, Gain, Retraining",
        "pars.fitting.rows": "read_rows, read_test_rows",
        "pars.fitting.self_test": "SelftestResult, selftest, selftest_table",
        "pars.fitting.settings": "FitSettings",
        "pars.fitting.training": "ClassicTraining, Training, no_progress, reads_texts, train_dataset",
    },
)
