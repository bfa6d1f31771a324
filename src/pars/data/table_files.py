"""Read text tables: CSV, TSV, JSON lines. Errors name the row and the line."""

from __future__ import annotations

import csv
import io
import json
import logging
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pars.data.columns import Columns
from pars.errors import UserError

log = logging.getLogger(__name__)

DELIMITERS = (",", ";", "\t", "|")  # at a tie the first
TAB_SUFFIXES = (".tsv", ".tab")
LONGEST_FIELD = 1 << 28  # characters; csv's own limit of 131 072 is less than some documents have
_limit = threading.Lock()


def read_delimited(path: Path, *, delimiter: str | None = None, encoding: str | None = None) -> Columns:
    """All columns, as texts, of a file whose first line names them.

    delimiter: by default tab for .tsv, else whichever of , ; tab | cuts the first line into most parts.
    encoding: by default UTF-8, or UTF-16 where the file begins with its mark.
    """
    if delimiter is not None and len(delimiter) != 1:
        raise UserError(f"{path}: delimiter {delimiter!r}, expected one character, such as ',' or ';'")
    text = decode(path, encoding)
    if not text.strip():
        raise UserError(f"{path}: empty, expected a line that names the columns, then rows")
    chosen = delimiter or ("\t" if path.suffix.lower() in TAB_SUFFIXES else "")
    if not chosen:
        first = text.lstrip("\r\n").splitlines()[0]
        parts = [len(next(csv.reader([first], delimiter=mark))) for mark in DELIMITERS]
        chosen = DELIMITERS[parts.index(max(parts))]
    with _long_fields():
        try:
            return _columns(path, text, chosen, csv.QUOTE_MINIMAL)
        except csv.Error as error:
            if chosen != "\t":
                raise UserError(f"{path}: {error}; a quotation mark that opens and does not close?") from None
        # Many programs write tab-separated files without quoting anything: then a quotation mark is a letter.
        log.info("%s: quotation marks do not pair up, so they are taken as plain characters", path)
        return _columns(path, text, chosen, csv.QUOTE_NONE)


@contextmanager
def _long_fields() -> Iterator[None]:
    """csv's limit on the length of a field, which is one for the whole process, out of the way for a while."""
    with _limit:
        before = csv.field_size_limit(LONGEST_FIELD)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def decode(path: Path, encoding: str | None = None) -> str:
    """The text of a file; a UserError that names the line where the encoding does not fit."""
    data = path.read_bytes()
    name = encoding or ("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    try:
        text = data.decode(name)
    except LookupError:
        raise UserError(f"{path}: unknown encoding {name!r}, expected one such as utf-8, cp1252 or utf-16") from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        told = "UTF-8" if encoding is None else name
        raise UserError(
            f"{path}: line {line} is not {told} (byte 0x{data[error.start]:02x}); "
            'say which encoding it is, such as "cp1252" for a file from Windows'
        ) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise UserError(f"{path}: line {line} holds a NUL character; not a text file, or one in UTF-16?")
    return text


def _columns(path: Path, text: str, delimiter: str, quoting: int) -> Columns:
    """The columns of a text; blank lines are passed over."""
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quoting=quoting,  # type: ignore[arg-type]
        strict=True,
    )
    names: list[str] = []
    rows: list[list[str]] = []
    lines = []
    while True:
        line = reader.line_num + 1  # where the record begins
        try:
            record = next(reader, None)
        except csv.Error as error:
            raise csv.Error(f"cannot be cut into fields: line {line}: {error}") from None
        if record is None:
            break
        if len(record) < 2 and not any(field.strip() for field in record):
            continue
        if not names:  # one without a name, as pandas writes its row numbers, is called by its place
            names = [name.strip() or f"column {at + 1}" for at, name in enumerate(record)]
            name, times = Counter(names).most_common(1)[0]
            if times > 1:
                raise UserError(f"{path}: {times} columns are named {name!r}, expected every name once")
            continue
        if len(record) != len(names):
            raise UserError(
                f"{path}: row {len(rows)} (line {line}) has {len(record)} field(s), expected {len(names)} as in "
                f"the first line; a {delimiter!r} or a quotation mark inside a text that is not quoted?"
            )
        rows.append(record)
        lines.append(line)
    if not rows:
        raise UserError(f"{path}: no rows after the line that names the columns")
    return Columns(str(path), {name: [record[at] for record in rows] for at, name in enumerate(names)}, lines)


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
