"""Runs: configuration, presets, starting, resuming, loading. The doors (command, demo, benchmarks) use this."""

from pars.run.config import RunConfig, in_shares
from pars.run.features import row_features
from pars.run.load import Classifier, load_run
from pars.run.plans import differences, planned
from pars.run.prepare import Prepared, prepare
from pars.run.presets import PRESETS, Preset, preset
from pars.run.toml import overlay, plain
from pars.run.toml import read as read_toml
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
