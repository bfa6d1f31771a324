"""A finished run or fit as a review: its audit, its rows as people see them, the user's table. Without torch."""

from __future__ import annotations

import json
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars import audit, data
from pars.audit import AuditReport
from pars.classic import is_classic_folder
from pars.corrections import TableSource, source_of_fit
from pars.data import DataConfig, Previews
from pars.data.preview import (
    ImageArrayPreviews,
    ImageFilePreviews,
    RecordPreviews,
    TextPreviews,
    VectorPreviews,
)
from pars.errors import UserError
from pars.files import expanded, write_atomically
from pars.fit_folder import REVIEW, ROWS, fit_of, run_of
from pars.reviewing.items import ReviewItems, items_of_report
from pars.reviewing.session import ReviewSession
from pars.run_files import RunFiles

FOLDER = REVIEW
CACHE = "items.npz"


def open_review(path: Path, *, table: Path | None = None, top: int | None = None, read_only: bool = False,
                folder: Path | None = None) -> ReviewSession:  # fmt: skip
    """The review of a run's folder, or of that of `pars fit`.

    table: the user's table, if it has moved since the fit. top: length of the list; by default the flagged rows.
    folder: for decisions and exports; by default `review` in the run's folder.
    """
    if not path.is_dir():
        raise UserError(f"{path} is not a folder, expected that of a run or of `pars fit`")
    folder = folder or path / FOLDER
    fit = fit_of(path)
    content = audit.content_of_run(path)
    ids = None if content is None or content.ids is None else tuple(content.ids)
    items = _read_items(path, folder, ids, top)
    source = source_of_fit(path)
    if table is not None:
        source = TableSource(table.resolve(), source.column if source else None, source.reading if source else {})
    previews: Previews
    if content is not None and content.values is not None:
        values = list(content.values)
        previews = ImageFilePreviews([Path(v) for v in values]) if content.kind == "image" else TextPreviews(values)
    elif source is not None and source.column is not None and source.path.exists():
        previews = _records(source)
    elif fit is not None:
        previews = array_previews(data.arrays(fit / ROWS).train.inputs)
    else:
        previews = array_previews(_training_inputs(path))
    return ReviewSession(items, previews, folder, source=source, title=path.resolve().name, read_only=read_only)


def array_previews(inputs: npt.NDArray[Any]) -> Previews:
    """Images or feature vectors."""
    return ImageArrayPreviews(inputs) if inputs.ndim == 4 else VectorPreviews(inputs)


def _records(source: TableSource) -> RecordPreviews:
    """The columns of the user's table, but for the labels: the given one is shown beside, the true one is not."""
    reading = {name: source.reading[name] for name in ("delimiter", "encoding") if name in source.reading}
    columns = data.read_columns(source.path, **reading)
    labels = (source.column, source.reading.get("true"))
    return RecordPreviews(columns.only([name for name in columns if name not in labels]))


def _training_inputs(path: Path) -> npt.NDArray[Any]:
    """The rows that a run was trained on, as its configuration names them."""
    try:
        found = tomllib.loads(RunFiles(path).config.read_text(encoding="utf-8")).get("data", {})
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a run: {error}") from None
    names = {field.name for field in fields(DataConfig)} - {"labels"}
    config = DataConfig(**{name: value for name, value in found.items() if name in names})
    return data.load(config).train.inputs


def _read_items(path: Path, folder: Path, ids: tuple[str, ...] | None, top: int | None) -> ReviewItems:
    """The list, from the cache where the run is still the same: an audit of many rows takes minutes."""
    robust = run_of(path)
    stamp = json.dumps([
        [file.name, file.stat().st_mtime_ns, file.stat().st_size]
        for file in (RunFiles(robust).dynamics, RunFiles(robust).model, robust / "classic.safetensors")
        if file.exists()
    ] + [top])  # fmt: skip
    cache = folder / CACHE
    if cache.exists():
        try:
            with np.load(cache, allow_pickle=False) as found:
                if str(found["stamp"]) == stamp:
                    return _unpacked(found, ids)
        except (OSError, ValueError, KeyError):
            pass  # damaged, or of another version: computed again
    report, checked = read_report(path)
    items = items_of_report(report, ids, checked, None if top is None else report.review(top).rows)
    folder.mkdir(parents=True, exist_ok=True)
    arrays = _packed(items) | {"stamp": np.array(stamp)}

    def write(beside: Path) -> None:
        with beside.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    write_atomically(cache, write)
    return items


NUMBERS = ("given", "suggested", "quality", "suggested_prob", "choices", "choice_probs", "listed")


def _packed(items: ReviewItems) -> dict[str, npt.NDArray[Any]]:
    texts = np.frombuffer(json.dumps([items.classes, items.why]).encode(), dtype=np.uint8)
    checked = {} if items.checked is None else {"checked": items.checked}
    return {name: getattr(items, name) for name in NUMBERS} | {"texts": texts} | checked


def _unpacked(found: Any, ids: tuple[str, ...] | None) -> ReviewItems:
    classes, why = json.loads(found["texts"].tobytes())
    checked = found.get("checked")
    return ReviewItems(
        classes=tuple(classes), why=tuple(why), ids=ids, checked=checked, **{name: found[name] for name in NUMBERS}
    )


def read_report(path: Path) -> tuple[AuditReport, npt.NDArray[np.int8] | None]:
    """The audit of a run or a fit, as the fit itself made it; and which labels people have checked."""
    folder, fit = run_of(path), fit_of(path)
    if is_classic_folder(folder) and fit is not None:
        from pars import fitting  # torch, for classifiers without a network

        return fitting.audit_fit(fit), data.arrays(fit / ROWS).train.checked
    if folder == path:
        return audit.audit_run(expanded(str(path))), None
    train = data.arrays(path / ROWS).train
    report = audit.audit_run(folder, features=train.features)
    if train.checked is None:
        return report, None
    return report.with_checked(train.known), train.checked
