from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pars.data import arrays
from pars.errors import UserError

X = np.random.default_rng(0).normal(size=(12, 5))
Y = np.arange(12) % 3


def npz(tmp_path: Path, **content: Any) -> Path:
    path = tmp_path / "mine.npz"
    np.savez(path, **content)
    return path


def test_features_and_labels(tmp_path: Path) -> None:
    data = arrays(npz(tmp_path, x=X, y=np.where(X[:, 0] > 1, -1, Y), y_true=Y, x_test=X[:4], y_test=Y[:4], other=X))
    assert data.train.inputs.dtype == np.float32
    np.testing.assert_array_equal(data.train.inputs, X.astype(np.float32))
    assert data.test is not None
    np.testing.assert_array_equal(data.test.labels, Y[:4])
    assert (data.name, data.classes, data.mean) == ("mine", ("0", "1", "2"), ())


def test_labels_are_given_ones_and_true_ones_travel_apart(tmp_path: Path) -> None:
    noisy = (Y + 1) % 3
    data = arrays(npz(tmp_path, X=X, labels=noisy, true_labels=Y))
    np.testing.assert_array_equal(data.train.labels, noisy)
    np.testing.assert_array_equal(data.train.true_labels, Y)
    assert arrays(npz(tmp_path, features=X, y=noisy)).train.true_labels is None


def test_minus_one_is_unlabeled(tmp_path: Path) -> None:
    given = Y.copy()
    given[[0, 5]] = -1
    np.testing.assert_array_equal(arrays(npz(tmp_path, x=X, y=given)).train.labels, given)


def test_minus_one_among_names_is_unlabeled_too(tmp_path: Path) -> None:
    data = arrays(npz(tmp_path, x=X[:4], y=np.array(["cat", "-1", "dog", ""])))
    assert data.classes == ("cat", "dog")
    assert data.train.labels.tolist() == [0, -1, 1, -1]


def test_rows_to_test_on_without_labels_are_left_out_and_said_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert arrays(npz(tmp_path, x=X, y=Y, x_test=X)).test is None
    assert "x_test has no y_test" in caplog.text


@pytest.mark.filterwarnings("error")
def test_a_constant_channel_does_not_divide_by_zero(tmp_path: Path) -> None:
    images = np.zeros((12, 3, 6, 6), np.uint8)
    images[:, 1] = 255
    images[::2, 2] = 255
    data = arrays(npz(tmp_path, x=images, y=Y))
    assert (data.mean, data.std) == ((0.0, 1.0, 0.5), (1.0, 1.0, 0.5))


@pytest.mark.parametrize("kind", ["U", "S"])
def test_names_become_numbers_in_sorted_order(tmp_path: Path, kind: str) -> None:
    names = np.array(["eel", "cat", "", "dog"]).astype(kind)
    data = arrays(npz(tmp_path, x=X[:4], y=names, y_true=np.array(["eel", "cat", "cat", "dog"]).astype(kind)))
    assert data.classes == ("cat", "dog", "eel")
    assert data.train.labels.tolist() == [2, 0, -1, 1]
    assert data.train.true_labels is not None
    assert data.train.true_labels.tolist() == [2, 0, 0, 1]


def test_given_class_names_decide_the_order(tmp_path: Path) -> None:
    data = arrays(npz(tmp_path, x=X[:2], y=np.array(["a", "b"]), classes=np.array(["b", "a"])))
    assert data.train.labels.tolist() == [1, 0]
    with pytest.raises(UserError, match=r"y: row 1 is 'c', expected one of b, a"):
        arrays(npz(tmp_path, x=X[:2], y=np.array(["a", "c"]), classes=np.array(["b", "a"])))


