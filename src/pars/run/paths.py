"""Files of a configuration, so named that a run can be resumed from any working directory."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pars.data import NAMES, data_root
from pars.files import expanded
from pars.run.config import RunConfig


def with_absolute_paths(config: RunConfig) -> RunConfig:
    """The same files by their whole paths; the names of published data sets stay names."""
    data, noise = config.data, config.noise
    if data.name not in NAMES:
        data = replace(data, name=absolute(expanded(data.name), data.name))
    if data.root is not None:
        data = replace(data, root=str(data_root(data.root).resolve()))
    if noise.path is not None:
        noise = replace(noise, path=absolute(label_file(config), noise.path))
    return replace(config, data=data, noise=noise)


def label_file(config: RunConfig) -> Path:
    """The file of the noise; a CIFAR-N file is looked for beside the data too."""
    path = Path(config.noise.path or "")
    beside = data_root(config.data.root) / path
    return beside if path.suffix == ".pt" and not path.exists() and beside.exists() else path


def absolute(path: Path, text: str) -> str:
    """The whole path of what exists; else the text as it was given, for the message that will refuse it."""
    with suppress(OSError):  # a name too long for a file is no file's
        return str(path.resolve()) if path.exists() else text
    return text
