"""Tables from files, frames and folders; and what is said of bad ones."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pars.data import read_table
from pars.errors import UserError

ROWS = [
    {"who": "cat", "says": 'miaow, "purr"\nand more', "age": 3},
    {"who": "dog", "says": "wuff; größer", "age": 5},
    {"who": "cat", "says": "tab\tand | pipe", "age": 4},
]


def write_csv(path: Path, *, delimiter: str = ",", encoding: str = "utf-8", rows: list[dict[str, Any]] = ROWS) -> Path:
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_text(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("name", "delimiter", "encoding"),
    [
        ("a.csv", ",", "utf-8"),
        ("a.csv", ";", "utf-8-sig"),
        ("a.csv", "|", "utf-8"),
        ("a.tsv", "\t", "utf-8"),
        ("a.txt", "\t", "utf-16"),
        ("A.CSV", ",", "utf-8"),
    ],
)
def test_what_csv_writes_is_read_whatever_the_delimiter(
    name: str, delimiter: str, encoding: str, tmp_path: Path
) -> None:
    path = write_csv(tmp_path / name, delimiter=delimiter, encoding=encoding)
    table = read_table(path, label="who", text="says")
    assert table.texts == [row["says"] for row in ROWS]
    assert table.classes == ("cat", "dog")
    assert table.labels.tolist() == [0, 1, 0]
    assert table.ids == ("0", "1", "2")


def test_every_format_gives_the_same_table(tmp_path: Path) -> None:
    sources: list[Any] = [write_csv(tmp_path / "a.csv"), {key: [row[key] for row in ROWS] for key in ROWS[0]}]
    sources.append(write_text(tmp_path / "a.jsonl", "\n\n".join(map(json.dumps, ROWS)) + "\n"))
    sources.append(write_text(tmp_path / "a.json", json.dumps(ROWS, indent=1)))
    for table in (read_table(source, label="who", text="says", id="age") for source in sources):
        assert table.texts == [row["says"] for row in ROWS]
        assert (table.labels.tolist(), table.classes, table.ids) == ([0, 1, 0], ("cat", "dog"), ("3", "5", "4"))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_and_parquet_give_the_table_of_their_columns(library: str, tmp_path: Path) -> None:
    module = pytest.importorskip(library)
    content = {"who": ["cat", None, "dog"], "age": [1.0, None, 3.0], "code": [1, 2, 1]}
    frame = module.table(content) if library == "pyarrow" else module.DataFrame(content)
    sources = [frame]
    if library == "pyarrow":
        from pyarrow import parquet

        parquet.write_table(frame, tmp_path / "a.parquet")
        sources.append(tmp_path / "a.parquet")
    for source in sources:
        table = read_table(source, label="who", unlabeled="")
        assert (table.labels.tolist(), table.classes) == ([0, -1, 1], ("cat", "dog"))
        assert table.columns is not None
        assert list(table.columns) == ["age", "code"]
        assert [None if x is None or np.isnan(x) else float(x) for x in table.columns["age"]] == [1.0, None, 3.0]  # type: ignore[arg-type]
        assert read_table(source, label="code").classes == ("1", "2")


def test_labels_that_are_numbers_are_ordered_as_numbers() -> None:
    rows = {"x": [1.0, 2.0, 3.0, 4.0], "y": ["10", "9", "-1", "9"], "z": [2.0, 1.0, 1.0, 2.0]}
    table = read_table(rows, label="y", features=["x"])
    assert (table.classes, table.labels.tolist()) == (("-1", "9", "10"), [2, 1, 0, 1])
    assert read_table(rows, label="z", features="x").classes == ("1", "2")  # frames make floats of whole numbers
    table = read_table(rows, label="y", features=["x"], unlabeled="-1")
    assert (table.classes, table.labels.tolist()) == (("9", "10"), [1, 0, -1, 0])


def test_true_labels_and_classes_of_a_classifier_share_the_numbers() -> None:
    rows = {"x": [1.0, 2.0], "given": ["b", "b"], "right": ["b", "c"]}
    table = read_table(rows, label="given", true="right", features="x")
    assert table.classes == ("b", "c")
    assert table.true_labels is not None
    assert table.true_labels.tolist() == [0, 1]
    table = read_table(rows, label="given", features="x", classes=("a", "b", "c"))
    assert (table.classes, table.labels.tolist()) == (("a", "b", "c"), [1, 1])
    assert read_table(rows, features="x").labels.tolist() == [-1, -1]


def test_without_a_choice_all_other_columns_are_features_but_not_row_numbers(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "\tage\tkind\tid\ty\n0\t3\tx\tq\tcat\n1\t4\tz\tr\tdog\n")
    table = read_table(path, label="y", id="id")
    assert table.kind == "columns"
    assert table.columns is not None
    assert list(table.columns) == ["age", "kind"]
    assert table.ids == ("q", "r")


def test_quotation_marks_in_unquoted_tsv_are_letters(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.tsv", 'text\ty\n"Idai" hits the coast\tworld\nan "odd" one\tworld\n"\tlocal\n')
    table = read_table(path, label="y", text="text")
    assert table.texts == ['"Idai" hits the coast', 'an "odd" one', '"']


def test_an_empty_text_in_a_table_of_one_column_is_a_row_and_a_blank_line_is_none(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", 'text\n"miaow"\n\n""\nwoof\n')
    assert read_table(path, text="text").texts == ["miaow", "", "woof"]


def test_long_texts_are_read_and_the_limit_of_csv_stays(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    path = write_text(tmp_path / "a.csv", f"text,y\n{'x' * 200_000},a\nz,b\n")
    texts = read_table(path, label="y", text="text").texts
    assert texts is not None
    assert len(texts[0]) == 200_000
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "a.csv: empty"),
        (b"text,y\n", "no rows after the line that names the columns"),
        (b"text,y\nhello,a\nbye\n", "row 1 (line 3) has 1 field(s), expected 2"),
        (b'text,y\n"two\nlines",a\nx,b,c\n', "row 1 (line 4) has 3 field(s), expected 2"),
        (b"text,text\nhello,a\n", "2 columns are named 'text'"),
        (b"words,y\nhello,a\n", "no column 'text', expected one of 'words', 'y'"),
        (b"text,y\nhello,a\ncaf\xe9,b\n", "line 3 is not UTF-8 (byte 0xe9)"),
        (b"text,y\nhello,a\n\0\0,b\n", "line 3 holds a NUL character"),
        (b'text,y\n"hello,a\nbye,b\n', "line 2: unexpected end of data"),
        (b'text,y\n"hello" you,a\n', "a.csv: cannot be cut into fields: line 2"),
        (b"text,y\nhello,a\nbye, \n", "row 1 (line 3), column 'y' is empty"),
        (b"text,y\nhello,a\n\n,\n", "row 1 (line 4), column 'y' is empty"),
        (b"text,y\n ,a\n,b\n", "column 'text' is empty in every row"),
    ],
)
def test_a_bad_csv_is_named_by_file_row_and_column(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(UserError) as error:
        read_table(tmp_path / "a.csv", label="y", text="text")
    assert words in str(error.value)
    assert "a.csv" in str(error.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("\n\n", "empty, expected one JSON object per line"),
        ('{"text": "a", "y": 1}\n{"text": "b", "y"\n', "row 1 (line 2) is not JSON"),
        ('{"text": "a", "y": 1}\n\n[1]\n', "row 1 (line 3) is a list, expected an object"),
        ('{"text": "a", "y": 1}\n{"text": "b"}\n', "row 1 (line 2), column 'y' is empty"),
        ('{"text": "a", "y": [1, 2]}\n', "row 0 (line 1), column 'y' holds a list, expected one label"),
        ('{"text": {"en": "a"}, "y": 1}\n', "column 'text' holds a dict, expected a text"),
        ('[{"text": "a", "y": 1}, 7]', "row 1 is a int, expected an object"),
        ('[{"text": "a"', "not complete JSON"),
        ("[" * 100_000, "not complete JSON"),
    ],
)
def test_bad_json_is_named_by_file_row_and_line(content: str, words: str, tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.jsonl", content)
    with pytest.raises(UserError) as error:
        read_table(path, label="y", text="text")
    assert words in str(error.value)
    assert "a.jsonl" in str(error.value)


def test_duplicated_and_missing_identifiers_are_named() -> None:
    with pytest.raises(UserError, match=r"row 2, column 'id' is 'a', as is row 0"):
        read_table({"id": ["a", "b", "a"], "x": [1, 2, 4]}, id="id")
    with pytest.raises(UserError, match=r"row 1, column 'id' is empty"):
        read_table({"id": ["a", None], "x": [1, 2]}, id="id")


def test_labels_that_identify_rows_are_refused() -> None:
    with pytest.raises(UserError, match="identifiers instead of classes"):
        read_table({"x": [f"t{i}" for i in range(300)], "y": list(range(300))}, label="y", text="x")


def test_wrong_encodings_delimiters_and_files_are_named(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "text,y\ncafé,a\n", "cp1252")
    assert read_table(path, label="y", text="text", encoding="cp1252").texts == ["café"]
    for options, words in (({"encoding": "klingon"}, "unknown encoding"), ({"delimiter": "::"}, "one character")):
        with pytest.raises(UserError, match=words):
            read_table(path, label="y", text="text", **options)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"cannot read \.xlsx"):
        read_table(write_text(tmp_path / "a.xlsx", "x"), label="y")
    with pytest.raises(UserError, match="does not exist"):
        read_table(tmp_path / "none.csv", label="y")
    with pytest.raises(UserError, match="one of text, image and features"):
        read_table(path, text="text", image="text")
    pytest.importorskip("pyarrow")
    with pytest.raises(UserError, match="not a complete Parquet file"):
        read_table(write_text(tmp_path / "a.parquet", "PAR1 nonsense"), label="y")


def image(path: Path, gray: int, mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (6, 4), gray if mode == "L" else (gray, 0, 0)).save(path)
    return path


def test_a_folder_of_images_is_labeled_by_its_folders(tmp_path: Path) -> None:
    for name in ("dog/b.png", "cat/deep/c.JPG", "cat/a.png", "unsorted/d.bmp", ".git/e.png"):
        image(tmp_path / name, 9)
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    table = read_table(tmp_path, unlabeled="unsorted")
    assert table.kind == "image"
    assert table.classes == ("cat", "dog")
    assert dict(zip(table.ids, table.labels.tolist(), strict=True)) == {
        "cat/a.png": 0,
        "cat/deep/c.JPG": 0,
        "dog/b.png": 1,
        "unsorted/d.bmp": -1,
    }


def test_loose_images_have_no_label(tmp_path: Path) -> None:
    image(tmp_path / "b.png", 1)
    image(tmp_path / "a.png", 1)
    table = read_table(tmp_path)
    assert (table.ids, table.labels.tolist(), table.classes) == (("a.png", "b.png"), [-1, -1], ())


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ((), "no images in it"),
        (("a.png", "cat/b.png"), "a.png lies beside the folders of classes cat"),
        (("train/cat/a.png", "test/cat/b.png"), "not classes; give one of them"),
    ],
)
def test_a_folder_that_is_laid_out_otherwise_is_refused(names: tuple[str, ...], words: str, tmp_path: Path) -> None:
    for name in names:
        image(tmp_path / name, 1)
    with pytest.raises(UserError, match=words):
        read_table(tmp_path)


def test_paths_of_images_are_relative_to_their_table(tmp_path: Path) -> None:
    image(tmp_path / "img" / "a.png", 1)
    path = write_text(tmp_path / "t.csv", "file,y\nimg/a.png,cat\nimg/b.png,dog\n")
    with pytest.raises(UserError, match=r"row 1 \(line 3\), column 'file': there is no file .*b\.png"):
        read_table(path, label="y", image="file")
    image(tmp_path / "img" / "b.png", 1)
    assert read_table(path, label="y", image="file").images == [tmp_path / "img/a.png", tmp_path / "img/b.png"]


def test_arrays_become_tables_with_their_views(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    views = np.stack([x + 1, x + 2], axis=1)
    np.savez(tmp_path / "a.npz", x=x, x_views=views, y=np.array(["b", "a", "", "b"]))
    table = read_table(tmp_path / "a.npz")
    assert (table.kind, table.classes, table.labels.tolist()) == ("array", ("a", "b"), [1, 0, -1, 1])
    np.testing.assert_array_equal(table.array, x)
    np.testing.assert_array_equal(table.cached, views)
    np.save(tmp_path / "x.npy", x)
    assert read_table(tmp_path / "x.npy").labels.tolist() == [-1] * 4
    with pytest.raises(UserError, match="has no columns, so label = 'y' means nothing"):
        read_table(tmp_path / "a.npz", label="y")
