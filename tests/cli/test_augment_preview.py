"""`pars augment-preview`."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cli.helpers import message, one_document, pars, small_disk


def test_a_contact_sheet_of_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheet = tmp_path / "sheet.png"
    assert pars("augment-preview", "digits", sheet, "--rows", 3, "--copies", 2, "--json") == 0
    out, err = capsys.readouterr()
    assert str(sheet) in err
    result = one_document(out)
    assert [len(row) for row in result["images"]] == [5, 5, 5]
    assert [tile["view"] for tile in result["images"][0]] == ["row 0", "weak 1", "weak 2", "strong 1", "strong 2"]
    done = [line for row in result["images"] for tile in row[3:] for line in tile["done"]]
    assert "cutout 4" in done
    with Image.open(sheet) as image:
        width, height = image.size
    assert width > 5 * 96
    assert height > 3 * 96


def test_the_image_itself_and_its_views_are_on_the_sheet(tmp_path: Path) -> None:
    red = np.zeros((128, 128, 3), np.uint8)
    red[:, :, 0] = 200
    Image.fromarray(red).save(tmp_path / "red.png")
    flags = ("--copies", 1, "--views.weak", "none", "--views.strong", "none")
    assert pars("augment-preview", tmp_path / "red.png", tmp_path / "sheet.png", *flags) == 0
    pixels = np.asarray(Image.open(tmp_path / "sheet.png"))
    assert (pixels == [200, 0, 0]).all(axis=2).sum() == 3 * 128 * 128


def test_the_same_seed_gives_the_same_sheet(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert pars("augment-preview", "digits", tmp_path / f"{name}.png", "--seed", seed) == 0
    a, b, c = ((tmp_path / f"{name}.png").read_bytes() for name in "abc")
    assert a == b
    assert a != c


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "LA", "1", "P", "CMYK"])
@pytest.mark.parametrize("size", [(1, 1), (1, 300), (40, 30)])
def test_images_of_any_kind_and_size(mode: str, size: tuple[int, int], tmp_path: Path) -> None:
    Image.new(mode, size).save(tmp_path / "image.tif")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pars("augment-preview", tmp_path / "image.tif", tmp_path / "sheet.png", "--copies", 2) == 0
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.width > 100


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("digits", "sheet.jpg"), "sheet.jpg: the contact sheet is a .png file"),
        (("digits", "nowhere/sheet.png"), "the folder nowhere does not exist"),
        (("digits", "sheet.png", "--rows", "0"), "--rows is 0"),
        (("digits", "sheet.png", "--first", "99999"), "--first is 99999, but digits has rows 0 to"),
        (("missing.png", "sheet.png"), "missing.png does not exist"),
        (("text.jpg", "sheet.png"), "text.jpg cannot be read as an image"),
        (("features.npz", "sheet.png"), "only images have a preview"),
        (("digits", "sheet.png", "--views.size", "9"), "views.size = 9 does not fit images of 8×8"),
        (("digits", "sheet.png", "--views.strong", "dropout"), "views.strong: dropout does not fit images"),
        (("digits", "sheet.png", "--views.strong", "nonsense"), "nonsense"),
        (("digits", "sheet.png", "--copies", "100000"), "800004 images do not fit on a contact sheet, at most 2000"),
    ],
)
def test_mistakes_write_nothing(
    args: tuple[str, ...],
    words: str,
    features_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.jpg").write_text("no image")
    (tmp_path / "features.npz").symlink_to(features_file)
    assert pars("augment-preview", *args) == 2
    assert words in message(capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["features.npz", "text.jpg"]


def test_a_full_disk_leaves_the_old_sheet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheet = tmp_path / "sheet.png"
    assert pars("augment-preview", "digits", sheet) == 0
    before = sheet.read_bytes()
    capsys.readouterr()
    with small_disk(1000):
        assert pars("augment-preview", "digits", sheet, "--seed", 5) == 2
    assert str(sheet) in message(capsys)
    assert sheet.read_bytes() == before
    assert list(tmp_path.iterdir()) == [sheet]
