"""A run's whole configuration: one dataclass per room, one TOML file, one set of flags."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from pars.augment import ViewsConfig
from pars.data import DataConfig
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
