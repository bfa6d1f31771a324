"""Damaged and hostile array files: an error that names the file, never anything else."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from privileges import unreadable

from pars.data import arrays
from pars.data.arrays import read_npy, read_npz
from pars.errors import UserError

Y = np.arange(12) % 3


def npy_bytes(array: object) -> bytes:
    out = io.BytesIO()
    np.save(out, np.asarray(array))
    return out.getvalue()


def with_header(header: str) -> bytes:
    """An .npy file that says this of itself and holds nothing."""
    text = header.ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


HUGE = with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000), }")
BEYOND = with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999,), }")
OPEN = with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (12, ")
DEEP = with_header("(" * 110)


@pytest.mark.parametrize("content", [b"", b"\x00" * 40, b"no array", HUGE, BEYOND, OPEN, DEEP, npy_bytes(Y)[:100]])
def test_a_damaged_npy_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.npy: (cannot be read|not an array|holds Python)"):
        read_npy(tmp_path / "x.npy")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", content)
    with pytest.raises(UserError, match=r"x\.npz: x: (cannot be read|not an array|holds Python)"):
        read_npz(tmp_path / "x.npz", ["x"])


def encrypted(data: bytearray, at: int) -> None:
    data[at + 8] |= 1


def of_unknown_compression(data: bytearray, at: int) -> None:
    data[at + 10] = 97


@pytest.mark.parametrize("change", [encrypted, of_unknown_compression])
def test_an_archive_that_python_cannot_unpack_is_named(
    tmp_path: Path, change: Callable[[bytearray, int], None]
) -> None:
    np.savez(tmp_path / "x.npz", x=Y)
    data = bytearray((tmp_path / "x.npz").read_bytes())
    change(data, data.rindex(b"PK\x01\x02"))  # in the directory of the archive
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(UserError, match=r"x\.npz: (x: cannot be read|not a complete)"):
        read_npz(tmp_path / "x.npz", ["x"])


def test_a_damaged_lzma_member_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", npy_bytes(np.random.default_rng(0).random(2000)))
    data = bytearray(path.read_bytes())
    data[60:2000] = bytes(1940)
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"x\.npz: x: cannot be read"):
        read_npz(path, ["x"])


def test_only_what_is_known_is_opened_in_a_folder(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(12))
    np.save(tmp_path / "y.npy", Y)
    np.save(tmp_path / "notes.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "broken.npy").write_bytes(b"")
    os.mkfifo(tmp_path / "classes.npy")  # reading it would wait for ever
    assert arrays(tmp_path).train.labels.tolist() == Y.tolist()


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_a_file_that_may_not_be_read_is_not_called_damaged(name: str) -> None:
    with unreadable(name, b"") as path, pytest.raises(PermissionError) as caught:
        arrays(path)
    assert caught.value.filename == str(path)


def test_a_file_that_is_no_archive_is_not_taken_for_a_pickle(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_text("hello")
    with pytest.raises(UserError, match=r"x\.npz: not a complete \.npz file \(no zip archive\)"):
        read_npz(tmp_path / "x.npz", ["x"])
