"""JSON: one object per line, or one list of objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pars.data.columns import Columns
from pars.data.delimited import decode
from pars.errors import UserError


def read_json_lines(path: Path, *, encoding: str | None = None) -> Columns:
    """The columns are all keys that occur; a row without some key has None there."""
    text = decode(path, encoding)
    if text.lstrip()[:1] == "[":
        records, lines = _list(path, text), None
    else:
        numbered = list(_by_line(path, text))
        records, lines = [record for _, record in numbered], [line for line, _ in numbered]
    if not records:
        raise UserError(f"{path}: empty, expected one JSON object per line")
    names = dict.fromkeys(key for record in records for key in record)  # in the order in which they first occur
    return Columns(str(path), {name: [record.get(name) for record in records] for name in names}, lines)


def _list(path: Path, text: str) -> list[dict[str, Any]]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not complete JSON ({error}); cut off?") from None
    for row, record in enumerate(content):
        if not isinstance(record, dict):
            raise UserError(f"{path}: row {row} is a {type(record).__name__}, expected an object such as {{…}}")
    assert isinstance(content, list)  # it begins with a bracket
    return content


def _by_line(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    row = 0
    for line, content in enumerate(text.split("\n"), start=1):  # not splitlines: JSON may hold other separators
        if not content.strip():
            continue
        try:
            record = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}: row {row} (line {line}) is not JSON ({error}); cut off?") from None
        if not isinstance(record, dict):
            raise UserError(
                f"{path}: row {row} (line {line}) is a {type(record).__name__}, expected an object such as {{…}}"
            )
        yield line, record
        row += 1
