"""What a report shows of a row."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
from PIL import Image

from pars.html_report.rows import Rows, thumbnail


def decoded(uri: str) -> Image.Image:
    head, _, body = uri.partition(",")
    assert head in ("data:image/png;base64", "data:image/jpeg;base64")
    return Image.open(io.BytesIO(base64.b64decode(body, validate=True)))


def test_a_small_image_keeps_its_pixels() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 10), dtype=np.uint8)
    uri, pixelated = thumbnail(pixels)
    assert pixelated
    assert np.array_equal(np.asarray(decoded(uri)), pixels.transpose(1, 2, 0))


def test_a_large_image_becomes_small_and_keeps_its_shape() -> None:
    uri, pixelated = thumbnail(np.zeros((1, 400, 800), dtype=np.uint8))
    assert decoded(uri).size == (112, 56)
    assert not pixelated


def test_a_hundred_thumbnails_of_pure_noise_fit_into_three_megabytes() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (100, 3, 300, 300), dtype=np.uint8)
    rows = Rows("pixels", noise)
    assert sum(len(rows.shown(row).image or "") for row in range(100)) < 2_900_000


def test_an_image_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    shown = Rows("image", [str(broken), str(tmp_path / "gone.png")])
    assert shown.shown(0).image is None
    assert shown.shown(0).note == "broken.png cannot be read"
    assert shown.shown(1).note == "gone.png cannot be read"


def test_cells_of_a_table_row_are_texts_and_missing_ones_are_empty() -> None:
    rows = Rows("columns", columns={"age": [71.5], "ward": [None], "note": ["a\x00b"], "x": [float("nan")]})
    assert rows.shown(0).record == (("age", "71.5"), ("ward", ""), ("note", "a\ufffdb"), ("x", ""))
