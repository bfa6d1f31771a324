"""Accurate classifiers from wrong labels: PARS and its rivals, one API."""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pars.estimator import PARSClassifier, RobustClassifier
    from pars.fitting import fit, selftest
    from pars.reviewing import review

__version__ = "0.1.0"
__all__ = ["PARSClassifier", "RobustClassifier", "__version__", "fit", "review", "selftest"]

if "torch" not in sys.modules and not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}:
    # How long a waiting thread of torch spins before it sleeps. libgomp reads this when torch is imported. By default a
    # thread spins for milliseconds, in which the one it waits for may need its core: where cores are shared, training
    # is several times slower. With this it takes as long as a gap within a step does (benchmarks/contention.py).
    os.environ["GOMP_SPINCOUNT"] = "4000"

LAZY = {
    "PARSClassifier": "estimator",
    "RobustClassifier": "estimator",
    "fit": "fitting",
    "review": "reviewing",
    "selftest": "fitting",
}


def __getattr__(name: str) -> Any:
    """The entry points, imported when first used: they need scikit-learn and torch, which take seconds to import."""
    if name in LAZY:
        return getattr(importlib.import_module(f"pars.{LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
