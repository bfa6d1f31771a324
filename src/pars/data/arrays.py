"""A user's own rows: one .npz file, or a folder of .npy files.

x        rows: uint8 images [n, h, w], [n, h, w, c] or [n, c, h, w], or numbers [n, d]  (also X, features, images)
x_views  views of numbers encoded beforehand, [n, 2N, d]: N weak, then N strong ones
y        given labels [n]: class numbers or names; -1 or "" = unlabeled               (also labels)
y_true   right labels, where known                                                     (also true_labels)
x_test, y_test   rows to test on
classes  names of the classes, by number
tokens   there: x and x_test are texts as token numbers, -1 where a text has ended
checked  which labels people have checked [n]: 0 no, 1 yes, 2 yes and not trained on, 3 dropped
"""

from __future__ import annotations

import logging
import math
import os
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pars.data.class_labels import class_names, class_numbers
from pars.data.dataset import UNLABELED, Dataset, Inputs, Labels, Split, channel_statistics, check_split
from pars.errors import UserError

Array = npt.NDArray[np.generic]


def read_npy(path: Path) -> Array:
    """The array of an .npy file, as a read-only memory map."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except PermissionError:
        raise
    except Exception as error:  # a damaged header may raise anything, from SyntaxError to MemoryError
        raise UserError(_reason(error, str(path))) from None
    return _plain(array, str(path))


def read_npz(path: Path, wanted: Collection[str]) -> dict[str, Array]:
    """The arrays of an .npz file by name; empty ones for those not wanted, which may be large, or objects."""
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise zipfile.BadZipFile("no zip archive")  # numpy would take it for a pickle, and speak of that
        archive = np.load(path, allow_pickle=False)
        names = archive.files
    except PermissionError:
        raise
    except Exception as error:
        raise UserError(f"{path}: not a complete .npz file ({error}); cut off, or written by something else?") from None
    content: dict[str, Array] = {}
    with archive:
        for name in names:
            content[name] = _member(archive, name, f"{path}: {name}") if name in wanted else np.zeros(0)
    return content


def _member(archive: np.lib.npyio.NpzFile, name: str, where: str) -> Array:
    try:
        _check_size(archive, name, where)
        array = archive[name]
    except UserError:
        raise
    except Exception as error:  # encrypted, an unknown or damaged compression, a header that asks for all memory
        raise UserError(_reason(error, where)) from None
    return _plain(array, where)


def _check_size(archive: np.lib.npyio.NpzFile, name: str, where: str) -> None:
    """Refuse, before it is read, an array whose header does not fit the bytes that follow, or that memory cannot hold.

    A header of a few bytes may claim any size, and zeros compress a thousandfold.
    """
    assert archive.zip is not None
    member = name if name in archive.zip.namelist() else f"{name}.npy"
    with archive.zip.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if dtype.hasobject:
            return  # numpy refuses it
        claimed, there = math.prod(shape) * dtype.itemsize, archive.zip.getinfo(member).file_size - file.tell()
    if claimed != there:
        raise UserError(
            f"{where}: cannot be read: its header claims {list(shape)} {dtype}, {claimed} bytes, but {there} follow"
        )
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if claimed > memory:
        raise UserError(
            f"{where}: {claimed / 2**30:.1f} GiB, but this machine has {memory / 2**30:.1f} GiB of memory; a folder of "
            ".npy files is read as needed"
        )


def _plain(array: object, where: str) -> Array:
    if isinstance(array, np.ndarray):
        return array
    raise UserError(f"{where}: not an array in numpy's format; cut off, or written by something else?")


def _reason(error: Exception, where: str) -> str:
    if isinstance(error, ValueError) and ("pickle" in str(error) or "Python objects" in str(error)):
        return (
            f"{where}: holds Python objects, expected plain numbers or text; rows of unequal length, or mixed types? "
            "(numpy: x.astype(np.float32), y.astype(str))"
        )
    return f"{where}: cannot be read ({error or type(error).__name__}); cut off, or written by something else?"


log = logging.getLogger(__name__)

ALIASES = {
    "x": ("x", "X", "features", "images"),
    "x_views": ("x_views",),
    "y": ("y", "labels"),
    "y_true": ("y_true", "true_labels"),
    "x_test": ("x_test", "X_test"),
    "y_test": ("y_test",),
    "classes": ("classes",),
    "checked": ("checked",),
    "tokens": ("tokens",),
}
ROLES_TO_PREDICT = tuple(
    role for role in ALIASES if role not in ("x_views", "checked")
)  # views are for training, and large
CHANNELS = (1, 3, 4)
MOST_TOKENS = 2**24  # larger numbers are not exact as float32


def arrays(path: Path) -> Dataset:
    """The data set in an .npz file or in a folder of .npy files."""
    found = read_arrays(path)
    _require(found, ("x", "y"), path)
    if "y_test" in found and "x_test" not in found:
        raise UserError(f"{path}: y_test without x_test, expected the rows that these labels belong to")
    if "x_test" in found and "y_test" not in found:
        log.warning("%s: x_test has no y_test: nothing to test by, so its rows are not used in training", path)
        del found["x_test"]
    labels = [found[key] for key in ("y", "y_true", "y_test") if key in found]
    classes = class_names(labels, found.get("classes"), str(path))
    train = make_split(found, "x", "y", classes, path)
    test = make_split(found, "x_test", "y_test", classes, path) if "x_test" in found else None
    return checked_dataset(path, train, test, classes)


def checked_dataset(path: Path, train: Split, test: Split | None, classes: tuple[str, ...]) -> Dataset:
    """The data set of these rows, checked; `path` names it, whether or not it is written there yet."""
    check_split(train, len(classes), f"{path} (training)", training=True)
    if test is not None:
        check_split(test, len(classes), f"{path} (test)")
        _check_test_shape(test, train, path)
    mean, std = channel_statistics(train.inputs) if train.inputs.dtype == np.uint8 else ((), ())  # type: ignore[arg-type]
    return Dataset(path.stem, train, test, classes, mean, std)


def _check_test_shape(test: Split, train: Split, path: Path) -> None:
    if test.inputs.shape[1:] != train.inputs.shape[1:]:
        raise UserError(
            f"{path}: rows of x_test have shape {list(test.inputs.shape[1:])}, "
            f"expected {list(train.inputs.shape[1:])} as in x"
        )


def array_rows(path: Path, split: str, classes: tuple[str, ...] | None, *, labels: bool) -> Split:
    """Rows to predict on: x_test for "test" where there is one, else x. Labels are -1 where there are none, or where
    they are not asked for: then they need not make sense either."""
    found = read_arrays(path, ROLES_TO_PREDICT if labels else ("x", "x_test", "tokens"))
    part = "_test" if split == "test" and "x_test" in found else ""
    _require(found, ("x" + part,), path)
    given = [found[key] for key in ("y", "y_true", "y_test") if key in found]
    if classes is None:
        classes = class_names(given, found.get("classes"), str(path)) if given else ()
    elif "classes" in found and "y" + part in found:
        found["y" + part] = _names(found["y" + part], found["classes"], path)  # numbers of the file, not of the run
    rows = make_split(found, "x" + part, "y" + part, classes, path)
    check_split(rows, max(2, len(classes)), str(path))  # rows of a single class can be predicted too
    return rows


def array_table(path: Path, classes: tuple[str, ...] | None) -> tuple[Split, Split | None, tuple[str, ...]]:
    """The rows x with their labels, or with none where the file has none; rows to test on, where it has some with
    labels; and the classes, unless they are given. Names of classes come from y and y_true: y_test has no others."""
    found = read_arrays(path)
    _require(found, ("x",), path)
    given = [found[key] for key in ("y", "y_true") if key in found]
    has_test = bool(given) and classes is None and {"x_test", "y_test"} <= found.keys()
    if classes is None:
        classes = class_names(given, found.get("classes"), str(path)) if given else ()
    elif "classes" in found and "y" in found:
        found["y"] = _names(found["y"], found["classes"], path)
    rows = make_split(found, "x", "y", classes, path)
    check_split(rows, max(2, len(classes)), str(path))
    test = None
    if has_test:
        test = make_split(found, "x_test", "y_test", classes, path)
        check_split(test, max(2, len(classes)), f"{path} (test)")
        _check_test_shape(test, rows, path)
    elif ("x_test" in found) != ("y_test" in found):
        has, lacks = ("x_test", "y_test") if "x_test" in found else ("y_test", "x_test")
        log.warning("%s: %s without %s: there is nothing to test by, so it is not used", path, has, lacks)
    return rows, test, classes


def _names(labels: Array, file_classes: Array, path: Path) -> Array:
    """Labels as class names, "" = unlabeled."""
    names = class_names([labels], file_classes, str(path))
    numbers = class_numbers(labels, names, str(path))
    bad = np.flatnonzero(numbers >= len(names))
    if bad.size:
        raise UserError(f"{path}: row {bad[0]} has label {numbers[bad[0]]}, but the file names {len(names)} classes")
    return np.array([*names, ""])[numbers]


def make_split(found: Mapping[str, Array], x: str, y: str, classes: tuple[str, ...], path: Path) -> Split:
    """Rows x and labels y as the library wants them. Test labels count as true."""
    inputs: Inputs = (to_tokens if "tokens" in found else to_inputs)(found[x], f"{path}: {x}")
    cached = to_cached(found["x_views"], inputs, f"{path}: x_views") if x == "x" and "x_views" in found else None
    if y not in found:
        return Split(inputs, np.full(len(inputs), UNLABELED, dtype=np.int64), cached=cached)
    labels = class_numbers(found[y], classes, f"{path}: {y}")
    true: Labels | None = labels if y == "y_test" else None
    if y == "y" and "y_true" in found:
        true = class_numbers(found["y_true"], classes, f"{path}: y_true")
    checked = found.get("checked") if y == "y" else None
    if checked is not None and (checked.dtype != np.int8 or checked.shape != labels.shape):
        raise UserError(f"{path}: checked has dtype {checked.dtype} and shape {list(checked.shape)}, expected int8 [n]")
    return Split(inputs, labels, true, cached, checked)  # type: ignore[arg-type]


def read_arrays(path: Path, roles: Collection[str] = tuple(ALIASES)) -> dict[str, Array]:
    """The arrays found under the names of these roles, aliases resolved. Those of .npy files are memory maps."""
    wanted = [name for role in roles for name in ALIASES[role]]
    if path.is_dir():
        files = {file.stem: file for file in sorted(path.glob("*.npy")) if file.is_file()}  # a pipe would block
        content = {name: read_npy(file) if name in wanted else np.zeros(0) for name, file in files.items()}
        return _by_role(content, roles, path)
    if not path.is_file():
        raise UserError(f"{path}: no such file or folder; expected an .npz file or a folder of .npy files")
    if path.suffix == ".npy":
        return {"x": read_npy(path)}
    if path.suffix != ".npz":
        raise UserError(
            f"{path}: cannot read {path.suffix or 'a file without suffix'}, expected .npz or a folder of .npy; "
            "`pars encode` makes one of texts and images (pars train: or name the column, --data.image-column or "
            "--data.text-column)"
        )
    return _by_role(read_npz(path, wanted), roles, path)


def _by_role(content: Mapping[str, Array], roles: Collection[str], path: Path) -> dict[str, Array]:
    found = {}
    for role in roles:
        there = [name for name in ALIASES[role] if name in content]
        if len(there) > 1:
            raise UserError(f"{path}: {' and '.join(there)} mean the same, expected one of them")
        if there:
            found[role] = content[there[0]]
    if not found:
        raise UserError(f"{path}: none of x, y, … in it, found {', '.join(content) or 'nothing'}")
    return found


def _require(found: Mapping[str, Array], roles: tuple[str, ...], path: Path) -> None:
    for role in roles:
        if role not in found:
            raise UserError(
                f"{path}: no {role} in it (also called {', '.join(ALIASES[role][1:]) or 'nothing else'}), "
                f"found {', '.join(found)}"
            )


def to_tokens(array: Array, where: str) -> npt.NDArray[np.int32]:
    """Texts as token numbers [n, T], -1 where a text has ended."""
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise UserError(f"{where}: shape {list(array.shape)}, dtype {array.dtype}, expected whole numbers [n, T]")
    numbers = array.astype(np.int64)
    bad = np.argwhere((numbers < -1) | (numbers >= MOST_TOKENS))
    if bad.size:
        row, place = bad[0].tolist()
        raise UserError(f"{where}: row {row}, token {place} is {numbers[row, place]}, expected -1 to {MOST_TOKENS - 1}")
    return numbers.astype(np.int32)


def to_cached(array: Array, inputs: Inputs, where: str) -> npt.NDArray[np.float32]:
    """Views encoded beforehand, as float32; float16 halves the file."""
    if array.dtype.kind != "f" or inputs.ndim != 2:
        raise UserError(
            f"{where}: dtype {array.dtype} for rows of shape {list(inputs.shape[1:])}, expected floats [n, 2N, d]"
        )
    return np.asanyarray(array, dtype=np.float32)


def to_inputs(array: Array, where: str) -> Inputs:
    """Images to uint8 [n, C, H, W], anything two-dimensional to float32 [n, d]."""
    shape = list(array.shape)
    if array.dtype.kind not in "biuf":
        raise UserError(f"{where}: dtype {array.dtype}, expected numbers")
    if array.ndim == 2:
        if array.dtype == np.float32:
            return array  # type: ignore[return-value]
        with np.errstate(over="ignore"):
            inputs = np.array(array, dtype=np.float32)
        if array.dtype.kind == "f" and np.isinf(inputs).any():
            beyond = np.argwhere(np.isinf(inputs) & np.isfinite(array))
            if len(beyond):
                row, column = beyond[0].tolist()
                raise UserError(
                    f"{where}: row {row}, column {column} is {array[row, column]:g}, too large for float32, "
                    "expected up to 3e+38; divide the column by a power of ten"
                )
        return inputs
    if array.ndim not in (3, 4):
        raise UserError(f"{where}: shape {shape}, expected [n, d], [n, h, w], [n, h, w, c] or [n, c, h, w]")
    if array.dtype != np.uint8:
        raise UserError(
            f"{where}: images of dtype {array.dtype}, expected uint8 0..255; "
            "for values of 0..1: (x * 255).round().astype(np.uint8); for feature vectors: [n, d]"
        )
    images: npt.NDArray[np.uint8] = array  # type: ignore[assignment]
    if array.ndim == 3:
        return images[:, None]
    first, last = array.shape[1] in CHANNELS, array.shape[3] in CHANNELS
    if first == last:
        problem = "could be [n, c, h, w] or [n, h, w, c]" if first else "has no axis of 1, 3 or 4 channels"
        raise UserError(
            f"{where}: shape {shape} {problem}; expected images of more than 4 pixels a side, 1, 3 or 4 channels"
        )
    return images if first else np.moveaxis(images, 3, 1)
