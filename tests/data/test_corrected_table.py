"""The corrected table: the bytes of the user's own, but for the labels that were decided."""

from __future__ import annotations

import codecs
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pars.data import read_columns, write_corrected_table
from pars.errors import UserError


def corrected(tmp_path: Path, name: str, data: bytes, column: str, labels: dict[int, str], dropped: object = (),
              **reading: str) -> bytes:  # fmt: skip
    source, out = tmp_path / name, tmp_path / f"out{Path(name).suffix}"
    source.write_bytes(data)
    write_corrected_table(source, out, column, labels, dropped, **reading)  # type: ignore[arg-type]
    assert source.read_bytes() == data
    return out.read_bytes()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"text,y\na,cat\nb,dog\n", b"text,y\na,dog\nb,dog\n"),
        (b"text,y\r\na,cat\r\nb,dog\r\n", b"text,y\r\na,dog\r\nb,dog\r\n"),
        (b"text,y\ra,cat\rb,dog", b"text,y\ra,dog\rb,dog"),
        (b'"text","y"\n"a, ""x""\r\n","cat"\n"b","dog"\n', b'"text","y"\n"a, ""x""\r\n","dog"\n"b","dog"\n'),
        (b"y;text\ncat ;a,b,c\ndog ;b\n", b"y;text\ndog ;a,b,c\ndog ;b\n"),  # the table's own spelling
        (b"\n\ntext|y\n\na|cat\n  \nb|dog\n\n", b"\n\ntext|y\n\na|dog\n  \nb|dog\n\n"),
        (codecs.BOM_UTF8 + b"text,y\n\xc3\xa4,cat\nb,dog\n", codecs.BOM_UTF8 + b"text,y\n\xc3\xa4,dog\nb,dog\n"),
        (b",y\n0,cat\n1,dog\n", b",y\n0,dog\n1,dog\n"),  # as pandas writes its row numbers
    ],
)
def test_a_csv_keeps_its_quotes_line_ends_blank_lines_and_mark(tmp_path: Path, before: bytes, after: bytes) -> None:
    assert corrected(tmp_path, "t.csv", before, "y", {0: "dog"}) == after


@pytest.mark.parametrize("name", ["cp1252", "utf-16-le", "utf-16-be", "latin-1", "shift_jis"])
def test_a_csv_keeps_its_encoding(tmp_path: Path, name: str) -> None:
    text = "text,y\nb\xa7,cat\nb,dog\n"
    mark = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}.get(name, b"")
    reading = {} if mark else {"encoding": name}
    found = corrected(tmp_path, "t.csv", mark + text.encode(name), "y", {0: "dog"}, **reading)
    assert found == mark + text.replace("cat", "dog").encode(name)


def test_tab_separated_quotes_that_do_not_pair_are_left_alone(tmp_path: Path) -> None:
    before = b'text\ty\n5" pipe\tcat\n"odd\tdog\n'
    assert corrected(tmp_path, "t.tsv", before, "y", {0: "dog"}) == b'text\ty\n5" pipe\tdog\n"odd\tdog\n'


def test_dropped_rows_go_with_their_line_end_and_nothing_else(tmp_path: Path) -> None:
    before = b'text,y\na,cat\n"b\nb",dog\nc,cat'
    assert corrected(tmp_path, "t.csv", before, "y", {}, [1]) == b"text,y\na,cat\nc,cat"
    assert corrected(tmp_path, "t.csv", before, "y", {1: "cat"}, [0, 2]) == b'text,y\n"b\nb",cat\n'


def test_a_class_that_no_row_has_is_quoted_where_it_must_be(tmp_path: Path) -> None:
    assert corrected(tmp_path, "t.csv", b"a,y\n1,b\n", "y", {0: 'x, "y"'}) == b'a,y\n1,"x, ""y"""\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"y": "cat", "t": "a"}\n\n{"t":"b","y":"dog"}', b'{"y": "dog", "t": "a"}\n\n{"t":"b","y":"dog"}'),
        (b'{"y": 1.0, "t": {"y": 9}}\r\n{"t":[1],"y":2.0}\r\n', b'{"y": 2.0, "t": {"y": 9}}\r\n{"t":[1],"y":2.0}\r\n'),
        (b'{"t": "a"}\n{"y": "dog"}\n', b'{"t": "a", "y": "dog"}\n{"y": "dog"}\n'),
        (b'[ {"y":"cat"} ,\n {"y":"d\\u006fg"}]', b'[ {"y":"d\\u006fg"} ,\n {"y":"d\\u006fg"}]'),
        (b'{"y":"bug","y":"cat"}\n{"y":"dog"}', b'{"y":"bug","y":"dog"}\n{"y":"dog"}'),
    ],
)
def test_json_keeps_all_but_the_value_of_the_label(tmp_path: Path, before: bytes, after: bytes) -> None:
    name = "2" if b"2.0" in before else "dog"
    assert corrected(tmp_path, "t.jsonl", before, "y", {0: name}) == after


