"""Accurate classifiers from wrong labels: PARS and its rivals, one API."""

from typing import Any

__version__ = "0.1.0"
__all__ = ["PARSClassifier", "RobustClassifier", "__version__"]

LAZY = ("PARSClassifier", "RobustClassifier")


def __getattr__(name: str) -> Any:
    """The estimators, imported when first asked for: they bring scikit-learn and torch, which take seconds."""
    if name in LAZY:
        from pars import estimator

        return getattr(estimator, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
