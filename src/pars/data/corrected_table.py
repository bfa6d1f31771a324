"""A user's own table with some labels replaced and some rows left out; all other bytes are as they were.

A label is written as the table itself writes that class: the same spelling, quotes and type. Parquet files are written
anew, with the same schema and the same values elsewhere.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pars.data.columns import DELIMITERS, TAB_SUFFIXES, Columns, as_text, decode
from pars.data.table import JSON, PARQUET, read_columns
from pars.errors import UserError
from pars.files import write_atomically
from pars.missing import is_missing
from pars.spreadsheet import csv_lines

BOMS = {
    "utf-8-sig": ((codecs.BOM_UTF8, "utf-8"),),
    "utf-16": ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")),
    "utf-32": ((codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")),
}
JSON_BLANK = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True)
class Field:
    """Where a row and its label are in a text. `start == end` with a `key`: the label is to be put in there."""

    row: tuple[int, int]  # what is taken out with the row, separators included
    label: tuple[int, int]
    key: str = ""


def write_corrected_table(
    source: Path,
    out: Path,
    column: str,
    labels: Mapping[int, str],
    dropped: Collection[int] = (),
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> None:
    """Write the table `source` to `out`, with new labels (class names by row number) and without the dropped rows.

    delimiter, encoding: as the table was read with.
    """
    columns = read_columns(source, delimiter=delimiter, encoding=encoding)
    values = columns[column]
    for row in (*labels, *dropped):
        if not 0 <= row < columns.n_rows:
            raise UserError(f"{source} has {columns.n_rows} rows, but row {row} is to be corrected")
    if source.suffix.lower() in PARQUET:
        _write_parquet(source, out, column, columns, labels, dropped)
        return
    text, codec, bom = _text_and_codec(source, encoding)
    if source.suffix.lower() in JSON:
        fields = _json_fields(text, column, frozenset(dropped))
        spelled = _spellings(values, [text[slice(*field.label)] for field in fields])
        new = {row: _json_label(spelled, name) for row, name in labels.items()}
    else:
        delimiter, quoting, fields = _delimited_fields(source, text, column, columns, delimiter)
        spelled = _spellings(values, [text[slice(*field.label)] for field in fields])
        new = {row: spelled.get(name) or _quoted(name, delimiter, quoting) for row, name in labels.items()}
    corrected = _spliced(text, fields, new, frozenset(dropped))
    try:
        encoded = bom + corrected.encode(codec)
    except UnicodeEncodeError as error:
        raise UserError(
            f"{source}: the new label {error.object[error.start]!r}… cannot be written in {codec}"
        ) from None
    write_atomically(out, lambda beside: beside.write_bytes(encoded))


def _text_and_codec(source: Path, encoding: str | None) -> tuple[str, str, bytes]:
    """The text, the codec that turns it into the same bytes again, and the byte order mark before it."""
    data, text = source.read_bytes(), decode(source, encoding)
    name = encoding or ("utf-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig")
    name = codecs.lookup(name).name
    codec, bom = name, b""
    for mark, plain in BOMS.get(name, ()):
        if data.startswith(mark):
            codec, bom = plain, mark
            break
    else:
        if name in BOMS:  # without a mark
            codec = "utf-8" if name == "utf-8-sig" else f"{name}-le"
    if bom + text.encode(codec) != data:
        raise UserError(
            f"{source}: its encoding {name} does not give the same bytes when written back, so no corrected table can "
            "be made of it; corrections.csv and labels.csv hold the new labels"
        )
    return text, codec, bom


def _spellings(values: Sequence[object] | Any, raw: Sequence[str]) -> dict[str, str]:
    """How the table most often writes each class."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for value, spelled in zip(values, raw, strict=True):
        if not is_missing(value) and spelled:
            found[as_text(value)][spelled] += 1
    return {name: spelled.most_common(1)[0][0] for name, spelled in found.items()}


def _spliced(text: str, fields: Sequence[Field], new: Mapping[int, str], dropped: Collection[int]) -> str:
    parts, at = [], 0
    for row, field in enumerate(fields):
        if row in dropped:
            start, end = field.row
            parts.append(text[at:start])
            at = end
        elif row in new:
            start, end = field.label
            parts += [text[at:start], field.key, new[row]]
            at = end
    return "".join([*parts, text[at:]])


def _delimited_fields(
    source: Path, text: str, column: str, columns: Columns, delimiter: str | None
) -> tuple[str, int, list[Field]]:
    """Delimiter, quoting and fields; of all ways to cut the text the one that gives what the reader read."""
    marks = (delimiter,) if delimiter else ("\t",) if source.suffix.lower() in TAB_SUFFIXES else DELIMITERS
    for mark in marks:
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
            records = list(_records(text, mark, quoting))
            if not records:
                continue
            (_, header), *rows = records
            names = [_value(text, span, quoting).strip() or f"column {at + 1}" for at, span in enumerate(header)]
            if names != list(columns) or len(rows) != columns.n_rows:
                continue
            at = names.index(column)
            if any(len(spans) != len(names) for _, spans in rows):
                continue
            if [_value(text, spans[at], quoting) for _, spans in rows] == list(columns[column]):
                return mark, quoting, [Field(whole, spans[at]) for whole, spans in rows]
    raise UserError(f"{source}: cannot find the fields of column {column!r} again; has the file changed?")


