"""Bad calls that once gave a wrong answer, a traceback, silence, or too much memory: each names what to do."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from run.helpers import snapshot

from cli.helpers import one_document, pars, refused, write_features

FIT = ("--method", "ce", "--no-baseline")


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def write_pets(path: Path, labels: Callable[[int], object] = lambda row: ["cat", "dog"][row % 2], n: int = 80) -> Path:
    """Weights and colors of two kinds of pets."""
    rng = np.random.default_rng(0)
    rows = [(round(3 * (row % 2) + rng.random(), 3), ["black", "brown"][row % 2], labels(row)) for row in range(n)]
    return write_csv(path, ["weight", "color", "kind"], rows)


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pets(tmp_path_factory.mktemp("pets") / "pets.csv")


@pytest.fixture(scope="module")
def fitted(pets: Path) -> Path:
    out = pets.parent / "fitted"
    assert pars("fit", pets, "--label", "kind", *FIT, "--out", out) == 0
    return out


def shelf_of_images(folder: Path, n: int = 24, **odd: bytes) -> Path:
    rng = np.random.default_rng(0)
    for row in range(n):
        image = rng.integers(0, 80, (8, 8, 3), dtype=np.uint8)
        image[4 * (row % 2) :][:4] += 150
        file = folder / ["above", "below"][row % 2] / f"{row:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    for name, content in odd.items():
        (folder / "above" / f"{name}.png").write_bytes(content)
    return folder


# Wrong results: what a folder holds is bound to its data and settings


def test_a_run_copied_from_another_fit_is_not_taken_for_this_ones(
    fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_pets(tmp_path / "other.csv", n=84)
    out = tmp_path / "out"
    assert pars("fit", other, "--label", "kind", *FIT, "--out", out) == 0
    shutil.rmtree(out / "robust")
    shutil.copytree(fitted / "robust", out / "robust")
    said = refused(("fit", other, "--label", "kind", *FIT, "--out", out), tmp_path, capsys)
    assert "is not the data that the run in" in said
    for command in (("audit", out), ("predict", out, other)):
        said = refused(command, tmp_path, capsys)
        assert f"{out / 'robust'} was trained on other rows than rows" in said


@pytest.mark.parametrize("name", ["rows.npz", "columns.json", "preprocessor.json", "content.json"])
def test_a_file_of_another_fit_is_refused(
    name: str, fitted: Path, pets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_csv(tmp_path / "other.csv", ["weight", "size", "kind"],
                      [(row % 5, row % 2, "ab"[row % 2]) for row in range(44)])  # fmt: skip
    assert pars("fit", other, "--label", "kind", "--delimiter", ",", *FIT, "--out", tmp_path / "other") == 0
    out = shutil.copytree(fitted, tmp_path / "out")
    shutil.copy(tmp_path / "other" / name, out / name)
    said = refused(("fit", pets, "--label", "kind", *FIT, "--out", out), tmp_path, capsys)
    assert f"{out / name} is not the file that was written with the others of {out}" in said


@pytest.mark.parametrize("name", ["model.safetensors", "dynamics.safetensors"])
def test_weights_of_another_run_of_the_same_shape_are_refused(
    name: str, fitted: Path, pets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pars("fit", pets, "--label", "kind", "--seed", "1", *FIT, "--out", tmp_path / "other") == 0
    out = shutil.copytree(fitted, tmp_path / "out")
    shutil.copy(tmp_path / "other" / "robust" / name, out / "robust" / name)
    command = ("predict", out, pets) if name == "model.safetensors" else ("audit", out)
    said = refused(command, tmp_path, capsys)
    assert f"{out / 'robust' / name} is not the file that was written with the others" in said


@pytest.mark.parametrize("method", ["wann", "logistic-regression"])
def test_a_classifier_without_a_network_is_bound_to_its_rows_too(
    method: str, pets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_pets(tmp_path / "other.csv", n=84)
    for table, out in ((pets, tmp_path / "a"), (other, tmp_path / "b")):
        assert pars("fit", table, "--label", "kind", "--method", method, "--no-baseline", "--out", out) == 0
    shutil.copy(tmp_path / "a" / "robust" / "classic.safetensors", tmp_path / "b" / "robust")
    for command in (("audit", tmp_path / "b"), ("predict", tmp_path / "b", other)):
        assert "was fitted to other rows" in refused(command, tmp_path, capsys)


@pytest.mark.parametrize("lines", [0, 1])
def test_lost_metrics_are_not_a_shorter_run(
    lines: int, digits_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shutil.copytree(digits_run, tmp_path / "run")
    kept = (out / "metrics.jsonl").read_text().splitlines(keepends=True)[:lines]
    (out / "metrics.jsonl").write_text("".join(kept)) if lines else (out / "metrics.jsonl").unlink()
    for command in ("inspect", "resume"):
        said = refused((command, out), tmp_path, capsys)
        assert f"{out / 'metrics.jsonl'} has {lines} of the 2 epochs that result.json counts" in said


# Tracebacks


def test_a_full_disk_at_any_file_of_a_fit_is_one_message(pets: Path, tmp_path: Path) -> None:
    """Of a process of its own, whose files may not grow beyond some bytes; then it goes on."""
    for method in ("ce", "wann"):
        out = tmp_path / method
        command = ["fit", str(pets), "--label", "kind", "--method", method, "--no-baseline", "--out", str(out)]
        code = (
            "import resource, sys\nfrom pars.cli import main\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1500, resource.RLIM_INFINITY))\nsys.exit(main(sys.argv[1:]))"
        )
        done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True)
        assert done.returncode == 2, done.stderr
        assert "no space left" in done.stderr
        assert "Traceback" not in done.stderr
        assert pars(*command) == 0


@pytest.mark.parametrize("name", ["os:system", "math:sqrt", "json:dumps", "nosuch:module", "os:sep"])
def test_a_function_that_is_no_encoder_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_csv(tmp_path / "t.csv", ["body", "topic"], [(f"card {row}", "ab"[row % 2]) for row in range(30)])
    out = tmp_path / "out"
    for command in (("fit", table, "--out", out), ("encode", table, tmp_path / "x.npz")):
        args = (*command, "--label", "topic", "--text", "body", "--encoder", f"python:{name}")
        assert f"python:{name}" in refused(args, tmp_path, capsys)


# Silent


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x_test": np.zeros((30, 4), np.float32)}, "rows of x_test have shape [4], expected [5] as in x"),
        ({"y_test": np.array(["fox"] * 30)}, "y_test: row 0 is 'fox', expected one of cat, dog, eel"),
        ({"x_test": np.full((30, 5), np.nan, np.float32)}, "(test): row 0, column 0 is nan"),
    ],
)
def test_rows_to_test_on_in_the_same_file_are_checked(
    changes: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_features(tmp_path / "rows.npz", **changes)
    assert words in refused(("fit", file, *FIT, "--out", tmp_path / "out"), tmp_path, capsys)


def test_rows_to_test_on_in_the_same_file_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_features(tmp_path / "rows.npz")
    assert pars("fit", file, "--method", "ce", "--out", tmp_path / "out", "--json") == 0
    assert one_document(capsys.readouterr().out)["clean"]["rows"] == 30


def test_what_is_not_read_in_a_folder_of_images_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf = shelf_of_images(tmp_path / "shelf")
    (shelf / "above" / "gone.png").symlink_to("nowhere.png")
    os.mkfifo(shelf / "above" / "pipe.png")
    (shelf / "below" / "folder.png").mkdir()
    (shelf / "below" / "drawing.svg").write_text("<svg/>")
    (shelf / "below" / ".hidden").write_text("")
    assert pars("fit", shelf, *FIT, "--out", tmp_path / "out") == 0
    said = caplog.text
    assert "4 entries are not read as images" in said
    for words in ("gone.png (a link to a file that does not exist)", "pipe.png (not a plain file)",
                  "folder.png (a folder)", "drawing.svg (.svg, not an image format"):  # fmt: skip
        assert words in said


@pytest.mark.parametrize("out", [".", "/", ".."])
def test_an_encoding_needs_a_name(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = write_csv(tmp_path / "t.csv", ["body"], [(f"card {row}",) for row in range(30)])
    said = refused(("encode", table, out, "--text", "body", "--encoder", "tfidf"), tmp_path, capsys)
    assert f"{out} exists already; choose another name" in said


def test_rows_that_are_trained_on_are_not_tested_on(
    pets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(pets.parent)
    for test in (pets, "./pets.csv"):
        args = ("fit", pets, "--label", "kind", "--test", test, *FIT, "--out", tmp_path / "out")
        assert f"{test} is what is trained on: its accuracy would say nothing" in refused(args, tmp_path, capsys)


def test_encode_writes_no_npz_under_another_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_csv(tmp_path / "t.csv", ["body"], [(f"card {row}",) for row in range(30)])
    for name in ("e.csv", "e.parquet", "e.npy", "e.PT"):
        said = refused(("encode", table, tmp_path / name, "--text", "body", "--encoder", "tfidf"), tmp_path, capsys)
        assert f"{tmp_path / name}: cannot write" in said
        assert "expected OUT.npz" in said


def test_predictions_far_from_the_training_rows_come_with_a_warning(
    fitted: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    usual = write_csv(tmp_path / "usual.csv", ["weight", "color"], [(0.4, "black"), (4.9, "brown")])
    assert pars("predict", fitted, usual) == 0
    assert "unlike" not in caplog.text
    far = write_csv(tmp_path / "far.csv", ["weight", "color"], [(0.4, "black"), (1e6, "brown"), (0.4, "green")])
    assert pars("predict", fitted, far) == 0
    assert "row 1 (line 3), column 'weight' is 1e+06, training rows have 0." in caplog.text
    assert "2 of 3 rows are unlike any training row" in caplog.text


def test_feature_vectors_far_from_the_training_rows_come_with_a_warning(
    features_run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    x = np.zeros((3, 5), np.float32)
    x[1, 2] = 1e5
    np.save(tmp_path / "x.npy", x)
    assert pars("predict", features_run, tmp_path / "x.npy") == 0
    assert "row 1, column 2 is 100000, training rows have" in caplog.text
    assert "1 of 3 rows are unlike any training row" in caplog.text


def test_classes_that_may_be_one_or_none_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = write_pets(tmp_path / "pets.csv", lambda row: ["cat", "Cat", "dog", "NA"][row % 4])
    assert pars("fit", table, "--label", "kind", *FIT, "--out", tmp_path / "out") == 0
    assert "the classes 'Cat', 'cat' differ only in case or spaces" in caplog.text
    assert "'NA' counts as a class; if it means that the label is missing" in caplog.text
    caplog.clear()
    assert pars("fit", table, "--label", "kind", "--unlabeled", "NA", *FIT, "--out", tmp_path / "out2") == 0
    assert "'NA'" not in caplog.text


# Memory


def test_a_header_that_claims_20_gigabytes_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = io.BytesIO()
    about = {"descr": "<f4", "fortran_order": False, "shape": (5_000_000, 1000)}
    np.lib.format.write_array_header_1_0(header, about)
    with zipfile.ZipFile(tmp_path / "big.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(1 << 20))
    said = refused(("fit", tmp_path / "big.npz", "--out", tmp_path / "out"), tmp_path, capsys)
    assert "x: cannot be read: its header claims [5000000, 1000] float32, 20000000000 bytes, but 1048576 follow" in said


def test_a_cell_of_ten_megabytes_is_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    words = " ".join(f"w{number}" for number in range(1_300_000))
    rows = [(words, "a"), *((f"card {row} lost", "ab"[row % 2]) for row in range(40))]
    table = write_csv(tmp_path / "t.csv", ["body", "topic"], rows)
    # Not getrusage: its peak begins with that of the process which started this one.
    code = "import sys\nfrom pars.cli import main\ncode = main(sys.argv[1:])\n" \
           "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\nsys.exit(code)"  # fmt: skip
    command = ["encode", table, tmp_path / "x.npz", "--text", "body", "--encoder", "tfidf"]
    done = subprocess.run([sys.executable, "-c", code, *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "TF-IDF reads the first 100000 of each" in done.stderr
    assert int(done.stdout.split()[-1]) < 800_000  # kilobytes


def test_a_long_label_is_shortened_where_people_read_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_pets(tmp_path / "pets.csv", lambda row: ["cat" * 1700, "dog" * 1700][(row + (row % 9 == 0)) % 2])
    assert pars("fit", table, "--label", "kind", *FIT, "--out", tmp_path / "out") == 0
    capsys.readouterr()
    assert pars("audit", tmp_path / "out") == 0
    assert len(capsys.readouterr().out) < 60_000  # of labels of 5 100 characters, 1.3 MB before


# Misleading


@pytest.mark.parametrize("n", [80, 240])
def test_labels_that_all_differ_are_named(n: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_pets(tmp_path / "pets.csv", lambda row: f"id{row}", n)
    said = refused(("fit", table, "--label", "kind", "--out", tmp_path / "out"), tmp_path, capsys)
    assert "identifiers" in said
    assert f"{n}" in said


def test_a_fit_into_a_file_is_refused(pets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("mine")
    said = refused(("fit", pets, "--label", "kind", "--out", tmp_path / "out"), tmp_path, capsys)
    assert f"{tmp_path / 'out'} is a file, expected a folder for the fit; choose another --out" in said


def test_the_same_table_spelled_otherwise_is_the_same_fit(
    fitted: Path, pets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pets.parent)
    before = snapshot(fitted / "robust")
    for spelled in ("pets.csv", "./pets.csv", f"../{pets.parent.name}/pets.csv"):
        assert pars("fit", spelled, "--label", "kind", *FIT, "--out", fitted) == 0
    assert snapshot(fitted / "robust") == before


def test_resume_of_a_fit_says_how(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(("resume", fitted), fitted, capsys)
    assert f"{fitted} is the folder of a fit: run the same `pars fit` command again" in said


def test_a_column_of_codes_can_be_called_categorical(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(["7", "8", "9"][row % 3] if row else "n7", row % 5, "ab"[row % 2]) for row in range(60)]
    table = write_csv(tmp_path / "t.csv", ["code", "size", "kind"], rows)
    command = ("fit", table, "--label", "kind", *FIT, "--out", tmp_path / "out")
    said = refused(command, tmp_path, capsys)
    assert "column 'code' is 'n7', expected a number as in 59 other rows" in said
    assert "--categorical code" in said
    assert "names 'nope', which is not a column" in refused((*command, "--categorical", "nope"), tmp_path, capsys)
    assert pars(*command, "--categorical", "code") == 0
    assert pars("predict", tmp_path / "out", table) == 0


@pytest.mark.parametrize(
    "command",
    [("fit", "", "--label", "kind", "--out", "x"), ("fit", "pets.csv", "--out", ""), ("audit", ""), ("resume", ""),
     ("predict", "", "x.csv"), ("inspect", ""), ("encode", "t.csv", ""), ("train", "--out", ""),
     ("train", "--config", "")],
)  # fmt: skip
def test_an_empty_path_is_called_empty(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "path is empty, expected the name of a file or folder" in refused(command, tmp_path, capsys)


def test_labels_that_are_all_minus_five_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_features(tmp_path / "rows.npz", y=np.full(60, -5), x_test=None, y_test=None)
    for command in ("fit", file), ("train", "--data.name", file):
        said = refused((*command, "--out", tmp_path / "out"), tmp_path, capsys)
        assert "no row has a class number (row 0 is -5), expected 0, 1, 2, …; -1 marks rows without a label" in said


def test_an_unknown_field_lists_those_that_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(("train", "--train.wat", "3", "--out", tmp_path / "run"), tmp_path, capsys)
    assert "unknown flag --train.wat; there are --train.epochs, " in said
    assert "--train.epochs INT" in refused(("train", "--train.epoch", "3"), tmp_path, capsys)


# Images


def test_all_unreadable_images_are_named_at_once_and_can_be_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(whole, "PNG")
    shelf = shelf_of_images(tmp_path / "shelf", x1=b"not an image", x2=whole.getvalue()[:2000], x3=b"")
    command = ("fit", shelf, *FIT, "--out", tmp_path / "out")
    said = refused(command, tmp_path, capsys)
    assert "3 of 27 images cannot be read" in said
    for name in ("x1.png", "x2.png", "x3.png", "--skip-unreadable"):
        assert name in said
    assert pars(*command, "--skip-unreadable", "--json") == 0
    assert one_document(capsys.readouterr().out)["rows"] == 24
    assert "3 of 27 images cannot be read and are left out" in caplog.text
    lines = list(csv.DictReader((tmp_path / "out" / "audit" / "audit.csv").open()))
    assert len(lines) == 24
    said = refused(("encode", shelf, tmp_path / "x.npz", "--encoder", "pixels"), tmp_path, capsys)
    assert "3 of 27 images cannot be read" in said
    assert pars("encode", shelf, tmp_path / "x.npz", "--encoder", "pixels", "--skip-unreadable") == 0


def test_images_named_in_a_table_are_skipped_with_their_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf = shelf_of_images(tmp_path / "shelf", x1=b"not an image")
    files = sorted(shelf.rglob("*.png"))
    rows = [(file.relative_to(tmp_path), file.parent.name) for file in files]
    table = write_csv(tmp_path / "t.csv", ["file", "kind"], [("nowhere.png", "above"), *rows, ("no.png", "below")])
    command = ("fit", table, "--image", "file", "--label", "kind", *FIT, "--out", tmp_path / "out")
    assert "(2 such rows in all: --skip-unreadable leaves them out)" in refused(command, tmp_path, capsys)
    assert pars(*command, "--skip-unreadable") == 0
    ids = [line["id"] for line in csv.DictReader((tmp_path / "out" / "audit" / "audit.csv").open())]
    assert len(ids) == 24
    assert min(map(int, ids)) == 1  # the row's number in the table: the first one is left out


def test_images_of_16_bits_and_of_four_inks_are_read(tmp_path: Path) -> None:
    from pars.data import image_file_shape, read_image

    gray = np.arange(0, 65536, 256, dtype=np.uint16).reshape(16, 16)
    Image.fromarray(gray).save(tmp_path / "gray.png")
    Image.fromarray(gray).save(tmp_path / "gray.tif")
    expected = np.round(gray / 65535 * 255)
    for name in ("gray.png", "gray.tif"):
        assert image_file_shape(tmp_path / name) == (1, 16, 16)
        np.testing.assert_array_equal(read_image(tmp_path / name)[0], expected)
        assert read_image(tmp_path / name, color=True).shape == (3, 16, 16)
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(tmp_path / "red.jpg", quality=100)
    red = read_image(tmp_path / "red.jpg")
    assert red.shape == (3, 16, 16)
    assert red[0].min() > 240
    assert red[1:].max() < 20


def test_pixels_that_are_no_intensities_are_refused(tmp_path: Path) -> None:
    from pars.data import UnreadableImage, read_image

    Image.fromarray(np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)).save(tmp_path / "f.tif")
    with pytest.raises(UnreadableImage, match="pixels from -1 to 1, expected 8 or 16 bits"):
        read_image(tmp_path / "f.tif")


# No baseline


def test_without_a_baseline_one_run_is_trained_and_nothing_is_compared(
    fitted: Path, pets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not (fitted / "plain").exists()
    out = shutil.copytree(fitted, tmp_path / "out")
    assert pars("fit", pets, "--label", "kind", *FIT, "--out", out, "--json") == 0
    alone = one_document(capsys.readouterr().out)
    assert alone["verdict"] is None
    assert alone["held_out"] is None
    assert 0.5 < alone["held_out_accuracy"] <= 1
    assert pars("fit", pets, "--label", "kind", "--method", "ce", "--out", out, "--json") == 0  # adds the comparison
    both = one_document(capsys.readouterr().out)
    assert both["held_out"]["robust"] == alone["held_out_accuracy"]
    assert both["labels"] == alone["labels"]


def test_a_table_of_row_numbers_says_which_columns_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text("n,label\n" + "".join(f"{row},{'ab'[row % 2]}\n" for row in range(60)))
    said = refused(("fit", tmp_path / "t.csv", "--label", "label", "--out", tmp_path / "f"), tmp_path, capsys)
    assert "no column is left to learn from: 'label' has labels or identifiers, 'n' numbers the rows" in said


def test_an_audit_of_a_file_asks_for_a_folder(pets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a run: expected a folder" in refused(("audit", pets), tmp_path, capsys)


@pytest.mark.parametrize(
    ("lost", "command", "words"),
    [
        ("robust", "audit", "robust is missing: the same command of pars fit trains it"),
        ("robust", "predict", "robust is missing: the same command of pars fit trains it"),
        ("content.json", "audit", "content.json"),
    ],
)
def test_a_fit_that_lacks_a_part_is_refused_before_anything_is_written(
    lost: str, command: str, words: str, fitted: Path, pets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = shutil.copytree(fitted, tmp_path / "fit") / lost
    shutil.rmtree(part) if part.is_dir() else part.unlink()
    shutil.rmtree(tmp_path / "fit" / "audit")
    assert words in refused((command, tmp_path / "fit", *[pets][: command == "predict"]), tmp_path, capsys)


def test_a_fit_without_its_run_is_trained_by_the_same_command(fitted: Path, pets: Path, tmp_path: Path) -> None:
    fit = shutil.copytree(fitted, tmp_path / "fit")
    shutil.rmtree(fit / "robust")
    assert pars("fit", pets, "--label", "kind", *FIT, "--out", fit) == 0
    assert (fit / "robust" / "model.safetensors").read_bytes() == (fitted / "robust" / "model.safetensors").read_bytes()
