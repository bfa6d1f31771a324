"""Runs: configuration, presets, training, resuming, loading, comparing."""

from typing import TYPE_CHECKING

from pars.lazy_package import import_lazily
from pars.run.config import RunConfig, in_shares
from pars.run.inputs import check_data_of, checksum, open_run
from pars.run.presets import PRESETS, Preset, preset
from pars.run.toml import overlay, plain
from pars.run.toml import read as read_toml

if TYPE_CHECKING:
    from pars.run.classifier import Classifier, load_run, row_features, training_inputs
    from pars.run.comparison import ComparedRun, check_comparison, check_runs, train_all, write_comparison
    from pars.run.lr_search import search_learning_rates
    from pars.run.plans import differences
    from pars.run.train import Trained, build_trainer, canonical, resume, train, train_or_resume
    from pars.run.training_data import TrainingData, load_training_data

__all__ = [
    "PRESETS",
    "Classifier",
    "ComparedRun",
    "Preset",
    "RunConfig",
    "Trained",
    "TrainingData",
    "build_trainer",
    "canonical",
    "check_comparison",
    "check_data_of",
    "check_runs",
    "checksum",
    "differences",
    "in_shares",
    "load_run",
    "load_training_data",
    "open_run",
    "overlay",
    "plain",
    "preset",
    "read_toml",
    "resume",
    "row_features",
    "search_learning_rates",
    "train",
    "train_all",
    "train_or_resume",
    "training_inputs",
    "write_comparison",
]

import_lazily(
    __name__,
    {
        "pars.run.classifier": "Classifier, load_run, row_features, training_inputs",
        "pars.run.comparison": "ComparedRun, check_comparison, check_runs, train_all, write_comparison",
        "pars.run.lr_search": "search_learning_rates",
        "pars.run.plans": "differences",
        "pars.run.train": "Trained, build_trainer, canonical, resume, train, train_or_resume",
        "pars.run.training_data": "TrainingData, load_training_data",
    },
)
