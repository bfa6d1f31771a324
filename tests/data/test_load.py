from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
import tyro

from data.fakes import fake_mnist
from pars.data import DataConfig, data_root, digits, load, load_rows
from pars.errors import UserError


def test_default_is_digits_with_true_labels() -> None:
    data = load(DataConfig())
    assert data.name == "digits"
    np.testing.assert_array_equal(data.train.labels, data.train.true_labels)


def test_limit_keeps_the_first_rows() -> None:
    data, whole = load(DataConfig(limit=200)), digits()
    np.testing.assert_array_equal(data.train.inputs, whole.train.inputs[:200])
    np.testing.assert_array_equal(data.train.true_labels, whole.train.labels[:200])
    assert data.test is not None
    assert len(data.test) == 450


def test_limit_comes_before_the_choice_of_labels() -> None:
    data = load(DataConfig(limit=300, labeled=30), seed=5)
    assert np.bincount(data.train.labels[data.train.labels >= 0]).tolist() == [3] * 10
    assert len(data.train) == 300
    other = load(DataConfig(limit=300, labeled=30), seed=6)
    assert (data.train.labels != other.train.labels).any()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (DataConfig(limit=5000), "data.limit: 5000, expected at most 1347"),
        (DataConfig(limit=3), r"digits \(training\): class \d has no labeled rows"),
        (DataConfig(labeled=5000), "labeled: 5000, expected at most 1347"),
        (DataConfig(name="cifar11"), "'cifar11' is neither a known data set nor a path.*cifar10, cifar100"),
    ],
)
def test_what_cannot_be(config: DataConfig, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(config)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"limit": 0}, "data.limit: 0, expected at least 1"),
        ({"labeled": -5}, "data.labeled: -5"),
        ({"holdout": 1.0}, "data.holdout: 1.0"),
        ({"name": ""}, "data.name: empty"),
    ],
)
def test_configuration_is_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DataConfig(**settings)  # type: ignore[arg-type]


def test_configuration_from_toml_and_from_flags_agree() -> None:
    table = tomllib.loads('name = "cifar10"\nlabeled = 4000\nholdout = 0.1\ndownload = false')
    flags = ["--name", "cifar10", "--labeled", "4000", "--holdout", "0.1", "--no-download"]
    assert DataConfig(**table) == tyro.cli(DataConfig, args=flags)


def test_root_is_given_or_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARS_DATA", str(tmp_path))
    assert data_root() == tmp_path
    assert data_root("elsewhere") == Path("elsewhere")
    monkeypatch.delenv("PARS_DATA")
    assert data_root() == Path.home() / ".cache" / "pars"


def test_a_home_that_does_not_exist_is_named() -> None:
    for read in (lambda name: load(DataConfig(name=name)), load_rows, data_root):
        with pytest.raises(UserError, match=r"~nosuchuser/x\.npz: there is no home folder"):
            read("~nosuchuser/x.npz")


def test_root_from_the_environment_is_where_cifar_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PARS_DATA", str(tmp_path))
    with pytest.raises(UserError, match=rf"expected {tmp_path}/cifar-100-python or {tmp_path}/cifar-100-binary"):
        load(DataConfig(name="cifar100", download=False))


def test_paths_to_arrays_and_idx_folders(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(4), y=np.array([0, 1, 1, 0]))
    assert load(DataConfig(name=str(tmp_path / "a.npz"))).train.labels.tolist() == [0, 1, 1, 0]
    images = fake_mnist(tmp_path / "mnist", packed=True)["t10k-images-idx3-ubyte"]
    assert load(DataConfig(name=str(tmp_path / "mnist"))).name == "mnist"
    np.testing.assert_array_equal(load_rows(str(tmp_path / "mnist")).inputs[:, 0], images)


def test_rows_of_a_known_set() -> None:
    whole = digits()
    np.testing.assert_array_equal(load_rows("digits", split="train").inputs, whole.train.inputs)
    assert whole.test is not None
    np.testing.assert_array_equal(load_rows("digits").labels, whole.test.labels)


def test_rows_without_labels(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.eye(3))
    np.savez(tmp_path / "rows.npz", x=np.eye(3))
    for name in ("rows.npy", "rows.npz"):
        rows = load_rows(str(tmp_path / name))
        np.testing.assert_array_equal(rows.inputs, np.eye(3, dtype=np.float32))
        assert rows.labels.tolist() == [-1, -1, -1]


def test_rows_with_a_test_part(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(4), y=np.array([0, 1, 1, 0]), x_test=np.ones((1, 4)), y_test=np.array([1]))
    assert load_rows(str(tmp_path / "a.npz")).labels.tolist() == [1]
    assert load_rows(str(tmp_path / "a.npz"), split="train").labels.tolist() == [0, 1, 1, 0]


def test_named_labels_get_the_numbers_of_the_run(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(2), y=np.array(["dog", "dog"]))
    path = str(tmp_path / "a.npz")
    assert load_rows(path, classes=("cat", "dog")).labels.tolist() == [1, 1]
    assert load_rows(path).labels.tolist() == [0, 0]
    with pytest.raises(UserError, match=r"row 0 is 'dog', expected one of cat, eel"):
        load_rows(path, classes=("cat", "eel"))


def test_bad_rows_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.array([[1.0], [np.nan]]))
    with pytest.raises(UserError, match=r"rows\.npy: row 1, column 0 is nan"):
        load_rows(str(tmp_path / "rows.npy"))
    with pytest.raises(UserError, match=r"neither a known data set nor a path"):
        load_rows(str(tmp_path / "none.npz"))


def test_numbers_of_a_file_with_its_own_class_names_become_the_runs_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    rows = np.zeros((3, 2), dtype=np.float32)
    np.savez(path, x=rows, y=np.array([0, 1, -1]), classes=np.array(["dog", "cat"]))
    assert load_rows(str(path), classes=("bird", "cat", "dog")).labels.tolist() == [2, 1, -1]
