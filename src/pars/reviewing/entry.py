"""`pars.review`: a run, a fit or an audit report in, a running review out."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.audit import AuditReport
from pars.data import Previews
from pars.data.preview import ImageFilePreviews, RecordPreviews, TextPreviews
from pars.errors import UserError
from pars.reviewing.items import items_of_report
from pars.reviewing.load import FOLDER, array_previews, open_review
from pars.reviewing.server import FolderLock, ReviewServer, open_in_browser
from pars.reviewing.session import ReviewSession


def review(
    what: Any,
    rows: Any = None,
    *,
    out: str | Path | None = None,
    suspects: npt.NDArray[np.int64] | None = None,
    sample: int = 0,
    port: int = 0,
    open_browser: bool = False,
) -> ReviewServer:
    """Start the review of a fit, a run or an audit report, and return it: its `url`, `export()` and `close()`.

    what: the folder of a run or of `pars fit`; a `FitResult`; or an `AuditReport`.
    rows: of a result without a folder, or a report: the texts, image files, frame or arrays that were audited.
    out: folder for decisions and files; by default `review` in the run's folder, else a temporary one.
    suspects: rows to review, most suspect first; by default those flagged as wrong.
    sample: also draw so many rows at random from all and from the list, to be judged blind.
    """
    report = what if isinstance(what, AuditReport) else getattr(what, "audit", None)
    if not isinstance(report, AuditReport) and not isinstance(what, str | os.PathLike):
        raise UserError(f"cannot review a {type(what).__name__}, expected a folder, a fit or an audit report")
    folder = getattr(what, "out", None) if isinstance(report, AuditReport) else Path(what)
    place = Path(out) if out is not None else None if folder is None else Path(folder) / FOLDER
    if place is None:
        place = Path(tempfile.mkdtemp(prefix="pars-review-"))
    lock = FolderLock(place)
    if not lock.held:
        raise UserError(f"{place} is being reviewed by another process")
    if folder is not None and rows is None:
        session = open_review(Path(folder), folder=place)
    elif isinstance(report, AuditReport):
        if rows is None:
            raise UserError("rows are missing: a report does not hold the texts, images or tables it is about")
        checked = None
        session = ReviewSession(items_of_report(report, None, checked, suspects), _previews(rows), place)
    else:
        raise UserError(f"cannot review a {type(what).__name__}, expected a folder, a fit or an audit report")
    if sample:
        session.draw_sample(sample)
    server = ReviewServer(session, port)
    server.lock = lock
    server.start()
    if open_browser:
        open_in_browser(server.url)
    return server


def _previews(rows: Any) -> Previews:
    from pars import data

    if isinstance(rows, str | Path):
        raise UserError(f"rows is {str(rows)[:60]!r}, expected the rows themselves; of a fit, its folder is enough")
    if data.is_frame(rows):
        return RecordPreviews(data.frame_columns(rows))
    entries = data.entries(rows)
    if entries is None:
        return array_previews(data.to_inputs(np.asarray(rows), "rows"))
    table = data.entry_table(entries, data.kind_of_entries(entries, None))
    if table.images is not None:
        return ImageFilePreviews(table.images)
    assert table.texts is not None
    return TextPreviews(table.texts)
