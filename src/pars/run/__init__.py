"""Runs: configuration, presets, training, resuming, loading, comparing."""

from pars.run.classifier import Classifier, load_run, row_features
from pars.run.config import RunConfig, in_shares
from pars.run.inputs import open_run
from pars.run.plans import differences, planned
from pars.run.presets import PRESETS, Preset, preset
from pars.run.toml import overlay, plain
from pars.run.toml import read as read_toml
from pars.run.train import Trained, build_trainer, canonical, resume, train, train_or_resume
from pars.run.training_data import TrainingData, load_training_data

__all__ = [
    "PRESETS",
    "Classifier",
    "Preset",
    "RunConfig",
    "Trained",
    "TrainingData",
    "build_trainer",
    "canonical",
    "differences",
    "in_shares",
    "load_run",
    "load_training_data",
    "open_run",
    "overlay",
    "plain",
    "planned",
    "preset",
    "read_toml",
    "resume",
    "row_features",
    "train",
    "train_or_resume",
]
