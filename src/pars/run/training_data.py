"""From a configuration to rows with (noisy) labels, a record of the noise, views and networks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tomli_w
from torch import Tensor

from pars import augment, data, encode, models, noise, seeds
from pars.data import Dataset
from pars.engine import RunFolder, as_tensor
from pars.errors import UserError
from pars.files import expanded
from pars.run import inputs, toml
from pars.run.config import RunConfig, label_file
from pars.run.presets import OWN_FILES
from pars.run_files import VERSION
from pars.spreadsheet import csv_lines

VIEW_BANK = 1024  # rows that feature views may mix in


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Rows with their given labels, views and held-out rows: a pure function of the configuration."""

    data: Dataset
    noise: noise.NoiseRecord
    held_out: npt.NDArray[np.bool_]
    judging: npt.NDArray[np.bool_]  # of the held-out rows, those that choose nothing
    views: augment.Views
    data_record: dict[str, Any]  # of the data as it was loaded

    def networks(self, config: RunConfig) -> list[models.Backbone]:
        shape = tuple(self.data.train.inputs.shape[1:])
        networks = [
            models.build_model(config.model, shape, self.data.n_classes, seed=config.seed + index)
            for index in range(config.method.networks)
        ]
        for network in networks:
            if type(network).fit_statistics is not models.Backbone.fit_statistics:
                network.fit_statistics(self.sample())
        return networks

    def sample(self, n_rows: int = 5_000, n_values: int = 2**24) -> Tensor:
        """Evenly spaced training rows that are not held out, as the network sees them: for `fit_statistics`.

        At most `n_rows` rows and `n_values` numbers.
        """
        rows, inputs = np.flatnonzero(~self.held_out), self.data.train.inputs
        most = min(n_rows, max(1, n_values // math.prod(inputs.shape[1:])))
        return self.views.plain(as_tensor(inputs[rows[:: -(-len(rows) // most)]]))


def load_training_data(config: RunConfig, dataset: Dataset | None = None) -> TrainingData:
    """Load the rows, withhold and corrupt labels, hold rows out; `dataset` replaces what the configuration names."""
    if dataset is None:
        check_own_file(config)
        source = data.load(config.data, seed=config.seed, tokenize=_tokenize(config.model))
    else:
        check_dataset(dataset)
        source = dataset
    loaded = data.standardized(source)
    if config.model.name not in models.OWN and config.model.normalize == "network" and loaded.train.is_image:
        mean, std = models.input_statistics(config.model.name, loaded.train.inputs.shape[1])
        loaded = replace(loaded, mean=mean, std=std)
    if loaded.train.is_text and config.model.name in models.OWN:
        raise UserError(f"{loaded.name}: rows are texts as token numbers, expected --model.name hf:NAME")
    if config.model.name.startswith("hf:") and loaded.train.inputs.ndim == 2 and not loaded.train.is_text:
        raise UserError(f"{loaded.name}: rows are numbers, but {config.model.name} is a network of texts or images")
    if loaded.train.is_text and config.method.mixes_rows:
        raise UserError(
            f"{loaded.name}: {type(config.method).__name__} mixes the inputs of rows (mixup), but rows are texts, "
            "whose token numbers have no mean; choose another method"
        )
    if loaded.test is not None and not (loaded.test.labels >= 0).any():
        loaded = replace(loaded, test=None)  # nothing to compare with
    noisy = corrupted(config, loaded)
    true = loaded.train.true_labels
    if true is None and not config.noise.is_none:
        true = loaded.train.labels  # the labels that were right before they were corrupted
    train = replace(loaded.train, labels=noisy.labels, true_labels=true)
    record = inputs.describe_data(source)
    if config.data.labels is not None:
        found = data.read_checked_labels(expanded(config.data.labels), noisy.labels, loaded.classes)
        checked = found.checked if train.checked is None else np.where(found.checked, found.checked, train.checked)
        train = replace(train, labels=found.labels, true_labels=found.true_labels(true), checked=checked)
        record["train"]["checked_labels_sha256"] = noise.labels_sha256(found.labels)
    with_noise = replace(loaded, train=train)
    data.check_split(with_noise.train, with_noise.n_classes, f"{loaded.name} (training)", training=True)
    trusted = np.zeros(len(train.labels), dtype=bool)
    if train.checked is None:
        held_out = data.holdout(train.labels, config.data.holdout, config.seed)
    else:
        trusted = train.checked == data.TRUSTED
        reserved = trusted | (train.checked == data.DROPPED)
        held_out = data.holdout(np.where(reserved, -1, train.labels), config.data.holdout, config.seed) | reserved
    choosing = np.where(held_out & ~trusted, train.labels, -1)
    judging = trusted | (held_out & data.holdout(choosing, config.data.judging, config.seed))
    if not (held_out & ~judging).any():
        judging = np.zeros_like(held_out)  # a single row cannot do both
    return TrainingData(with_noise, noisy.record, held_out, judging, _views(config, with_noise), record)


def _tokenize(model: models.ModelConfig) -> Callable[[Sequence[str]], data.Tokenize] | None:
    """How a network's texts become numbers: as many tokens as the longest of some texts has, up to `model.size`."""
    if not model.name.startswith("hf:"):
        return None
    return lambda texts: encode.text_tokenizer(model.name, model.size).fitted(texts)


def check_own_file(config: RunConfig) -> None:
    """A preset for one's own rows cannot know whose: say so, rather than that its placeholder does not exist."""
    for preset, name in OWN_FILES.items():
        if config.data.name == name and not Path(name).exists():
            kind = {".npz": "FILE.npz", ".csv": "TABLE"}.get(Path(name).suffix, "FOLDER")
            raise UserError(f"data.name is {name}, which is not there: preset {preset} needs --data.name {kind}")


def check_dataset(dataset: Dataset) -> None:
    """What `load` checks of a file; once standardized, one missing value would be a column of them."""
    if not all(isinstance(name, str) for name in dataset.classes):
        raise UserError(f"{dataset.name}: classes are {list(dataset.classes)}, expected texts")
    data.check_split(dataset.train, dataset.n_classes, f"{dataset.name} (training)", training=True)
    if dataset.test is not None:
        data.check_split(dataset.test, dataset.n_classes, f"{dataset.name} (test)")
        shape, expected = list(dataset.test.inputs.shape[1:]), list(dataset.train.inputs.shape[1:])
        if shape != expected:
            raise UserError(f"{dataset.name} (test): rows have shape {shape}, those to train on {expected}")


def corrupted(config: RunConfig, dataset: Dataset) -> noise.NoisyLabels:
    """The given labels of the training rows, made wrong as configured; rows without a label keep none."""
    train, n_classes = dataset.train, dataset.n_classes
    if train.is_text and config.noise.kind == "instance":
        raise UserError("noise.kind is instance, which depends on numbers of a row; token numbers have no such meaning")
    if config.noise.is_none:
        # The labels are as they came: only say how wrong, where that is known.
        return noise.NoisyLabels(train.labels, noise.describe(train.true_labels, train.labels, n_classes, kind="none"))
    noisy = noise.apply(
        config.noise,
        train.labels,
        n_classes,
        seed=config.seed,
        inputs=train.inputs,
        file_labels=cifar_n_labels(config, dataset),
        classes=dataset.classes,
    )
    if train.true_labels is None:
        return noisy
    # Noise on top of labels that were wrong already: the record compares with the truth, not with those.
    r = noisy.record
    record = noise.describe(
        train.true_labels, noisy.labels, n_classes, kind=r.kind, convention=r.convention, rate=r.rate, seed=r.seed
    )
    return noise.NoisyLabels(noisy.labels, record)


def cifar_n_labels(config: RunConfig, dataset: Dataset) -> data.Labels | None:
    """The labels of a CIFAR-N file, where the noise is one."""
    path = config.noise.path
    if config.noise.kind != "file" or path is None or Path(path).suffix != ".pt":
        return None
    # Without true labels of its own, a data set is taken at its word: its labels are what the file is aligned by.
    true = dataset.train.labels if dataset.train.true_labels is None else dataset.train.true_labels
    return data.human_labels(label_file(config), config.noise.labels, true_labels=true, n_classes=dataset.n_classes)


def _views(config: RunConfig, dataset: Dataset) -> augment.Views:
    rows, cached = dataset.train.inputs, dataset.train.cached
    is_image, bank = rows.ndim == 4, None
    if dataset.train.features is not None:
        chosen = seeds.generator(config.seed, "view-bank").permutation(len(rows))[:VIEW_BANK]
        bank = np.asarray(rows[np.sort(chosen)], dtype=np.float32)
    return augment.build_views(
        config.views,
        image=is_image,
        shape=rows.shape[1:],
        mean=dataset.mean if is_image else (),
        std=dataset.std if is_image else (),  # features are standardized already
        bank=bank,
        cached=0 if cached is None else cached.shape[1],
        text=dataset.train.is_text,
    )


def first_files(
    folder: RunFolder, config: RunConfig, training: TrainingData, given: inputs.Given, threads: int | None
) -> dict[Path, str]:
    """The part of a run folder that is known before training; config.toml last, for it makes the folder a run."""
    settings = toml.to_dict(config)
    began_with = {
        "format": VERSION,
        "given_from_python": given,
        "threads": threads,
        "data": training.data_record,
        "settings": inputs.describe_settings(settings),
    }
    # labels.csv: row, given label and (where known) true label, by class name
    train, names = training.data.train, (*training.data.classes, "")  # -1 picks the empty name: unlabeled
    columns = {"given": train.labels} | ({} if train.true_labels is None else {"true": train.true_labels})
    rows = enumerate(zip(*(column.tolist() for column in columns.values()), strict=True))
    labels = csv_lines([("row", *columns), *((row, *(names[k] for k in numbers)) for row, numbers in rows)])
    return {
        folder.inputs: json.dumps(began_with, indent=2) + "\n",
        folder.noise: json.dumps(asdict(training.noise)) + "\n",
        folder.labels: "".join(labels),
        folder.config: tomli_w.dumps(settings),
    }
