"""A run's whole configuration: one dataclass per module, one TOML file, one set of flags."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pars.augment import ViewsConfig
from pars.data import NAMES, DataConfig, data_root
from pars.engine import TrainConfig
from pars.files import expanded
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


def with_absolute_paths(config: RunConfig) -> RunConfig:
    """The configuration with absolute paths, so that its run can be resumed from any working directory.

    Names of published data sets stay names.
    """
    data, noise = config.data, config.noise
    if data.name not in NAMES:
        data = replace(data, name=_absolute(expanded(data.name), data.name))
    if data.root is not None:
        data = replace(data, root=str(data_root(data.root).resolve()))
    if noise.path is not None:
        noise = replace(noise, path=_absolute(label_file(config), noise.path))
    return replace(config, data=data, noise=noise)


def label_file(config: RunConfig) -> Path:
    """The label file of the noise; a CIFAR-N file may lie beside the data."""
    path = Path(config.noise.path or "")
    beside = data_root(config.data.root) / path
    return beside if path.suffix == ".pt" and not path.exists() and beside.exists() else path


def _absolute(path: Path, text: str) -> str:
    """The absolute path of what exists; else the text as given, for the message that will refuse it."""
    with suppress(OSError):  # the name is too long for a file
        return str(path.resolve()) if path.exists() else text
    return text