@pytest.mark.parametrize("rows", [[0], [1], [2], [0, 1], [0, 2], [1, 2]])
def test_a_json_array_without_some_rows_is_still_json(tmp_path: Path, rows: list[int]) -> None:
    records = [{"y": "a", "n": n} for n in range(3)]
    found = corrected(tmp_path, "t.json", json.dumps(records, indent=1).encode(), "y", {}, rows)
    assert json.loads(found) == [record for n, record in enumerate(records) if n not in rows]


@pytest.mark.parametrize("kind", ["string", "category", "int64", "float64"])
def test_parquet_keeps_schema_and_values(tmp_path: Path, kind: str) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    labels = ["cat", "dog", "cat"] if kind in ("string", "category") else [1, 2, 1]
    frame = pandas.DataFrame({"t": ["a", "b", "c"], "y": pandas.Series(labels).astype(kind), "n": [1.5, None, 2.0]})
    frame.to_parquet(tmp_path / "t.parquet")
    write_corrected_table(tmp_path / "t.parquet", tmp_path / "o.parquet", "y", {0: str(labels[1])}, [2])
    found = pandas.read_parquet(tmp_path / "o.parquet")
    assert found["y"].tolist() == [labels[1], labels[1]]
    pandas.testing.assert_frame_equal(found[["t", "n"]], frame[["t", "n"]].iloc[:2])
    assert found["y"].dtype == frame["y"].dtype


def test_a_row_that_the_table_does_not_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"t\.csv has 1 rows, but row 7"):
        corrected(tmp_path, "t.csv", b"a,y\n1,b\n", "y", {7: "b"})


names = st.sampled_from(["cat", "=dog", 'a"b', "x,y", "a\nb", "a\rb"])
cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


def field(text: str, mark: str, always: bool) -> str:
    quoted = '"' + text.replace('"', '""') + '"'
    return quoted if always or set(text) & {mark, '"', "\r", "\n"} or text != text.strip() else text


@given(
    rows=st.lists(
        st.tuples(cells, st.sampled_from(["cat", "=dog", 'a"b', "x,y", "a\nb", "a\rb"])), min_size=1, max_size=8
    ),
    always=st.booleans(),
    ends=st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=1, max_size=2),
    last=st.booleans(),
    mark=st.sampled_from([",", ";", "\t"]),
    codec=st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"]),
    data=st.data(),
)
def test_only_decided_labels_differ_whatever_the_texts_hold(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str]],
    always: bool,
    ends: list[str],
    last: bool,
    mark: str,
    codec: str,
    data: st.DataObject,
) -> None:
    """Line ends CRLF, LF, CR or mixed, with or without one at the end; byte order marks; line ends within quotes."""
    known = sorted({name for _, name in rows})
    new = data.draw(st.dictionaries(st.integers(0, len(rows) - 1), st.sampled_from(known)))
    dropped = data.draw(st.sets(st.integers(0, len(rows) - 1), max_size=len(rows) - 1))

    def table(labels: list[str], without: set[int] = frozenset()) -> bytes:  # type: ignore[assignment]
        cut = []
        for n, ((text, _), label) in enumerate(zip(rows, labels, strict=True)):
            line = mark.join([str(n), field(text, mark, always), field(label, mark, always)])
            end = ends[n % len(ends)] if last or n < len(rows) - 1 else ""
            cut += [] if n in without else [line + end]
        whole = mark.join(["n", "text", "y"]) + ends[0] + "".join(cut)
        bom = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}.get(codec, b"")
        return bom + whole.encode(codec)

    folder = tmp_path_factory.mktemp("table")
    given_labels = [name for _, name in rows]
    before = table(given_labels)
    found = corrected(folder, "t.csv", before, "y", new, dropped, delimiter=mark)
    assert found == table([new.get(n, name) for n, name in enumerate(given_labels)], dropped)
    assert read_columns(folder / "t.csv", delimiter=mark)["y"] == given_labels
