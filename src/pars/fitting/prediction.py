"""Predictions for new rows: read as the classifier's own training rows were read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars import data, encode, run
from pars.classic import ClassicClassifier, is_classic_folder, load_fit
from pars.data import Inputs, Labels, Table
from pars.encode import EncoderName, Preprocessor
from pars.engine import DeviceName
from pars.errors import UserError
from pars.files import expanded
from pars.fit_folder import ROWS, fit_of, run_of
from pars.fitting.rows import unlabeled_rows
from pars.run import Classifier
from pars.run_files import RunFiles, check_files, check_run_format

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float32]
FAR = 30.0  # standard deviations of the training rows: a feature vector beyond is unlike any of them


@dataclass(frozen=True, eq=False)
class InputRows:
    """Inputs [n, ...] of a classifier, labels [n] (-1: none), and names where the rows have some."""

    inputs: Inputs
    labels: Labels
    ids: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class Predictor:
    """A classifier with the preprocessor of its rows; without one (a run of `pars train`) rows are arrays."""

    model: Classifier | ClassicClassifier
    preprocessor: Preprocessor | None = None
    source: str = "the classifier"
    image_columns: Mapping[str, Any] = field(default_factory=dict)  # of the table of images that a run learned from

    def predict_proba(self, rows: Any) -> Floats:
        """Probabilities [n, K] of rows as `pars.fit` takes them, or of a file of such rows."""
        is_file = isinstance(rows, str) or hasattr(rows, "__fspath__")
        if is_file:
            found = self.read(str(rows))
        elif self.preprocessor is None:
            found = InputRows(unlabeled_rows(rows).array, np.zeros(0, dtype=np.int64))  # type: ignore[arg-type]
        else:
            table = self.preprocessor.read(rows) if data.is_frame(rows) else self._unlabeled(rows)
            self._warn_of_unfamiliar(table)
            found = InputRows(self.preprocessor.transform(table)[0], table.labels)
        return self.probabilities(found, str(rows) if is_file else "rows")

    def probabilities(self, rows: InputRows, source: str) -> Floats:
        """Probabilities [n, K] of inputs; a warning where feature vectors are far from those that were trained on."""
        found = self.model.predict_proba(rows.inputs, source).numpy()
        if rows.inputs.ndim == 2 and (self.preprocessor is None or self.preprocessor.kind == "array"):
            scaled = data.standardize(rows.inputs, self.model.mean, self.model.std, source)
            far = np.flatnonzero(np.abs(scaled).max(axis=1) > FAR)
            if len(far):
                column = int(np.abs(scaled[far[0]]).argmax())
                mean, std, value = self.model.mean[column], self.model.std[column], rows.inputs[far[0], column]
                why = f"column {column} is {value:g}, training rows have {mean:g} ± {std:g}"
                _warn(f"{source}: row {far[0]}", why, len(far), len(found))
        return found

    def _warn_of_unfamiliar(self, table: Table) -> None:
        assert self.preprocessor is not None
        if self.preprocessor.columns is not None and table.columns is not None:
            unlike = self.preprocessor.columns.unfamiliar(table.columns)
            for row, why in list(unlike.items())[:1]:
                _warn(table.row(row), why, len(unlike), len(table))

    def _unlabeled(self, rows: Any) -> Table:
        assert self.preprocessor is not None
        encoder = self.preprocessor.encoder
        return unlabeled_rows(rows, None if encoder is None else encoder.name)

    def read(self, source: str, *, labels: bool = False, root: str | None = None, **columns: Any) -> InputRows:
        """The rows of a file, a folder or a published data set, with their labels if asked for.

        columns: label, id, delimiter and encoding, where they differ from those of the training table.
        """
        classes = self.model.classes if labels else None
        if not is_raw(source):
            shape = self.model.input_shape
            side = shape[1] if len(shape) == 3 else None
            split = data.load_rows(source, root=root, classes=classes, labels=labels, side=side)
            if self.preprocessor is None or split.inputs.ndim == 2:
                return InputRows(split.inputs, split.labels)
            images = data.table_of(source, len(split), array=split.inputs)
            return InputRows(self.preprocessor.transform(images)[0], split.labels)
        if self.preprocessor is None and self.model.input_shape[0] == 3 == len(self.model.input_shape):
            return self._read_images(source, classes, columns)
        if self.preprocessor is None:
            raise UserError(
                f"{source}: {self.source} was trained on arrays, expected an .npz file; `pars encode` makes one, and "
                "`pars fit` reads tables and images"
            )
        known = {"classes": classes} if labels else {}
        table = self.preprocessor.read(source, labels=labels, **columns, **known)
        self._warn_of_unfamiliar(table)
        named = table.ids != tuple(map(str, range(len(table))))
        return InputRows(self.preprocessor.transform(table)[0], table.labels, table.ids if named else None)

    def _read_images(self, source: str, classes: tuple[str, ...] | None, columns: dict[str, Any]) -> InputRows:
        """A folder or table of images for a run that was trained on such; they stay on disk."""
        if data.has_columns(expanded(source)):
            columns = {**self.image_columns, **columns}
        if classes is None:
            columns = {**columns, "label": None}
        table = data.read_table(source, classes=classes, **columns)
        if table.images is None:
            raise UserError(f"{source}: {self.source} was trained on images, expected a folder of them, or a pack")
        split = data.split_of(table, self.model.input_shape[1])
        return InputRows(split.inputs, table.labels, table.ids)


def _warn(place: str, why: str, count: int, of: int) -> None:
    log.warning("%s, %s: %d of %d rows are unlike any training row, so their confidence means little",
                place, why, count, of)  # fmt: skip


def load_predictor(path: Path, *, device: DeviceName = "auto", encoder: EncoderName | None = None) -> Predictor:
    """The predictor of a run, or of the robust run of a fit. `encoder`: only where it is a function, by name."""
    fit = fit_of(path)
    folder, rows = run_of(path), None
    if fit is not None and RunFiles(folder).inputs.exists():
        check_run_format(folder)  # before its other files: those of an older version are others
    preprocessor = None if fit is None else encode.load_preprocessor(fit, encoder)
    if fit is not None:
        check_files(fit)
        if (
            fit / ROWS
        ).exists():  # without them nothing says what the run was trained on; to predict they are not needed
            dataset = data.arrays(fit / ROWS)
            rows = dataset.train
            if not is_classic_folder(folder):
                run.check_data_of(folder, dataset)
    if is_classic_folder(folder):
        return Predictor(load_fit(folder, rows=rows).classifier, preprocessor, str(path))
    model = run.load_run(folder, device=device)
    config = run.open_run(folder)[1]
    if preprocessor is None and config.data.text_column is not None:  # a run of `pars train`
        preprocessor = Preprocessor(
            "text",
            tokenizer=encode.text_tokenizer(config.model.name, model.input_shape[0]),
            read_options={"text": config.data.text_column, "label": config.data.label_column, "unlabeled": ""},
        )
    columns = {"image": config.data.image_column, "label": config.data.label_column, "unlabeled": ""}
    return Predictor(model, preprocessor, str(path), columns if config.data.image_column is not None else {})


def is_raw(source: str) -> bool:
    """Whether a source is a table or a folder of images, rather than arrays or a data set's name."""
    path = expanded(source)
    if source in data.NAMES or not path.exists():
        return False
    if path.is_dir():
        is_read_whole = data.is_idx_folder(path) or data.is_clothing1m(path)
        return not is_read_whole and not any(path.glob("*.npy"))
    return path.suffix.lower() in data.TABLES


def evaluate(predictor: Predictor, rows: InputRows, source: str) -> dict[str, Any]:
    """Number of labeled rows, accuracy (%) and accuracy of each class (%)."""
    labels, classes = rows.labels, predictor.model.classes
    if not (labels >= 0).any():
        raise UserError(f"{source} has no labels to compare with; `pars predict` needs none")
    if int(labels.max()) >= len(classes):
        raise UserError(f"{source} has label {int(labels.max())}, the run knows classes 0 to {len(classes) - 1}")
    right = predictor.model.predict_proba(rows.inputs, source).argmax(dim=1).numpy() == labels
    per_class = {
        name: 100 * float(right[labels == index].mean())
        for index, name in enumerate(classes)
        if (labels == index).any()
    }
    return {
        "rows": int((labels >= 0).sum()),
        "accuracy": 100 * float(right[labels >= 0].mean()),
        "per_class": per_class,
    }
