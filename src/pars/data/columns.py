"""Named columns from files and frames (pandas, polars, pyarrow, dictionaries), and what their values are.

Frames are recognized by what they can do, not by their class: none of these libraries is a dependency. Errors of text
files (CSV, TSV, JSON lines) name the row and the line.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from pars.errors import UserError
from pars.missing import NO_VALUE, is_missing

Column = Sequence[object] | npt.NDArray[np.generic]
SHOWN = 20  # names in a message
LONGEST_SHOWN = 60  # characters of each
WORDS = 3  # of a free text, on average; names, codes and identifiers have fewer
DELIMITERS = (",", ";", "\t", "|")  # at a tie the first
TAB_SUFFIXES = (".tsv", ".tab")
LONGEST_FIELD = 1 << 28  # characters; csv's own limit of 131 072 is less than some documents have

log = logging.getLogger(__name__)
_limit = threading.Lock()


class Columns(dict[str, Column]):
    """Columns of equal length by name.

    source: the file, for messages. lines: the line of each row in a text file, counted from 1.

    >>> table = Columns("pets.csv", {"name": ["Rex", "Tom"], "age": ["3", ""]}, lines=[2, 3])
    >>> len(table), table.n_rows, table.where(1, "age")
    (2, 2, "pets.csv: row 1 (line 3), column 'age'")
    """

    def __init__(self, source: str, columns: Mapping[str, Column], lines: Sequence[int] | None = None) -> None:
        super().__init__(columns)
        self.source, self.lines = source, lines
        first, *rest = columns or [""]
        self.n_rows = len(columns[first]) if columns else 0
        for name in rest:
            if (n := len(columns[name])) != self.n_rows:
                raise UserError(f"{source}: column {name!r} has {n} values, expected {self.n_rows} as in {first!r}")

    def __missing__(self, name: str) -> NoReturn:
        is_lines = self.source.lower().endswith((".csv", ".tsv", ".tab", ".txt"))
        hint = "; does the first line name the columns, and is the delimiter right?" if is_lines else ""
        raise UserError(f"{self.source}: no column {name!r}, expected one of {shown(self)}{hint}")

    def row(self, row: int) -> str:
        """A row's place, for messages: its number, counted from 0, and its line."""
        line = "" if self.lines is None else f" (line {self.lines[row]})"
        return f"{self.source}: row {row}{line}"

    def where(self, row: int, name: str) -> str:
        """A value's place, for messages."""
        return f"{self.row(row)}, column {name!r}"

    def only(self, names: Iterable[str]) -> Columns:
        """Some of the columns, in this order."""
        return Columns(self.source, {name: self[name] for name in names}, self.lines)


def shown(names: Iterable[str]) -> str:
    """Names for a message, not too many of them."""
    listed = list(names)
    more = f", … ({len(listed) - SHOWN} more)" if len(listed) > SHOWN else ""
    short = [name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}…" for name in map(str, listed[:SHOWN])]
    return (", ".join(map(repr, short)) or "none") + more


def as_text(value: object) -> str:
    """A label, an identifier or a category as text; whole numbers without ".0", which frames put there.

    >>> as_text(" cat "), as_text(3.0), as_text(np.int64(3)), as_text(2.5)
    ('cat', '3', '3', '2.5')
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def as_numbers(values: Column) -> tuple[npt.NDArray[np.float64], list[int]]:
    """The numbers of a column, NaN where there is none; and the rows whose value is neither a number nor missing.

    Signs for a missing value, such as "NA" and "?", count as missing.

    >>> as_numbers(["1.5", "", "NA", "two", True])
    (array([1.5, nan, nan, nan, 1. ]), [3])
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return values.astype(np.float64), []
    numbers = np.full(len(values), np.nan)
    strange = []
    for row, value in enumerate(values):
        if isinstance(value, str):
            text = value.strip()
            if text.lower() in NO_VALUE:
                continue
            try:
                numbers[row] = float(text) if "_" not in text else np.nan  # Python alone reads 1_000 as a number
            except ValueError:
                strange.append(row)
                continue
            if "_" in text:
                strange.append(row)
        elif isinstance(value, bool | int | float | np.number | np.bool_):
            numbers[row] = value
        elif not is_missing(value):
            strange.append(row)
    return numbers, strange


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
        # Of one column, "" in quotation marks is a row without a text, not a blank line.
        if len(record) < 2 and not any(field.strip() for field in record) and not (len(names) == 1 and record == [""]):
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


def read_parquet(path: Path) -> Columns:
    """The columns of a Parquet file."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError(
            f"{path}: Parquet files need pyarrow: pip install pyarrow (or write the table as CSV)"
        ) from None
    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{path}: not a complete Parquet file ({error}); cut off, or another format?") from None
    return frame_columns(table, str(path))


def is_frame(value: object) -> bool:
    """Can `frame_columns` read it? Lists, texts, paths and arrays are none.

    >>> is_frame({"a": [1, 2]}), is_frame(np.zeros((2, 2))), is_frame("table.csv")
    (True, False, False)
    """
    return isinstance(value, Mapping) or hasattr(value, "column_names") or hasattr(value, "columns")


def frame_columns(frame: Any, source: str = "frame") -> Columns:
    """The columns of a frame.

    >>> frame_columns({"age": [3, None]})["age"]
    [3, None]
    """
    if isinstance(frame, Columns):
        return frame
    if isinstance(frame, Mapping):
        pairs = list(frame.items())
    elif hasattr(frame, "column_names"):  # pyarrow, whose .columns are the columns themselves
        pairs = [(name, frame.column(at)) for at, name in enumerate(frame.column_names)]
    elif hasattr(frame, "iloc"):  # pandas: by place, for names may be numbers or occur twice
        pairs = [(name, frame.iloc[:, at]) for at, name in enumerate(frame.columns)]
    else:
        pairs = [(name, frame[name]) for name in frame.columns]
    out: dict[str, Column] = {}
    for name, column in pairs:
        if str(name) in out:
            raise UserError(f"{source}: two columns are named {str(name)!r}, expected every name once")
        out[str(name)] = _values(column)
    columns = Columns(source, out)
    if not columns.n_rows:
        raise UserError(f"{source}: no rows, expected at least one")
    return columns


def _values(column: Any) -> Column:
    if isinstance(column, np.ndarray):
        return column
    if isinstance(dtype := getattr(column, "dtype", None), np.dtype) and dtype.kind in "biuf":
        return np.asarray(column)  # pandas' plain numbers
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def is_free_text(values: Column) -> bool:
    """Texts of three words or more on average, more than half of them different.

    >>> is_free_text(["the card has not arrived", "where is my card", "please close my account"])
    True
    >>> is_free_text(["Tom", "Rex", "Kim"]), is_free_text(["the same words every time"] * 4), is_free_text([1, 2])
    (False, False, False)
    """
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OUT":
        return False
    known = [value for value in values if not is_missing(value)]
    texts = [value for value in known if isinstance(value, str)]
    if not texts or len(texts) < len(known):
        return False
    return 2 * len(set(texts)) > len(texts) and sum(len(text.split()) for text in texts) >= WORDS * len(texts)


def column_texts(columns: Columns, column: str) -> list[str]:
    """A column as texts, "" where a value is missing."""
    texts = []
    for row, value in enumerate(columns[column]):
        if isinstance(value, list | dict):
            raise UserError(f"{columns.where(row, column)} holds a {type(value).__name__}, expected a text")
        texts.append("" if is_missing(value) else value if isinstance(value, str) else as_text(value))
    return texts
