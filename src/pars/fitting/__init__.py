"""One pipeline from a user's rows to a classifier, the list of wrong labels, and whether robust training helped.

`pars.fit`, `pars fit`, `pars selftest`, `pars predict` and the estimators are callers of this package.
"""

from pars.fitting.gain import Gain
from pars.fitting.pipeline import FitSettings, audit_fit, fit, fit_table
from pars.fitting.prediction import Predictor, evaluate, load_predictor
from pars.fitting.result import FitResult
from pars.fitting.rows import read_rows
from pars.fitting.self_test import SelftestResult, selftest, selftest_table
from pars.fitting.training import Training, train_dataset, usual_signals

__all__ = [
    "FitResult",
    "FitSettings",
    "Gain",
    "Predictor",
    "SelftestResult",
    "Training",
    "audit_fit",
    "evaluate",
    "fit",
    "fit_table",
    "load_predictor",
    "read_rows",
    "selftest",
    "selftest_table",
    "train_dataset",
    "usual_signals",
]
