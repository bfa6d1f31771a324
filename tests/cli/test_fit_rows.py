"""`pars fit` on texts, images and tables with texts; then `pars predict`, `evaluate` and `audit` on raw rows."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cli.helpers import message, one_document, pars, refused
from pars import run
from pars.encode import load_encoder

WORDS = {
    "bank": ["card", "pin", "cash", "debit", "credit", "limit"],
    "post": ["parcel", "box", "letter", "courier", "street", "truck"],
}


def write_table(path: Path, n: int = 60, *, wrong: float = 0.0, seed: int = 0) -> Path:
    """A CSV of texts about two topics, with an amount that says nothing."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ticket", "body", "amount", "topic", "right"])
        for row in range(n):
            right = list(WORDS)[row % 2]
            given = list(WORDS)[(row + (rng.random() < wrong)) % 2]
            body = f"please {' '.join(rng.choice(WORDS[right], 4))} now"
            writer.writerow([f"T{row}", body, rng.integers(9), given, right])
    return path


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    write_table(folder / "tickets.csv", wrong=0.15)
    write_table(folder / "new.csv", seed=1)
    rng = np.random.default_rng(0)
    for row in range(40):
        image = rng.integers(0, 80, (8 + row % 3, 8, 3), dtype=np.uint8)
        image[4 * (row % 2) :][:4] += 150
        file = folder / "images" / ["above", "below"][row % 2] / f"{row}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    return folder


@pytest.fixture(scope="module")
def texts(desk: Path) -> Path:
    columns = ("--label", "topic", "--text", "body", "--id", "ticket")
    assert pars("fit", desk / "tickets.csv", *columns, "--method", "ce", "--out", desk / "texts") == 0
    return desk / "texts"


@pytest.fixture(scope="module")
def images(desk: Path) -> Path:
    assert pars("fit", desk / "images", "--method", "ce", "--out", desk / "seen") == 0
    return desk / "seen"


def predicted(capsys: pytest.CaptureFixture[str], *args: object) -> list[dict[str, str]]:
    capsys.readouterr()
    assert pars("predict", *args) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return list(csv.DictReader(io.StringIO(out)))


def test_new_texts_are_predicted_from_their_table(texts: Path, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader((desk / "new.csv").open()))
    found = predicted(capsys, texts, desk / "new.csv")
    assert list(found[0]) == ["row", "label", "confidence"]
    assert np.mean([a["label"] == b["right"] for a, b in zip(found, rows, strict=True)]) > 0.9
    features = load_encoder(texts / "encoder").encode([row["body"] for row in rows])
    expected = run.load_run(texts / "robust").predict_proba(features).amax(dim=1).numpy()
    np.testing.assert_allclose([float(line["confidence"]) for line in found], expected, atol=2e-6)
    assert predicted(capsys, texts / "robust", desk / "new.csv") == found
    named = predicted(capsys, texts, desk / "new.csv", "--id", "ticket")
    assert [line.pop("id") for line in named] == [row["ticket"] for row in rows]
    assert named == found


