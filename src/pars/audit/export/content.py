"""What an annotator is shown of a row: its text, its picture, or, where neither is known, its number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pars.errors import UserError


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
