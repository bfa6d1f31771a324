"""Accurate classifiers from wrong labels: PARS and its rivals, one API."""

__version__ = "0.1.0"
