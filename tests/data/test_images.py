"""Pixels of image files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pars.data import read_image
from pars.errors import UserError


def test_pixels_are_channels_first_and_gray_stays_gray(tmp_path: Path) -> None:
    pixels = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    Image.fromarray(pixels[:, :, 0]).save(tmp_path / "gray.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), pixels.transpose(2, 0, 1))
    np.testing.assert_array_equal(read_image(tmp_path / "gray.png"), pixels[None, :, :, 0])
    np.testing.assert_array_equal(read_image(tmp_path / "gray.png", color=True), np.stack([pixels[:, :, 0]] * 3))


def test_an_image_is_turned_as_its_note_says(tmp_path: Path) -> None:
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[0, 0] = 255
    note = Image.Exif()
    note[0x0112] = 6  # to be turned clockwise: the first corner comes to the upper right
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=note)
    read = read_image(tmp_path / "a.png")
    assert read.shape == (3, 6, 4)
    assert read[:, 0, -1].tolist() == [255] * 3


def test_the_middle_square_is_taken(tmp_path: Path) -> None:
    pixels = np.zeros((4, 12, 3), np.uint8)
    pixels[:, 4:8] = 200
    Image.fromarray(pixels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", size=4), np.full((3, 4, 4), 200))


def test_what_is_no_image_is_named_with_its_row(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"t\.csv: row 3: .*a\.png cannot be read as an image"):
        read_image(tmp_path / "a.png", where="t.csv: row 3")
    Image.new("RGB", (64, 64)).save(tmp_path / "cut.jpg")
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "cut.jpg").read_bytes()[:-300])
    with pytest.raises(UserError, match=r"cut\.jpg cannot be read as an image"):
        read_image(tmp_path / "cut.jpg")
