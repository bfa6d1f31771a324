"""CIFAR-10N and CIFAR-100N: labels that people gave (Wei et al. 2022).

The publisher's `.pt` files are in CIFAR's own row order, his TensorFlow ones (`…_human_ordered.npy`) are not: labels in
another order look like noise of 90 %. Each file carries the clean labels too, so the order can be, and is, checked.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pars.data.arrays import read_npy, read_npz
from pars.data.class_labels import whole_numbers
from pars.data.dataset import Labels, check_labels
from pars.data.restricted_pickle import read_pickled_dict
from pars.errors import UserError

HOME = "https://github.com/UCSC-REAL/cifar-10-100n"
KEYS = {
    "clean": "clean_label",
    "aggre": "aggre_label",
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
    "worse": "worse_label",
    "noisy": "noisy_label",
}
MAX_BYTES = 1 << 28  # the published files are 1 and 2.4 MB


def human_labels(path: Path | str, which: str, *, true_labels: Labels, n_classes: int) -> Labels:
    """One label per training row from a label file: `.pt` as published, `.npz` with the same keys, or one `.npy`.

    which: aggre, random1, random2, random3, worse (CIFAR-10N); noisy (CIFAR-100N); clean. For `.npy` it is not used.
    true_labels: the data set's own, in its order; the file's clean labels have to agree with them. A data set cut to
    its first rows gets the first labels.
    """
    path = Path(path)
    labels, clean = _read(path, which)
    n = len(true_labels)
    if clean is not None:
        if len(clean) < n:
            raise UserError(f"{path}: {len(clean)} labels, expected {n}, one per training row; for another data set?")
        disagree = np.flatnonzero(clean[:n] != true_labels)
        if disagree.size:
            row = disagree[0]
            raise UserError(
                f"{path}: its clean labels disagree with the data set's in {disagree.size} of {n} rows "
                f"(first: row {row}, {clean[row]} against {true_labels[row]}); "
                "in TensorFlow's row order, or for another data set?"
            )
        labels = labels[:n]
    check_labels(labels, n, n_classes, str(path))
    return labels


def _read(path: Path, which: str) -> tuple[Labels, Labels | None]:
    if not path.is_file():
        raise UserError(f"{path} is missing, expected a label file such as CIFAR-10_human.pt from {HOME}")
    if path.suffix == ".npy":
        return _numbers(_load_npy(path), path, "array"), None
    if which not in KEYS:
        raise UserError(f"{path}: no labels called {which!r}, expected one of {', '.join(KEYS)}")
    content: Mapping[str, object] = read_npz(path, KEYS.values()) if path.suffix == ".npz" else _load_pt(path)
    missing = [key for key in (KEYS[which], KEYS["clean"]) if key not in content]
    if missing:
        there = ", ".join(name for name, key in KEYS.items() if key in content) or "none of them"
        raise UserError(f"{path}: has no {missing[0]}; of {', '.join(KEYS)} it has {there}")
    labels, clean = (_numbers(content[key], path, key) for key in (KEYS[which], KEYS["clean"]))
    if len(labels) != len(clean):
        raise UserError(f"{path}: {len(labels)} {which} labels and {len(clean)} clean ones, expected as many")
    return labels, clean


def _numbers(values: object, path: Path, key: str) -> Labels:
    if isinstance(values, list) and all(type(value) is int and abs(value) < 2**31 for value in values):
        values = np.array(values, dtype=np.int64)
    array: npt.NDArray[np.generic] = values if isinstance(values, np.ndarray) else np.zeros(())
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise UserError(
            f"{path}: {key} has shape {list(array.shape)} and dtype {array.dtype}, expected whole numbers [n]"
        )
    return whole_numbers(array, f"{path}: {key}")


def _load_pt(path: Path) -> dict[str, object]:
    """What torch.save wrote: a zip with one pickle in it. Read without torch, and without running the pickle."""
    try:
        with zipfile.ZipFile(path) as archive:
            inside = [info for info in archive.infolist() if info.filename.endswith("/data.pkl")]
            if len(inside) != 1 or inside[0].file_size > MAX_BYTES:
                raise UserError(f"{path}: not a label file saved by torch (no single data.pkl of moderate size in it)")
            data = archive.read(inside[0])
    except (UserError, PermissionError):
        raise
    except Exception as error:  # hostile or cut-off input may raise anything
        raise UserError(f"{path}: not a torch file ({error}); the download was cut off?") from None
    return read_pickled_dict(data, str(path))


def _load_npy(path: Path) -> object:
    try:
        return read_npy(path)
    except UserError:
        raise UserError(
            f"{path}: cannot be read without running code in it, or is damaged; the publisher's …_human_ordered.npy is "
            f"such a file, and in TensorFlow's order: use the .pt file from {HOME}"
        ) from None
