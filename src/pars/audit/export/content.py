"""What an annotator is shown of a row: its text, its picture, or, where neither is known, its number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pars.errors import UserError
from pars.fit_folder import CONTENT, fit_of


@dataclass(frozen=True)
class Content:
    """Texts, or paths or addresses of images, one per row; and a name for each row (its number by default)."""

    kind: Literal["text", "image"] = "text"
    values: Sequence[str] | None = None
    ids: Sequence[str] | None = None

    def check(self, n_rows: int) -> None:
        for name, values in ((self.kind, self.values), ("ids", self.ids)):
            if values is not None and len(values) != n_rows:
                raise UserError(f"{len(values)} values of {name}, expected {n_rows}: one per row of the audit")

    def id(self, row: int) -> str:
        return str(row) if self.ids is None else str(self.ids[row])

    def shown(self, row: int) -> str:
        return f"row {self.id(row)}" if self.values is None else str(self.values[row])

    @property
    def field(self) -> str:
        """The name of the field: an image only where there are images."""
        return self.kind if self.values is not None else "text"

    def named(self, row: int) -> dict[str, str]:
        """The text or picture of a row under its name, where it is known."""
        return {} if self.values is None else {self.kind: self.shown(row)}

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=0) + "\n"  # escaped: a text may hold what UTF-8 cannot


def content_of_run(path: str | Path) -> Content | None:
    """What people can be shown of a run's rows: known where it belongs to a fit of `pars fit`."""
    fit = fit_of(Path(path))
    if fit is None or not (file := fit / CONTENT).exists():
        return None
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        content = Content(found["kind"], found["values"], found["ids"])
        if content.kind not in ("text", "image") or not _are_texts(content.values) or not _are_texts(content.ids):
            raise ValueError("expected texts or pictures")
        return content
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{file} is damaged: {error!r}") from None


def _are_texts(values: Any) -> bool:
    return values is None or (isinstance(values, list) and all(isinstance(value, str) for value in values))
