"""Configs, files, records, and messages about wrong ones."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pars.errors import UserError
from pars.noise import NoiseConfig, NoiseRecord, apply, corrupt_uniform, describe, transition_matrix
from pars.noise.config import AsymmetricMap, Convention, Kind
from pars.seeds import generator

TRUE = np.array([0, 1, 2, 0, 1, 2])
MATRIX = [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]]


def npy_header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00\x76\x00" + text.ljust(117).encode() + b"\n"


UNCLOSED = npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (12, ")
HUGE = npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000), }")


def test_no_noise_is_recorded_as_such() -> None:
    noisy = apply(NoiseConfig(), TRUE, 3, seed=5)
    assert (noisy.labels == TRUE).all()
    assert noisy.labels is not TRUE
    assert noisy.record == NoiseRecord(
        kind="none",
        convention=None,
        rate=0.0,
        seed=None,
        realized_rate=0.0,
        n_labeled=6,
        confusion=((2, 0, 0), (0, 2, 0), (0, 0, 2)),
        sha256=hashlib.sha256(struct.pack("<6q", *TRUE.tolist())).hexdigest(),
    )


@pytest.mark.parametrize(
    ("kind", "n_classes", "convention", "recorded"),
    [
        ("symmetric", 4, "exclusive", "exclusive"),
        ("symmetric", 4, "inclusive", "inclusive"),
        ("asymmetric", 10, "inclusive", "cifar10"),
        ("asymmetric", 100, "inclusive", "block"),
        ("pair", 4, "inclusive", None),
    ],
)
def test_the_record_says_which_convention_was_used(
    kind: Kind, n_classes: int, convention: Convention, recorded: str | None
) -> None:
    config = NoiseConfig(kind=kind, rate=0.3, convention=convention)
    record = apply(config, np.arange(200) % n_classes, n_classes, seed=11).record
    assert (record.kind, record.convention, record.rate, record.seed) == (kind, recorded, 0.3, 11)


def test_the_record_counts_true_labels_in_rows_and_given_ones_in_columns() -> None:
    record = apply(NoiseConfig(kind="file"), TRUE, 3, seed=0, file_labels=[1, 1, 2, 1, 0, -1]).record
    assert record.confusion == ((0, 2, 0), (1, 1, 0), (0, 0, 1))
    assert record.n_labeled == 5
    assert record.realized_rate == 3 / 5
    assert (record.rate, record.seed) == (None, None)


def test_a_record_without_truth_does_not_say_how_wrong_labels_are() -> None:
    record = describe(None, np.array([0, 1, -1, 2]), 3, kind="none")
    assert (record.realized_rate, record.confusion, record.n_labeled) == (None, None, 3)
    assert NoiseRecord.from_json(json.dumps(asdict(record))) == record


def test_a_record_survives_json() -> None:
    record = apply(NoiseConfig(kind="pair", rate=0.5), TRUE, 3, seed=0).record
    assert NoiseRecord.from_json(json.dumps(asdict(record))) == record
    assert asdict(record)["kind"] == "pair"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"confusion": []}', '{"confusion": 3}'])
def test_what_is_not_a_record_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="not a noise record"):
        NoiseRecord.from_json(text)


def write(path: Path, values: object) -> str:
    if path.suffix == ".npy":
        np.save(path, np.array(values))
    elif path.suffix == ".json":
        path.write_text(json.dumps(values))
    else:
        rows = values if isinstance(values, list) else []
        path.write_text("\n".join(",".join(map(str, r)) if isinstance(r, list) else str(r) for r in rows) + "\n")
    return str(path)


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".json"])
def test_a_matrix_from_a_file_is_followed(tmp_path: Path, suffix: str) -> None:
    config = NoiseConfig(kind="matrix", path=write(tmp_path / f"t{suffix}", MATRIX))
    noisy = apply(config, np.arange(30_000) % 3, 3, seed=0)
    assert np.abs(np.array(noisy.record.confusion) / 10_000 - MATRIX).max() < 0.02
    assert noisy.record.rate is None
    assert noisy.record.seed == 0


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.5], [0.5, 0.5]], r"3 classes must have shape \(3, 3\), not \(2, 2\)"),
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], r"not \(2, 3\)"),
        ([[1.0, 0.0, 0.0], [0.0, 0.9, 0.0], [0.0, 0.0, 1.0]], r"row 1 sums to 0.9"),
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-0.5, 0.5, 1.0]], r"\[2, 0\] is -0.5"),
        ([[1.0, 0.0, float("nan")], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], r"\[0, 2\] is nan"),
        ([["a", "b", "c"]] * 3, r"must contain numbers"),
    ],
)
def test_a_wrong_matrix_is_explained(tmp_path: Path, matrix: object, message: str) -> None:
    path = write(tmp_path / "t.npy", matrix)
    with pytest.raises(UserError, match=message) as error:
        apply(NoiseConfig(kind="matrix", path=path), TRUE, 3, seed=0)
    assert path in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.npy", None, "file not found"),
        ("t.pt", b"x", "must end in one of: .npy, .csv, .json"),
        ("t.npy", b"not numpy", "cannot be read as npy"),
        ("t.json", b"{", "cannot be read as json"),
        ("t.csv", b"1,0\nx,1\n", "cannot be read as csv"),
        ("t.json", b"[[1, 0], [1]]", "cannot be read as json"),
        ("t.json", b"[" * 100_000, "cannot be read as json"),
        ("t.json", b"[]", "the file is empty"),
        ("t.csv", b"", "the file is empty"),
        ("t.npy", UNCLOSED, "cannot be read as npy"),
        ("t.npy", HUGE, "cannot be read as npy"),
    ],
)
def test_an_unreadable_file_is_explained(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        apply(NoiseConfig(kind="matrix", path=str(tmp_path / name)), TRUE, 3, seed=0)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="cannot be read as npy"):
        apply(NoiseConfig(kind="file", path=str(tmp_path / "t.npy")), TRUE[:1], 3, seed=0)


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".json"])
@pytest.mark.parametrize("labels", [[0, 1, 1, 0, 0, 2], ["cat", "dog", "dog", "cat", "cat", "1"]])
def test_labels_from_a_file_become_the_given_ones(tmp_path: Path, suffix: str, labels: list[object]) -> None:
    config = NoiseConfig(kind="file", path=write(tmp_path / f"labels{suffix}", labels))
    noisy = apply(config, TRUE, 3, seed=0, classes=["cat", "dog", "owl"])
    assert noisy.labels.tolist() == ([0, 1, 1, 0, 0, 2] if labels[0] == 0 else [0, 1, 1, 0, 0, 1])


def test_file_labels_do_not_label_withheld_rows() -> None:
    noisy = apply(NoiseConfig(kind="file"), np.array([0, -1, 1]), 2, seed=0, file_labels=np.array([1, 1, 1]))
    assert noisy.labels.tolist() == [1, -1, 1]
    assert noisy.record.realized_rate == 0.5


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 2], "3 labels for 6 rows"),
        ([0, 1, 2, 0, 3, 2], "row 4 is 3; labels go from 0 to 2"),
        ([0, -2, 2, 0, 1, 2], "row 1 is -2"),
        ([0.5] * 6, "must be class numbers"),
        ([[0], [1]], "must be class numbers"),
    ],
)
def test_wrong_file_labels_are_explained(labels: list[int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        apply(NoiseConfig(kind="file"), TRUE, 3, seed=0, file_labels=labels)


def test_an_unknown_class_name_in_a_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "labels.csv", ["cat", "cow"])
    with pytest.raises(UserError, match="row 1 is 'cow'; labels must be class numbers or one of: cat, dog"):
        apply(NoiseConfig(kind="file", path=path), TRUE[:2], 2, seed=0, classes=["cat", "dog"])


@pytest.mark.parametrize(
    ("labels", "row"),
    [
        (np.array([0, 2**64 - 1], np.uint64), "row 1 is 18446744073709551615"),
        (np.array([0.0, 1e19]), "row 0 is 0.0"),
    ],
)
def test_numbers_that_are_no_class_numbers_are_named(tmp_path: Path, labels: object, row: str) -> None:
    path = write(tmp_path / "labels.npy", labels)
    with pytest.raises(UserError, match=row):
        apply(NoiseConfig(kind="file", path=str(path)), TRUE[:2], 3, seed=0)


@pytest.mark.parametrize("text", ['[0, {"a": 1}]', "[0, 123456789012345678901234567890]", "[0, null]", "[0, [1]]"])
def test_values_that_are_no_labels_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "labels.json").write_text(text)
    with pytest.raises(UserError, match=r"labels\.json: (row 1 is|cannot be read)"):
        apply(NoiseConfig(kind="file", path=str(tmp_path / "labels.json")), TRUE[:2], 3, seed=0)


@pytest.mark.filterwarnings("error")
def test_a_matrix_of_enormous_numbers_is_explained_without_a_warning(tmp_path: Path) -> None:
    path = write(tmp_path / "t.npy", np.full((3, 3), 1e308))
    with pytest.raises(UserError, match="row 0 sums to inf"):
        apply(NoiseConfig(kind="matrix", path=str(path)), TRUE, 3, seed=0)


def test_wrong_true_labels_are_named() -> None:
    with pytest.raises(UserError, match="true labels: row 2 is 7"):
        apply(NoiseConfig(), np.array([0, 1, 7]), 3, seed=0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "symmetric", "rate": 1.5}, r"noise.rate must be between 0 and 1, not 1.5"),
        ({"kind": "symmetric", "rate": -0.1}, r"not -0.1"),
        ({"kind": "pair", "rate": float("nan")}, r"not nan"),
        ({"kind": "none", "rate": 0.9}, r"noise.rate = 0.9 contradicts noise.kind = 'none'"),
        ({"kind": "file", "rate": 0.4}, r"noise.rate = 0.4 contradicts noise.kind = 'file'"),
        ({"kind": "pair", "rate": 0.4, "path": "t.npy"}, r"noise.path = 't.npy' is not used with noise.kind = 'pair'"),
        ({"kind": "matrix"}, r"needs noise.path"),
        ({"kind": "file"}, r"needs noise.path"),
        ({"kind": "asymmetric", "rate": 0.4}, r"needs 10 classes \(cifar10\) or 100 \(block\), the data has 3"),
    ],
)
def test_a_wrong_config_is_explained(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        apply(NoiseConfig(**fields), TRUE, 3, seed=0)


def test_a_rate_without_a_kind_is_symmetric_noise() -> None:
    config = NoiseConfig(rate=0.5)
    assert config == NoiseConfig(kind="symmetric", rate=0.5) == replace(NoiseConfig(), rate=0.5)
    assert not config.is_none
    true = np.arange(300) % 3
    assert_array_equal(apply(config, true, 3, seed=1).labels, corrupt_uniform(true, 3, 0.5, generator(1, "noise")))


def test_without_kind_and_rate_labels_stay_as_they_are() -> None:
    assert NoiseConfig().is_none
    assert NoiseConfig().resolved() == NoiseConfig(kind="none")
    assert apply(NoiseConfig(), TRUE, 3, seed=5).record.kind == "none"
    for config in (NoiseConfig(kind="pair", rate=0.2), NoiseConfig(kind="file", path="labels.csv")):
        assert config.resolved() == config


@pytest.mark.parametrize(("name", "n_classes"), [("cifar10", 100), ("block", 12), ("superclass", 10)])
def test_a_map_for_other_data_is_refused(name: AsymmetricMap, n_classes: int) -> None:
    with pytest.raises(UserError, match=f"'{name}' needs .* the data has {n_classes}"):
        transition_matrix("asymmetric", n_classes, 0.4, asymmetric_map=name)


def test_one_class_cannot_be_noisy() -> None:
    kinds: list[Kind] = ["symmetric", "pair", "instance"]
    for kind in kinds:
        with pytest.raises(UserError, match="at least 2 classes"):
            apply(NoiseConfig(kind=kind, rate=0.5), np.zeros(3, int), 1, seed=0, inputs=np.ones((3, 2)))


def test_file_labels_without_their_kind_are_refused() -> None:
    with pytest.raises(UserError, match=r"labels from a file were given, but noise\.kind is 'none'"):
        apply(NoiseConfig(), TRUE, 3, seed=0, file_labels=TRUE)


def test_the_other_kinds_have_no_matrix_of_their_own() -> None:
    with pytest.raises(UserError, match="no transition matrix"):
        transition_matrix("instance", 3, 0.2)
    with pytest.raises(UserError, match="not 2"):
        transition_matrix("pair", 3, 2)