def test_any_table_with_the_column_is_read(
    texts: Path, desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = list(csv.DictReader((desk / "new.csv").open()))
    lines = [json.dumps({"body": row["body"]}) for row in rows]
    (tmp_path / "new.jsonl").write_text("\n".join(lines))
    assert predicted(capsys, texts, tmp_path / "new.jsonl") == predicted(capsys, texts, desk / "new.csv")
    assert predicted(capsys, texts, texts / "rows.npz")  # encoded already


def test_accuracy_is_that_of_the_named_column(texts: Path, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    accuracies = []
    for label in ("topic", "right"):
        assert pars("evaluate", texts, desk / "tickets.csv", "--label", label, "--json") == 0
        accuracies.append(one_document(capsys.readouterr().out)["accuracy"])
    assert accuracies[0] != accuracies[1]


def test_the_list_of_wrong_labels_shows_texts_and_names(texts: Path, desk: Path, tmp_path: Path, capsys: Any) -> None:
    rows = list(csv.DictReader((desk / "tickets.csv").open()))
    listed = sorted(csv.DictReader((texts / "audit" / "audit.csv").open()), key=lambda line: int(line["index"]))
    assert [(line["id"], line["text"]) for line in listed] == [(row["ticket"], row["body"]) for row in rows]
    formats = "csv,label-studio,argilla,prodigy,fiftyone"
    capsys.readouterr()
    assert pars("audit", texts, "--format", formats, "--top", "3", "--out", tmp_path, "--json") == 0
    for suspect in one_document(capsys.readouterr().out)["suspects"]:
        row = rows[suspect["row"]]
        assert (suspect["id"], suspect["text"]) == (row["ticket"], row["body"])
    assert (tmp_path / "audit.csv").read_text() == (texts / "audit" / "audit.csv").read_text()
    bodies = {row["body"] for row in rows}
    assert all(task["data"]["text"] in bodies for task in json.loads((tmp_path / "label-studio.json").read_text()))
    for name in ("argilla.jsonl", "prodigy.jsonl"):
        assert all(json.loads(line)["text"] in bodies for line in (tmp_path / name).read_text().splitlines())
    assert pars("audit", texts / "robust", "--top", "1", "--out", tmp_path) == 0
    assert "please" in capsys.readouterr().out


def test_small_images_are_trained_on_from_their_pixels(
    images: Path, desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert np.load(images / "rows.npz")["x"].shape == (40, 3, 9, 8)
    found = predicted(capsys, images, desk / "images")
    assert [line["id"] for line in found][:2] == ["above/0.png", "above/10.png"]
    assert np.mean([line["id"].startswith(line["label"]) for line in found]) > 0.95
    assert pars("audit", images, "--format", "fiftyone", "--top", "2", "--out", tmp_path) == 0
    for sample in json.loads((tmp_path / "fiftyone.json").read_text())["samples"]:
        assert Path(sample["filepath"]).is_file()
    (tmp_path / "list.csv").write_text(f"file\n{desk / 'images' / 'below' / '1.png'}\n")
    assert "has columns, expected images" in refused(("predict", images, tmp_path / "list.csv"), tmp_path, capsys)


def test_texts_among_the_columns_of_a_table_are_learned_from(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    columns = ("--label", "right", "--features", "body", "amount")
    assert pars("fit", desk / "tickets.csv", *columns, "--method", "ce", "--out", tmp_path / "out") == 0
    assert "free texts in 'body'" in capsys.readouterr().err
    rows = list(csv.DictReader((desk / "new.csv").open()))
    found = predicted(capsys, tmp_path / "out", desk / "new.csv")
    assert np.mean([a["label"] == b["right"] for a, b in zip(found, rows, strict=True)]) > 0.9
    (tmp_path / "less.csv").write_text("amount\n1\n")
    assert "no column 'body'" in refused(("predict", tmp_path / "out", tmp_path / "less.csv"), tmp_path, capsys)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("amount\n1\n", "no column 'body', expected one of 'amount'"),
        ("body\n", "no rows"),
        ("body,amount\n,1\n,2\n", "column 'body' is empty in every row"),
    ],
)
def test_a_table_that_cannot_be_predicted_is_named(
    content: str, words: str, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.csv").write_text(content)
    said = refused(("predict", texts, tmp_path / "bad.csv"), tmp_path, capsys)
    assert words in said
    assert "bad.csv" in said


def test_rows_of_another_kind_and_other_encoders_are_refused(
    texts: Path, images: Path, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for args, words in (
        ((texts, desk / "images"), "images has images, expected texts as in training"),
        (
            (texts, desk / "new.csv", "--encoder", "minilm"),
            "contains the encoder tfidf, so minilm cannot read the rows",
        ),
        ((texts, desk / "new.csv", "--id", "nope"), "no column 'nope'"),
        ((texts, "nowhere.csv"), "'nowhere.csv' is neither a known data set nor a path that exists"),
    ):
        assert words in refused(("predict", *args), desk, capsys)


def test_a_run_of_arrays_says_that_it_reads_no_tables(
    features_run: Path, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(("predict", features_run, desk / "new.csv"), desk, capsys)
    assert "was trained on arrays, expected an .npz file; `pars encode` makes one" in said


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--text", "body", "--encoder", "nonsense"), "unknown encoder 'nonsense'"),
        (("--text", "body", "--encoder", "pixels"), "pixels reads images, but the rows are texts"),
        (("--text", "body", "--views", "-1"), "views: -1, expected 0 or more"),
        (("--features", "amount", "--views", "2"), "views: 2, but only texts and images"),
        (("--features", "amount", "--encoder", "tfidf"), "rows are features already"),
    ],
)
def test_a_fit_that_cannot_be_leaves_nothing(
    flags: tuple[str, ...], words: str, desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ("fit", desk / "tickets.csv", "--label", "topic", *flags, "--out", tmp_path / "out")
    assert words in refused(args, tmp_path, capsys)


def test_a_broken_image_is_named_and_once_mended_the_folder_can_be_used(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        (tmp_path / "in" / name).mkdir(parents=True)
        Image.new("RGB", (70, 70)).save(tmp_path / "in" / name / "0.jpg")
    broken = tmp_path / "in" / "b" / "0.jpg"
    broken.write_bytes(broken.read_bytes()[:-300])
    capsys.readouterr()
    assert pars("fit", tmp_path / "in", "--encoder", "pixels", "--out", tmp_path / "out") == 2
    assert f"row 1: {broken} cannot be read as an image" in message(capsys)
    flags = ("--label", "right", "--text", "body", "--method", "ce", "--views", "1")
    assert pars("fit", desk / "new.csv", *flags, "--out", tmp_path / "out") == 0
    assert np.load(tmp_path / "out" / "rows.npz")["x_views"].shape[:2] == (60, 2)


def test_a_damaged_fit_is_named(texts: Path, desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(texts, tmp_path / "fit")
    (tmp_path / "fit" / "content.json").write_text('{"kind": "text", "values": [1], "ids": null}')
    assert "content.json is damaged" in refused(("audit", tmp_path / "fit"), tmp_path, capsys)
    (tmp_path / "fit" / "preprocessor.json").write_text("[]")
    assert "preprocessor.json is damaged" in refused(("predict", tmp_path / "fit", desk / "new.csv"), tmp_path, capsys)
