"""The folder of a fit: what makes it resumable, and what new rows and people need later (`fit_folder.py` lists it)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pars import encode
from pars.audit import Content
from pars.data import Split, Table
from pars.encode import Preprocessor
from pars.errors import UserError
from pars.files import write_atomically, write_text
from pars.fit_folder import CONTENT, JOB, ROBUST, ROWS

ROWS_CHECKSUM = "rows_blake2b"


def check_folder(out: Path, job: Mapping[str, Any], source: str) -> None:
    """Refuse a folder that holds another fit, or anything else; one without rows and runs has nothing to lose."""
    if (out / JOB).exists():
        begun = (out / ROWS).exists() or (out / ROBUST).exists()
        if begun and (found := _read_job(out / JOB)) != job:
            if isinstance(found, dict) and found | {ROWS_CHECKSUM: job[ROWS_CHECKSUM]} == job:
                raise UserError(f"{source} has changed since {out} was begun; expected a new folder")
            raise UserError(f"{out} holds another fit (see {out / JOB}), expected the same settings or a new folder")
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is not empty, expected a new folder")


def save_rows(out: Path, table: Table, preprocessor: Preprocessor, train: Split, test: Split | None) -> None:
    """Write how new rows become inputs, what people are shown, and last the arrays that are trained on."""
    encode.save_preprocessor(preprocessor, out)
    write_text(out / CONTENT, content_of(table).to_json())
    arrays = {"x": train.inputs, "y": train.labels, "classes": np.array(table.classes), "ids": np.array(table.ids)}
    if train.cached is not None:
        arrays["x_views"] = train.cached
    if train.true_labels is not None:
        arrays["y_true"] = train.true_labels
    if test is not None:
        arrays |= {"x_test": test.inputs, "y_test": test.labels}

    def write(beside: Path) -> None:
        with beside.open("wb") as file:  # of a path without its suffix numpy would write another file
            np.savez(file, **arrays)  # type: ignore[arg-type]

    write_atomically(out / ROWS, write)


def content_of(table: Table) -> Content:
    """What people are shown of each row: its text or picture, and its name."""
    if table.images is not None:
        return Content("image", [str(path.resolve()) for path in table.images], table.ids)
    return Content("text", table.texts, table.ids)


def _read_job(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None  # damaged: no fit that could be resumed
