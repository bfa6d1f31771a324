"""Runs: configuration, presets, starting, resuming, loading. The doors (command, demo, benchmarks) use this."""

from typing import TYPE_CHECKING

from pars.lazy_package import import_lazily
from pars.run.config import RunConfig, in_shares
from pars.run.presets import PRESETS, Preset, preset
from pars.run.toml import overlay, plain
from pars.run.toml import read as read_toml

if TYPE_CHECKING:
    from pars.run.features import row_features
    from pars.run.load import Classifier, load_run
    from pars.run.plans import differences, planned
    from pars.run.prepare import Prepared, prepare
    from pars.run.train import build, normal, open_run, resume, train

__all__ = [
    "PRESETS",
    "Classifier",
    "Prepared",
    "Preset",
    "RunConfig",
    "build",
    "differences",
    "in_shares",
    "load_run",
    "normal",
    "open_run",
    "overlay",
    "plain",
    "planned",
    "prepare",
    "preset",
    "read_toml",
    "resume",
    "row_features",
    "train",
]

import_lazily(
    __name__,
    {
        "pars.run.features": "row_features",
        "pars.run.load": "Classifier, load_run",
        "pars.run.plans": "differences, planned",
        "pars.run.prepare": "Prepared, prepare",
        "pars.run.train": "build, normal, open_run, resume, train",
    },
)
