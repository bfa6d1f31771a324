from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from data.fakes import fake_mnist, idx_bytes
from pars.data import fashion_mnist, idx, idx_folder, read_idx
from pars.errors import UserError


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_like_folder(tmp_path: Path, packed: bool) -> None:
    arrays = fake_mnist(tmp_path, packed=packed)
    data = idx_folder(tmp_path, name="mine")
    assert data.test is not None
    np.testing.assert_array_equal(data.train.inputs[:, 0], arrays["train-images-idx3-ubyte"])
    np.testing.assert_array_equal(data.test.labels, arrays["t10k-labels-idx1-ubyte"])
    assert data.classes == ("0", "1", "2")
    pixels = arrays["train-images-idx3-ubyte"] / 255
    assert data.mean == pytest.approx((pixels.mean(),))
    assert data.std == pytest.approx((pixels.std(),))


def test_wrong_magic(tmp_path: Path) -> None:
    path = tmp_path / "train-labels-idx1-ubyte"
    path.write_bytes(idx_bytes(np.zeros(3, np.uint8)))
    with pytest.raises(UserError, match=r"begins with 00000801, expected 00000803 .*mixed up"):
        read_idx(path, ndim=3)
    path.write_bytes(b"")
    with pytest.raises(UserError, match=r"begins with nothing, expected 00000803"):
        read_idx(path, ndim=3)


def test_header_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(idx_bytes(np.zeros((2, 2, 2), np.uint8))[:9])
    with pytest.raises(UserError, match=r"ends inside its header, expected 16 bytes"):
        read_idx(path, ndim=3)


@pytest.mark.parametrize(("change", "found"), [(-1, "7"), (1, "more")])
@pytest.mark.parametrize("packed", [False, True])
def test_size_has_to_be_that_of_the_header(tmp_path: Path, change: int, found: str, packed: bool) -> None:
    data = idx_bytes(np.zeros((2, 2, 2), np.uint8))
    data = data[:change] if change < 0 else data + b"x"
    path = tmp_path / ("images.gz" if packed else "images")
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(UserError, match=rf"images.*: {found} bytes after the header, expected 8 for shape \[2, 2, 2\]"):
        read_idx(path, ndim=3)


def test_decompression_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked = 0
    real = gzip.GzipFile.read

    def counting(self: gzip.GzipFile, size: int | None = -1) -> bytes:
        nonlocal unpacked
        data = real(self, size)
        unpacked += len(data)
        return data

    monkeypatch.setattr(gzip.GzipFile, "read", counting)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(idx_bytes(np.zeros(4, np.uint8)) + bytes(50_000_000)))
    with pytest.raises(UserError, match=r"more bytes after the header"):
        read_idx(path, ndim=1)
    assert 0 < unpacked < 100
    path.write_bytes(gzip.compress(struct.pack(">HBB3I", 0, 8, 3, 2**31, 2**31, 2**31)))
    with pytest.raises(UserError, match=r"a damaged header"):
        read_idx(path, ndim=3)


def test_bad_and_cut_off_gzip(tmp_path: Path) -> None:
    path = tmp_path / "labels.gz"
    good = gzip.compress(idx_bytes(np.arange(200, dtype=np.uint8)))
    for broken in (b"this is no gzip file", good[: len(good) // 2], good[:-8] + b"\0" * 8):
        path.write_bytes(broken)
        with pytest.raises(UserError, match=r"labels.gz: cannot be read"):
            read_idx(path, ndim=1)


def test_missing_file_of_the_four(tmp_path: Path) -> None:
    fake_mnist(tmp_path, packed=True)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(UserError, match=r"mine: t10k-labels-idx1-ubyte \(or .*\.gz\) is missing in"):
        idx_folder(tmp_path, name="mine")


def test_test_images_of_another_size_are_refused(tmp_path: Path) -> None:
    fake_mnist(tmp_path, packed=False)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx_bytes(np.zeros((10, 5, 7), np.uint8)))
    with pytest.raises(UserError, match=r"mine .*: test images are 5×7 pixels, expected 5×4 as in training"):
        idx_folder(tmp_path, name="mine")


def test_as_many_labels_as_images(tmp_path: Path) -> None:
    fake_mnist(tmp_path, packed=False)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx_bytes(np.zeros(29, np.uint8)))
    with pytest.raises(UserError, match=r"shape \[29\], expected one label per row: \[30\]"):
        idx_folder(tmp_path, name="mine")


def test_fashion_mnist_accepts_published_contents_only(tmp_path: Path) -> None:
    fake_mnist(tmp_path / "fashion-mnist", packed=True)
    with pytest.raises(
        UserError, match=r"train-images-idx3-ubyte.gz: contents have MD5 .*expected f4a8712d7a061bf5bd6d2ca38dc4d50a"
    ):
        fashion_mnist(tmp_path, download=False)


def test_fashion_mnist_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idx, "DEBIAN_FOLDER", tmp_path / "no-such-package")
    with pytest.raises(UserError, match=r"fashion-mnist: train-images-idx3-ubyte \(or"):
        fashion_mnist(tmp_path, download=False)


def test_real_fashion_mnist_of_debian(tmp_path: Path) -> None:
    if not idx.is_idx_folder(idx.DEBIAN_FOLDER):
        pytest.skip("Debian package dataset-fashion-mnist is not installed: the real Fashion-MNIST was NOT read")
    data = fashion_mnist(tmp_path, download=False)
    assert data.train.inputs.shape == (60_000, 1, 28, 28)
    assert np.bincount(data.train.labels).tolist() == [6000] * 10
    assert (data.mean[0], data.std[0]) == pytest.approx((0.2860, 0.3530), abs=1e-4)  # the constants in common use