@pytest.mark.parametrize(
    ("shape", "expected"), [((9, 8, 7), (9, 1, 8, 7)), ((9, 8, 7, 3), (9, 3, 8, 7)), ((9, 3, 8, 7), (9, 3, 8, 7))]
)
def test_image_layouts(tmp_path: Path, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    images = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    data = arrays(npz(tmp_path, images=images, y=Y[:9]))
    assert data.train.inputs.shape == expected
    pixel = images[4, 5, 6] if shape[-1] in (3, 7) and shape[1] != 3 else images[4, :, 5, 6]
    np.testing.assert_array_equal(data.train.inputs[4, :, 5, 6], np.atleast_1d(pixel))
    np.testing.assert_allclose(data.mean, (data.train.inputs / 255).mean(axis=(0, 2, 3)))


def test_folder_of_npy_is_memory_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    np.save(tmp_path / "y.npy", Y)
    data = arrays(tmp_path)
    assert isinstance(data.train.inputs, np.memmap)
    np.testing.assert_array_equal(data.train.inputs, X.astype(np.float32))
    assert type(data.train.labels) is np.ndarray


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"x": np.array([[1, 2], [3]], dtype=object), "y": Y[:2]}, "x: holds Python objects, expected plain numbers"),
        ({"x": X, "y": np.array(["a", None] * 6, dtype=object)}, "y: holds Python objects"),
        ({"x": X}, r"no y in it \(also called labels\), found x"),
        ({"y": Y}, "no x in it"),
        ({"a": X}, "none of x, y, … in it, found a"),
        ({"x": X, "X": X, "y": Y}, "x and X mean the same"),
        ({"x": X, "y": Y[:11]}, r"labels: shape \[11\], expected one label per row: \[12\]"),
        ({"x": X, "y": Y, "y_test": Y}, "y_test without x_test"),
        ({"x": X, "y": Y, "x_test": X[:, :4], "y_test": Y}, r"rows of x_test have shape \[4\], expected \[5\]"),
        ({"x": np.where(np.arange(60).reshape(12, 5) == 33, np.nan, X), "y": Y}, "row 6, column 3 is nan"),
        (
            {"x": np.where(np.arange(60).reshape(12, 5) == 7, 1e300, X), "y": Y},
            r"row 1, column 2 is 1e\+300, too large",
        ),
        ({"x": X, "y": Y + 0.5}, r"row 0 is 0\.5, expected a class number"),
        ({"x": X, "y": np.where(Y == 1, np.nan, Y)}, "row 1 is nan, expected a class number; -1 for unlabeled"),
        ({"x": X, "y": np.eye(3)[Y]}, r"shape \[12, 3\], expected one label per row.*one-hot"),
        ({"x": X, "y": np.where(Y == 1, 3, Y)}, "class 1 has no labeled rows"),
        ({"x": X, "y": np.where(Y == 0, -2, Y)}, "row 0 is -2, expected"),
        ({"x": X, "y": Y + 10**12}, "identifiers instead of classes"),
        ({"x": X, "y": Y + (2**63 - 3)}, "identifiers instead of classes"),
        ({"x": np.zeros((20_400, 1)), "y": np.arange(20_400) // 2}, "10200 classes for 20400 rows"),
        ({"x": np.zeros((300, 1)), "y": np.arange(300)}, "300 classes for 300 rows.*row numbers"),
        ({"x": np.zeros((300, 1)), "y": np.arange(300).astype(str)}, "300 classes for 300 rows.*row numbers"),
        ({"x": X, "y": Y * 1e19}, r"row 1 is 1e\+19, expected a class number"),
        ({"x": X, "y": Y, "classes": np.array(["a", "", "b"])}, "classes: name 1 is '', which marks rows without"),
        ({"x": X, "y": Y, "classes": np.array(["a", "b", "-1"])}, "classes: name 2 is '-1', which marks rows"),
        ({"x": X, "y": Y.astype(np.uint64) + 2**63}, "expected a class number"),
        ({"x": X, "y": Y, "classes": np.array(["a", "b"])}, r"row 2 is 2, expected 0\.\.1"),
        ({"x": X, "y": Y, "classes": np.array(["a", "b", "a"])}, "3 names, 2 of them different"),
        ({"x": X, "y": Y, "y_true": Y.astype(str)}, "some labels are names and some are numbers"),
        ({"x": X[:0], "y": np.zeros(0, int), "classes": np.array(["a", "b"])}, "no rows"),
        ({"x": X.astype(str), "y": Y}, "x: dtype <U.*expected numbers"),
        ({"x": X[:, 0], "y": Y}, r"shape \[12\], expected \[n, d\]"),
        ({"x": np.ones((12, 4, 4)), "y": Y}, "images of dtype float64, expected uint8"),
        ({"x": np.ones((12, 3, 8, 3), np.uint8), "y": Y}, r"could be \[n, c, h, w\] or \[n, h, w, c\]"),
        ({"x": np.ones((12, 5, 8, 6), np.uint8), "y": Y}, "no axis of 1, 3 or 4 channels"),
    ],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_mistakes_are_named(tmp_path: Path, content: dict[str, Any], message: str) -> None:
    path = npz(tmp_path, **content)
    with pytest.raises(UserError, match=rf"mine\.npz.*{message}"):
        arrays(path)


def test_unused_object_arrays_do_no_harm(tmp_path: Path) -> None:
    assert len(arrays(npz(tmp_path, x=X, y=Y, notes=np.array([{}], dtype=object))).train) == 12


@pytest.mark.parametrize("keep", [0, 10, 300, -30])
def test_cut_off_npz(tmp_path: Path, keep: int) -> None:
    path = npz(tmp_path, x=X, y=Y)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"mine\.npz: not a complete \.npz file"):
        arrays(path)


def test_damaged_npz_member(tmp_path: Path) -> None:
    path = npz(tmp_path, x=X, y=Y)
    data = bytearray(path.read_bytes())
    data[250] ^= 0xFF  # inside x's numbers: the zip's own check sum notices
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"mine\.npz: x: cannot be read \(Bad CRC"):
        arrays(path)


def test_broken_npy_files(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", Y)
    path = tmp_path / "x.npy"
    np.save(path, X)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(UserError, match=r"x\.npy: cannot be read"):
        arrays(tmp_path)
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match=r"x\.npy: holds Python objects"):
        arrays(tmp_path)


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1,2\n")
    with pytest.raises(UserError, match=r"cannot read \.csv, expected \.npz"):
        arrays(tmp_path / "x.csv")
    with pytest.raises(UserError, match=r"no such file or folder"):
        arrays(tmp_path / "none.npz")
    with pytest.raises(UserError, match=r"found nothing"):
        arrays(tmp_path)
