"""Accurate classifiers from wrong labels: PARS and its rivals, one API."""

import os
import sys
from typing import Any

__version__ = "0.1.0"
__all__ = ["PARSClassifier", "RobustClassifier", "__version__"]

if "torch" not in sys.modules and not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}:
    # How long a waiting thread of torch spins before it sleeps. libgomp reads this when torch is imported. By default a
    # thread spins for milliseconds, in which the one it waits for may need its core: where cores are shared, training
    # is several times slower. With this it takes as long as a gap within a step does (benchmarks/contention.py).
    os.environ["GOMP_SPINCOUNT"] = "4000"

LAZY = ("PARSClassifier", "RobustClassifier")


def __getattr__(name: str) -> Any:
    """The estimators, imported when first asked for: they bring scikit-learn and torch, which take seconds."""
    if name in LAZY:
        from pars import estimator

        return getattr(estimator, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
