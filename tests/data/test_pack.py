"""Packs: what is written is what is read, at random; damage is named."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pars.data.pack import ImageToPack, open_pack, write_pack
from pars.errors import UserError


def photo(path: Path, size: tuple[int, int] = (40, 30), seed: int = 0, **options: object) -> Path:
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, **options)  # type: ignore[arg-type]
    return path


def images(folder: Path, n: int = 5) -> list[ImageToPack]:
    return [
        ImageToPack(
            f"p{i}", "ab"[i % 2] if i else None, photo(folder / f"{i}.jpg", seed=i), "test" if i == 4 else "train"
        )
        for i in range(n)
    ]


def test_small_jpegs_are_copied_byte_for_byte_and_read_at_random(tmp_path: Path) -> None:
    rows = images(tmp_path)
    done = write_pack(rows, tmp_path / "pack", ["a", "b"], side=256)
    pack = open_pack(tmp_path / "pack")
    for row in (3, 0, 4, 1):
        source = rows[row].source
        assert isinstance(source, Path)
        assert pack.read(row) == source.read_bytes()
    assert (done.rows, done.skipped) == (5, ())
    assert pack.labels.tolist() == [-1, 1, 0, 1, 0]
    assert pack.test.tolist() == [False] * 4 + [True]
    assert pack.id(3) == "p3"
    content = (tmp_path / "pack" / "data.bin").read_bytes()
    assert pack.checksums == (hashlib.sha256(content).hexdigest(),)
    pack.verify()


def test_large_and_turned_images_are_shrunk_and_turned_as_pillow_does(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    turned = photo(tmp_path / "turned.jpg", (80, 60), exif=exif)
    across, down = np.meshgrid(np.arange(90.0), np.arange(60.0))
    smooth = np.stack([2 * across, 3 * down, across + down], axis=2).astype(np.uint8)
    large = tmp_path / "large.png"
    Image.fromarray(smooth).save(large)
    write_pack([ImageToPack("t", "a", turned), ImageToPack("l", "b", large)], tmp_path / "pack", ["a", "b"], side=30)
    pack = open_pack(tmp_path / "pack")
    sizes = [Image.open(io.BytesIO(pack.read(row))).size for row in range(2)]
    assert sizes == [(30, 40), (45, 30)]
    expected = np.asarray(Image.open(large).resize((45, 30), Image.Resampling.BICUBIC), dtype=float)
    found = np.asarray(Image.open(io.BytesIO(pack.read(1))), dtype=float)
    assert np.abs(found - expected).mean() < 2


def test_an_unreadable_image_is_named_or_skipped_and_counted(tmp_path: Path) -> None:
    rows = images(tmp_path)
    source = rows[2].source
    assert isinstance(source, Path)
    source.write_bytes(source.read_bytes()[:200])
    with pytest.raises(UserError, match=r"row 2: p2 cannot be read as an image"):
        write_pack(rows, tmp_path / "pack", ["a", "b"])
    assert not list(tmp_path.glob("pack*"))
    done = write_pack(rows, tmp_path / "pack", ["a", "b"], skip_unreadable=True)
    assert (done.rows, done.skipped) == (4, ("p2",))
    assert [open_pack(tmp_path / "pack").id(row) for row in range(4)] == ["p0", "p1", "p3", "p4"]


def test_damage_is_named(tmp_path: Path) -> None:
    write_pack(images(tmp_path), tmp_path / "pack", ["a", "b"])
    binary = tmp_path / "pack" / "data.bin"
    content = bytearray(binary.read_bytes())
    content[100] ^= 1
    binary.write_bytes(content)
    with pytest.raises(UserError, match=r"data.bin is damaged: rows 0 to 4 do not have the SHA-256"):
        open_pack(tmp_path / "pack").verify()
    binary.write_bytes(content[:-1])
    with pytest.raises(UserError, match=r"bytes, expected \d+; the copy was cut off"):
        open_pack(tmp_path / "pack")
    binary.write_bytes(content)
    table = tmp_path / "pack" / "rows.csv"
    table.write_text(table.read_text().replace(",b,", ",c,"))
    with pytest.raises(UserError, match=r"rows.csv: row 1 is"):
        open_pack(tmp_path / "pack")


def test_a_pack_is_whole_or_not_there(tmp_path: Path) -> None:
    write_pack(images(tmp_path), tmp_path / "pack", ["a", "b"])
    with pytest.raises(UserError, match="exists already"):
        write_pack(images(tmp_path), tmp_path / "pack", ["a", "b"])
    with pytest.raises(UserError, match="no image to pack"):
        write_pack([], tmp_path / "empty", ["a", "b"])
    assert not list(tmp_path.glob("empty*"))


def test_no_program_is_run_for_an_image(tmp_path: Path) -> None:
    rows = images(tmp_path)
    source = rows[1].source
    assert isinstance(source, Path)
    source.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n")  # Pillow would call Ghostscript
    with pytest.raises(UserError, match=r"row 1: p1 is of no image format that is read"):
        write_pack(rows, tmp_path / "pack", ["a", "b"])