def _records(text: str, mark: str, quoting: int) -> Iterator[tuple[tuple[int, int], list[tuple[int, int]]]]:
    """Start and end of each record, its line end included, and of its fields; blank lines are passed over."""
    plain = rf"[^{re.escape(mark)}\r\n]*"
    field = plain if quoting == csv.QUOTE_NONE else rf'"[^"]*(?:""[^"]*)*"|{plain}'
    pattern = re.compile(rf"({field})({re.escape(mark)}|\r\n|\r|\n|\Z)")
    start = at = 0
    spans: list[tuple[int, int]] = []
    while at < len(text) or spans:
        found = pattern.match(text, at)
        if found is None:
            return  # cut in another way than the reader did
        spans.append(found.span(1))
        at = found.end()
        if found[2] == mark:
            continue
        if len(spans) > 1 or _value(text, spans[0], quoting).strip():
            yield (start, at), spans
        start, spans = at, []


def _value(text: str, span: tuple[int, int], quoting: int) -> str:
    raw = text[slice(*span)]
    if quoting == csv.QUOTE_MINIMAL and raw.startswith('"'):
        return raw[1:-1].replace('""', '"')
    return raw


def _quoted(name: str, mark: str, quoting: int) -> str:
    """A class that the table does not contain, as a field of it."""
    if quoting == csv.QUOTE_NONE:
        return name
    (line,) = csv_lines([(name, "")], delimiter=mark, end="")  # alone, "" would be quoted
    return line[: -len(mark)]


def _json_label(spelled: Mapping[str, str], name: str) -> str:
    if name in spelled:
        return spelled[name]
    are_numbers = spelled and all(not raw.startswith('"') for raw in spelled.values())
    return name if are_numbers and re.fullmatch(r"-?(0|[1-9][0-9]*)", name) else json.dumps(name)


def _json_fields(text: str, column: str, dropped: Collection[int]) -> list[Field]:
    """Fields of JSON lines, or of an array of objects; the reader has checked that the text is one of them."""
    at = _after_blank(text, 0)
    fields: list[Field] = []
    if text[at] != "[":
        start = 0
        for line in text.split("\n"):
            end = start + len(line)
            if line.strip():
                found, _ = _json_object(text, _after_blank(text, start), column)
                fields.append(Field((start, min(end + 1, len(text))), found.label, found.key))
            start = end + 1
        return fields
    objects = []
    at = _after_blank(text, at + 1)
    while text[at] != "]":
        found, end = _json_object(text, at, column)
        objects.append((at, end, found))
        at = _after_blank(text, end)
        at = _after_blank(text, at + 1) if text[at] == "," else at
    some_before = False  # a row that stays
    for row, (start, end, found) in enumerate(objects):
        # With a row goes the comma before it, or the one after it where no row is left before.
        after = objects[row + 1][0] if row + 1 < len(objects) else end
        fields.append(Field((objects[row - 1][1], end) if some_before else (start, after), found.label, found.key))
        some_before |= row not in dropped
    return fields


def _json_object(text: str, at: int, column: str) -> tuple[Field, int]:
    """The label of the object that begins at `at`, and where the object ends."""
    decoder, label, empty = json.JSONDecoder(), None, True
    at = _after_blank(text, at + 1)
    while text[at] != "}":
        empty = False
        key, at = decoder.raw_decode(text, at)
        at = _after_blank(text, _after_blank(text, at) + 1)  # past the colon
        _, end = decoder.raw_decode(text, at)
        if key == column:
            label = at, end  # of a key that occurs twice, Python reads the last
        at = _after_blank(text, end)
        at = _after_blank(text, at + 1) if text[at] == "," else at
    if label is not None:
        return Field((0, 0), label), at + 1
    return Field((0, 0), (at, at), f"{'' if empty else ', '}{json.dumps(column)}: "), at + 1


def _after_blank(text: str, at: int) -> int:
    found = JSON_BLANK.match(text, at)
    assert found is not None
    return found.end()


def _write_parquet(
    source: Path, out: Path, column: str, columns: Columns, labels: Mapping[int, str], dropped: Collection[int]
) -> None:
    import pyarrow
    from pyarrow import parquet

    table = parquet.read_table(source)
    values = list(columns[column])
    known = {as_text(value): value for value in values if not is_missing(value)}
    kind = table.schema.field(column).type
    for row, name in labels.items():
        values[row] = known.get(name, name)
    is_dictionary = pyarrow.types.is_dictionary(kind)
    try:
        corrected = pyarrow.array(values, type=kind.value_type if is_dictionary else kind)
    except pyarrow.ArrowException as error:
        raise UserError(f"{source}, column {column!r}: a new label is not a {kind} ({error})") from None
    if is_dictionary:
        corrected = corrected.dictionary_encode().cast(kind)
    at = table.schema.get_field_index(column)
    table = table.set_column(at, table.schema.field(column), corrected)
    kept = [row for row in range(len(values)) if row not in set(dropped)] if dropped else None
    table = table if kept is None else table.take(kept)
    write_atomically(out, lambda beside: parquet.write_table(table, str(beside)))
