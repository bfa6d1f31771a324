"""Reading published pickles without running anything that is in them.

The CIFAR batches and the CIFAR-N label files are pickled dictionaries of numbers and numpy arrays. A pickle names the
functions that are to be called when it is read; here each name it may use stands for a small piece of our own that
only collects the array's description, and every other name is refused. Not even numpy's own unpickling is reached:
its `__setstate__` was not made for hostile input.
"""

from __future__ import annotations

import io
import math
import pickle
import re

import numpy as np
import numpy.typing as npt

from pars.errors import UserError

PLAIN_DTYPE = re.compile(r"[<>|=]?([iuf][1248]|b1)")


class Refused(Exception):
    """The pickle asks for something that no array of numbers needs."""


def read_pickled_dict(data: bytes, where: str) -> dict[str, object]:
    """The dictionary in `data`: keys as text, lists as they are, arrays as numpy arrays of plain numbers."""
    try:
        # Python 2 strings stay bytes: array contents are among them.
        content = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        if not isinstance(content, dict):
            raise Refused(f"it holds a {type(content).__name__}, expected a dictionary")
        return {_text(key): value.array if isinstance(value, _Array) else value for key, value in content.items()}
    except Refused as refused:
        raise UserError(f"{where}: refused to read: {refused}; not the published file?") from None
    except Exception as error:  # hostile or cut-off input may raise anything
        raise UserError(
            f"{where}: not a complete pickle ({type(error).__name__}: {error}); the download was cut off?"
        ) from None


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, str):
        return value
    raise Refused(f"it holds a {type(value).__name__} where text is expected")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise Refused(f"it wants to call {module}.{name}") from None

    def persistent_load(self, pid: object) -> object:
        raise Refused("it refers to storage outside itself")


class _Dtype:
    """Collects what a pickled dtype says: a code such as "i8", then a state with the byte order."""

    def __init__(self, code: object) -> None:
        text = _text(code)
        if not PLAIN_DTYPE.fullmatch(text):
            raise Refused(f"it holds an array of dtype {text[:40]!r}, expected plain numbers")
        self.dtype: np.dtype[np.generic] = np.dtype(text)

    def __setstate__(self, state: object) -> None:
        if not (isinstance(state, tuple) and len(state) >= 2 and _text(state[1]) in ("<", ">", "|", "=")):
            raise Refused("it holds a dtype that is not one of plain numbers")
        if _text(state[1]) in ("<", ">"):
            self.dtype = self.dtype.newbyteorder("<" if _text(state[1]) == "<" else ">")


class _Array:
    """Collects what a pickled array says: (version, shape, dtype, Fortran order, contents)."""

    def __init__(self) -> None:
        self.array: npt.NDArray[np.generic] = np.zeros(0)

    def __setstate__(self, state: object) -> None:
        if not (isinstance(state, tuple) and len(state) == 5):
            raise Refused("it holds an array of unknown form")
        _, shape, dtype, fortran, contents = state
        if not (isinstance(dtype, _Dtype) and isinstance(contents, bytes) and isinstance(shape, tuple)):
            raise Refused("it holds an array of something else than plain numbers")
        if not all(type(length) is int and length >= 0 for length in shape):
            raise Refused(f"it holds an array of shape {shape}")
        if math.prod(shape) * dtype.dtype.itemsize != len(contents):
            raise Refused(f"it holds an array of shape {shape} with {len(contents)} bytes of contents")
        self.array = np.frombuffer(contents, dtype.dtype).reshape(shape, order="F" if fortran else "C")


# What the names stand for are instances without attributes: nothing in a pickle can change them.
class _ArrayClass:
    __slots__ = ()


class _Reconstruct:
    __slots__ = ()

    def __call__(self, kind: object, shape: object, code: object) -> _Array:
        if kind is not ARRAY_CLASS:
            raise Refused("it holds an array of unknown kind")
        return _Array()


class _MakeDtype:
    __slots__ = ()

    def __call__(self, code: object, align: object = False, copy: object = False) -> _Dtype:
        return _Dtype(code)


class _Encode:
    """Python 3 writes bytes into an old pickle as text to be encoded."""

    __slots__ = ()

    def __call__(self, text: object, encoding: object) -> bytes:
        if not isinstance(text, str) or _text(encoding) != "latin1":
            raise Refused(f"it wants to encode something as {_text(encoding)[:40]!r}")
        return text.encode("latin1")


ARRAY_CLASS = _ArrayClass()
ALLOWED: dict[tuple[str, str], object] = {
    ("numpy", "ndarray"): ARRAY_CLASS,
    ("numpy", "dtype"): _MakeDtype(),
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct(),
    ("_codecs", "encode"): _Encode(),
}
