from __future__ import annotations

import os
import pickle
import pickletools
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from pars.data.restricted_pickle import read_pickled_dict
from pars.errors import UserError


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.uint8).reshape(3, 4),
        np.asfortranarray(np.arange(12, dtype=np.int64).reshape(3, 4)),
        np.arange(5, dtype=">i4"),
        np.array([1.5, -2.0], dtype=np.float32),
        np.array([True, False]),
        np.array(7, dtype=np.int16),
    ],
)
def test_arrays_come_back_as_plain_pickle_would_give_them(array: npt.NDArray[np.generic], protocol: int) -> None:
    data = pickle.dumps({b"a": array, "n": [1, 2]}, protocol=protocol)
    content = read_pickled_dict(data, "file")
    assert set(content) == {"a", "n"}
    assert content["n"] == [1, 2]
    read = content["a"]
    assert isinstance(read, np.ndarray)
    np.testing.assert_array_equal(read, pickle.loads(data)[b"a"])
    assert read.dtype.newbyteorder("=") == array.dtype.newbyteorder("=")


class Touch:
    """A pickle that makes a file when it is read by pickle itself."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_malicious_pickle_is_refused_and_does_nothing(tmp_path: Path, protocol: int) -> None:
    victim = tmp_path / "made-by-the-pickle"
    data = pickle.dumps({"labels": [1], "x": Touch(victim)}, protocol=protocol)
    with pytest.raises(UserError, match=r"data_batch_1: refused.*(posix|nt)\.mkdir"):
        read_pickled_dict(data, "data_batch_1")
    assert not victim.exists()
    pickle.loads(data)  # the attack is real: plain pickle falls for it
    assert victim.exists()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("builtins.eval", b"cbuiltins\neval\n(V1+1\ntR."),
        ("numpy.load", b"cnumpy\nload\n(V/x\ntR."),
        ("numpy.core.multiarray.scalar", b"cnumpy.core.multiarray\nscalar\n."),
        ("numpy.ndarray.__class__", b"\x80\x04\x8c\x05numpy\x8c\x11ndarray.__class__\x93."),
    ],
)
def test_other_globals_are_refused_by_name(name: str, code: bytes) -> None:
    with pytest.raises(UserError, match=name.replace(".", r"\.")):
        read_pickled_dict(code, "f")


def test_array_of_objects_is_refused() -> None:
    data = pickle.dumps({"a": np.array([{}, None], dtype=object)}, protocol=2)
    with pytest.raises(UserError, match=r"dtype 'O8?'"):
        read_pickled_dict(data, "f")


def test_array_that_claims_more_than_it_holds_is_refused() -> None:
    data = pickle.dumps({"a": np.arange(4, dtype=np.uint8)}, protocol=2)
    assert b"K\x04\x85" in data  # the shape (4,)
    forged = data.replace(b"K\x04\x85", b"K\x63\x85")
    pickletools.dis(forged, out=open(os.devnull, "w"))  # noqa: SIM115, PTH123  (still a well-formed pickle)
    with pytest.raises(UserError, match=r"shape \(99,\) with 4 bytes"):
        read_pickled_dict(forged, "f")


def test_allowed_names_cannot_be_changed_by_a_pickle() -> None:
    with pytest.raises(UserError):  # BUILD with a dictionary on what numpy.dtype stands for
        read_pickled_dict(b"cnumpy\ndtype\n}Vx\nI1\nsb.", "f")
    good = pickle.dumps({"a": np.arange(3)}, protocol=2)
    np.testing.assert_array_equal(read_pickled_dict(good, "f")["a"], [0, 1, 2])


@pytest.mark.parametrize("keep", [0, 1, 10, -1])
def test_cut_off_pickle_is_an_error_naming_the_file(keep: int) -> None:
    data = pickle.dumps({"a": list(range(100))}, protocol=2)
    with pytest.raises(UserError, match=r"my_file: not a complete pickle.*cut off"):
        read_pickled_dict(data[:keep], "my_file")


def test_something_else_than_a_dictionary_is_an_error() -> None:
    with pytest.raises(UserError, match=r"holds a list, expected a dictionary"):
        read_pickled_dict(pickle.dumps([1]), "f")
