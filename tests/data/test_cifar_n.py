from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from pars.data import cifar10, human_labels
from pars.errors import UserError

CLEAN = np.arange(40) % 10
WORSE = np.where(np.arange(40) < 16, (CLEAN + 1) % 10, CLEAN)


@pytest.fixture
def pt_file(tmp_path: Path) -> Path:
    """As the publisher wrote his: torch.save of a dictionary of numpy arrays, and lists beside them."""
    path = tmp_path / "CIFAR-10_human.pt"
    content = {"clean_label": CLEAN, "worse_label": WORSE, "aggre_label": CLEAN.tolist(), "noise_type": "human"}
    torch.save(content, path)
    return path


def test_torch_file_is_read_without_torch(pt_file: Path) -> None:
    labels = human_labels(pt_file, "worse", true_labels=CLEAN, n_classes=10)
    np.testing.assert_array_equal(labels, WORSE)
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(human_labels(pt_file, "aggre", true_labels=CLEAN, n_classes=10), CLEAN)


def test_data_set_cut_to_its_first_rows_gets_the_first_labels(pt_file: Path) -> None:
    np.testing.assert_array_equal(human_labels(pt_file, "worse", true_labels=CLEAN[:7], n_classes=10), WORSE[:7])


def test_another_row_order_is_refused(pt_file: Path) -> None:
    other = CLEAN.copy()
    other[[3, 5]] = other[[5, 3]]
    with pytest.raises(UserError, match=r"disagree .* in 2 of 40 rows \(first: row 3, 3 against 5\); in TensorFlow"):
        human_labels(pt_file, "worse", true_labels=other, n_classes=10)


def test_labels_of_another_data_set_are_refused(pt_file: Path) -> None:
    with pytest.raises(UserError, match=r"40 labels, expected 41"):
        human_labels(pt_file, "worse", true_labels=np.append(CLEAN, 0), n_classes=10)


def test_unknown_and_absent_kinds(pt_file: Path) -> None:
    with pytest.raises(UserError, match=r"no labels called 'worst', expected one of clean, aggre"):
        human_labels(pt_file, "worst", true_labels=CLEAN, n_classes=10)
    with pytest.raises(UserError, match=r"no noisy_label; .* it has clean, aggre, worse"):
        human_labels(pt_file, "noisy", true_labels=CLEAN, n_classes=10)


def test_missing_file_says_where_it_is_published(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none.pt is missing.*github.com/UCSC-REAL"):
        human_labels(tmp_path / "none.pt", "worse", true_labels=CLEAN, n_classes=10)


def test_cut_off_file(pt_file: Path) -> None:
    pt_file.write_bytes(pt_file.read_bytes()[:-50])
    with pytest.raises(UserError, match=r"CIFAR-10_human.pt: not a torch file .*cut off"):
        human_labels(pt_file, "worse", true_labels=CLEAN, n_classes=10)


def test_damaged_compression_in_a_torch_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x/data.pkl", np.random.default_rng(0).bytes(4000))
    data = bytearray(path.read_bytes())
    data[60:2000] = bytes(1940)
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"x\.pt: not a torch file"):
        human_labels(path, "worse", true_labels=CLEAN, n_classes=10)


def test_a_number_beyond_class_numbers_does_not_become_minus_one(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.where(CLEAN == 3, 2**64 - 1, CLEAN.astype(np.uint64)))
    with pytest.raises(UserError, match="18446744073709551615, expected a class number"):
        human_labels(tmp_path / "x.npy", "", true_labels=CLEAN, n_classes=10)


def test_malicious_torch_file_runs_nothing(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(tmp_path / "made"),)

    path = tmp_path / "CIFAR-10_human.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"clean_label": Attack()}, protocol=2))
    with pytest.raises(UserError, match=r"CIFAR-10_human.pt: refused .*mkdir"):
        human_labels(path, "clean", true_labels=CLEAN, n_classes=10)
    assert not (tmp_path / "made").exists()


def test_npz_and_npy(tmp_path: Path) -> None:
    np.savez(tmp_path / "n.npz", clean_label=CLEAN, noisy_label=WORSE)
    np.save(tmp_path / "n.npy", WORSE.astype(np.int32))
    for name in ("n.npz", "n.npy"):
        np.testing.assert_array_equal(human_labels(tmp_path / name, "noisy", true_labels=CLEAN, n_classes=10), WORSE)
    with pytest.raises(UserError, match=r"n.npy: shape \[40\], expected one label per row: \[39\]"):
        human_labels(tmp_path / "n.npy", "noisy", true_labels=CLEAN[:39], n_classes=10)
    with pytest.raises(UserError, match=r"row 5 is 6, expected 0\.\.5"):
        human_labels(tmp_path / "n.npy", "noisy", true_labels=CLEAN, n_classes=6)


def test_the_publishers_tensorflow_file_is_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "CIFAR-10_human_ordered.npy"
    np.save(path, np.array({"clean_label": CLEAN}, dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match=r"without running code.*TensorFlow's order: use the .pt file"):
        human_labels(path, "worse", true_labels=CLEAN, n_classes=10)


def test_real_noise_rates_are_the_published_ones() -> None:
    root = Path(os.environ.get("PARS_DATA") or "/nonexistent")
    if not (root / "CIFAR-10_human.pt").is_file() or not (root / "cifar-10-batches-py").is_dir():
        pytest.skip("PARS_DATA names no folder with CIFAR-10_human.pt and cifar-10-batches-py: CIFAR-10N was NOT read")
    true = cifar10(root, download=False).train.labels
    for which, rate in (
        ("aggre", 0.0903),
        ("random1", 0.1723),
        ("random2", 0.1812),
        ("random3", 0.1764),
        ("worse", 0.4021),
    ):
        labels = human_labels(root / "CIFAR-10_human.pt", which, true_labels=true, n_classes=10)
        assert (labels != true).mean() == pytest.approx(rate, abs=5e-4)
