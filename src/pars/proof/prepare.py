"""A user's table as rows to train on: encoded once, kept in the folder of a fit with how new rows become such."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars import encode
from pars.audit import Content
from pars.data import Labels, Table
from pars.encode import CachedViewsConfig, Preprocessor
from pars.files import write_atomically, write_text
from pars.fit_folder import CONTENT, ROWS

Step = Callable[[int], None]


def save_rows(
    folder: Path,
    table: Table,
    labels: Labels,
    preparation: Preprocessor,
    *,
    test: Table | None = None,
    true: Labels | None = None,
    views: CachedViewsConfig | None = None,
    step: Step | None = None,
) -> None:
    """Everything new rows need, what people are shown, and, last, the rows as `pars train --data.name` reads them."""
    encode.save_preprocessor(preparation, folder)
    write_text(folder / CONTENT, content_of(table).to_json())
    x, x_views = preparation.transform(table, views, step)
    content: dict[str, npt.NDArray[Any]] = {
        "x": x,
        "y": labels,
        "classes": np.array(table.classes),
        "ids": np.array(table.ids),
    }
    if x_views is not None:
        content["x_views"] = x_views
    if (right := table.true_labels if true is None else true) is not None:
        content["y_true"] = right
    if test is not None:
        content |= {"x_test": preparation.transform(test, step=step)[0], "y_test": test.labels}

    def write(beside: Path) -> None:
        with beside.open("wb") as file:
            np.savez(file, **content)  # type: ignore[arg-type]

    write_atomically(folder / ROWS, write)


def content_of(table: Table) -> Content:
    """What people are shown of each row."""
    if table.images is not None:
        return Content("image", [str(path.resolve()) for path in table.images], table.ids)
    return Content("text", table.texts, table.ids)
