"""A run's whole configuration: one dataclass per module, one TOML file, one set of flags."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pars.augment import ViewsConfig
from pars.data import DataConfig, data_root
from pars.engine import TrainConfig
from pars.method_api import Method
from pars.methods import PARS
from pars.models import ModelConfig
from pars.noise import NoiseConfig


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that decides a run's outcome."""

    data: DataConfig = field(default_factory=DataConfig)
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    views: ViewsConfig = field(default_factory=ViewsConfig)
    method: Method = field(default_factory=PARS)
    train: TrainConfig = field(default_factory=TrainConfig)
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"


def in_shares(config: RunConfig) -> RunConfig:
    """The configuration with its method's lengths as shares of its epochs: for a run of another length."""
    return replace(config, method=config.method.in_shares(config.train.epochs))


def label_file(config: RunConfig) -> Path:
    """The label file of the noise; a CIFAR-N file may lie beside the data."""
    path = Path(config.noise.path or "")
    beside = data_root(config.data.root) / path
    return beside if path.suffix == ".pt" and not path.exists() and beside.exists() else path
