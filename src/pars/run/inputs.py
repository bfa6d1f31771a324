"""What a run was given: settings and checksums of data, so that it goes on with the same; what came from Python."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pars.data import Dataset, DiskImages, Inputs
from pars.engine import RunFolder
from pars.errors import UserError
from pars.noise import NoiseRecord, labels_sha256
from pars.run import toml
from pars.run.config import RunConfig
from pars.run_files import check_run_format

Given = dict[str, bool]
"""Whether the `dataset` and the `networks` of a run were given from Python, where no configuration can name them."""


FREE = {"device", "data.name", "data.root", "noise.path", "train.checkpoint_every", "train.checkpoint_seconds"}
"""Settings that may change while a run is stopped: where it runs, where its data lies (checksums say which)."""


def open_run(path: str | Path) -> tuple[RunFolder, RunConfig]:
    """The folder of a run and its configuration."""
    folder = RunFolder(Path(path))
    if not folder.config.exists():
        raise UserError(f"{path} is not a run: {folder.config} is missing")
    check_run_format(folder.path)
    return folder, toml.read(folder.config, RunConfig())


def describe_data(dataset: Dataset) -> dict[str, Any]:
    """Rows, classes and checksums as JSON values; of a data set as it was loaded, before noise and standardizing.

    Standardizing sums, and sums may differ in their last bit from one machine to another.
    """
    out: dict[str, Any] = {"classes": list(dataset.classes), "train": None, "test": None}
    for name, split in (("train", dataset.train), ("test", dataset.test)):
        if split is not None:
            out[name] = {
                "rows": len(split.inputs),
                "shape": list(split.inputs.shape[1:]),
                "dtype": str(split.inputs.dtype),
                "labels_sha256": labels_sha256(split.labels),
                "inputs_blake2b": checksum(split.inputs),
            }
            if split.cached is not None:
                out[name] |= {"views": split.cached.shape[1], "views_blake2b": checksum(split.cached)}
    return out


def checksum(inputs: Inputs) -> str:
    """BLAKE2b of the values in C order.

    >>> checksum(np.zeros((2, 3), np.float32)) == checksum(np.zeros((2, 6), np.float32)[:, ::2])
    True
    """
    if isinstance(inputs, DiskImages):
        return inputs.checksum()
    digest = hashlib.blake2b(digest_size=16)
    step = max(1, 2**24 // max(1, int(np.prod(inputs.shape[1:]))))  # in parts: a memory map may be larger than memory
    for start in range(0, len(inputs), step):
        digest.update(np.ascontiguousarray(inputs[start : start + step]).data)
    return digest.hexdigest()


def read_threads(folder: RunFolder) -> int | None:
    """The number of CPU threads a run began with; none for one that began on CUDA."""
    threads = read_content(folder).get("threads")
    if threads is None or (type(threads) is int and threads > 0):
        return threads
    raise UserError(f"{folder.inputs} is damaged: threads is {threads!r}, expected a whole number above 0")


def read(folder: RunFolder) -> tuple[dict[str, Any], Given]:
    """The data of a run as `describe_data` saw it when it began, and what was given from Python."""
    content = read_content(folder)
    return content["data"], content["given_from_python"]


def read_content(folder: RunFolder) -> dict[str, Any]:
    try:
        content = json.loads(folder.inputs.read_text(encoding="utf-8"))
        tables, given = (content["data"], content["settings"]), content["given_from_python"]
        if all(isinstance(table, dict) for table in tables) and all(
            isinstance(given[key], bool) for key in ("dataset", "networks")
        ):
            return dict(content)
    except FileNotFoundError:
        raise UserError(f"{folder.inputs} is missing: it says which data the run was begun with") from None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{folder.inputs} is damaged: {error!r}") from error
    raise UserError(f"{folder.inputs} is damaged: expected what a run was given")


def describe_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """What of a configuration decides what a run becomes, under dotted keys, as JSON values."""
    plain = json.loads(json.dumps(config))
    return {key: value for key, value in flat(plain) if key not in FREE}


def check_settings(folder: RunFolder, config: Mapping[str, Any]) -> None:
    """Refuse other settings than the run began with: half of it would be of the one kind, half of the other."""
    began = read_content(folder)["settings"]
    # A setting that there was not yet when the run began has its default now, which is what the run did without it.
    now_known = {key: value for key, value in describe_settings(config).items() if key in began}
    for key, (was, now) in differences(began, now_known).items():
        raise UserError(f"{folder.config}: {key} is {reprlib.repr(now)}, but the run began with {reprlib.repr(was)}")


def check_given(folder: RunFolder, given: Given, **now: object) -> None:
    """Refuse to go on without what was given from Python when the run began."""
    how = {
        "dataset": "its dataset was given from Python: pass it to run.resume(path, dataset=...)",
        "networks": "its networks were given from Python: pass networks=[...] to run.resume or run.load_run",
    }
    for name, value in now.items():
        if given[name] and value is None:
            raise UserError(f"{folder.path}: {how[name]}; the command line cannot")


def check_same(
    folder: RunFolder, then: Mapping[str, Any], now: Mapping[str, Any], noise: NoiseRecord, name: str
) -> None:
    """Refuse other rows, other classes or other labels than the run began with."""
    different = f"{name} is not the data that the run in {folder.path} began with"
    for key, (was, is_now) in differences(dict(flat(then)), dict(flat(now))).items():
        raise UserError(f"{different}: {key} was {reprlib.repr(was)} and is {reprlib.repr(is_now)}")
    try:
        recorded = NoiseRecord.from_json(folder.noise.read_text(encoding="utf-8"))
    except (OSError, ValueError, UserError) as error:
        raise UserError(f"{folder.noise} is missing or damaged: {error}") from error
    if recorded != noise:
        raise UserError(f"{different}: its labels after the noise are not those of {folder.noise}; another label file?")


def check_data_of(path: str | Path, dataset: Dataset) -> None:
    """Refuse a run that was trained on other rows than these."""
    folder, _ = open_run(path)
    recorded, now = dict(flat(read(folder)[0])), dict(flat(describe_data(dataset)))
    for key in differences(recorded, now):
        raise UserError(f"{path} was trained on other rows than {dataset.name}: {key} differs; copied from elsewhere?")


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Old and new values of what is not the same, by key; none for what is missing.

    >>> differences({"a": 1, "b": 2}, {"b": 3, "a": 1})
    {'b': (2, 3)}
    """
    return {key: (old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key)}


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested values under dotted keys."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
