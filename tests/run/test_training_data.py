"""From a configuration to rows: noise, withheld labels, held-out rows, and what a run folder says about them."""

from __future__ import annotations

import csv
import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pars import data, noise
from pars.augment import ViewsConfig
from pars.data import DataConfig, Dataset, Split
from pars.engine import RunFolder
from pars.errors import UserError
from pars.noise import NoiseConfig, NoiseRecord
from pars.run import RunConfig, load_training_data, preset
from pars.run.training_data import first_files
from run.helpers import SYMMETRIC, features, snapshot, tiny, write_npz

NONE = NoiseConfig()


def test_the_given_labels_are_corrupted_and_the_true_ones_travel_apart() -> None:
    clean = data.load(DataConfig(limit=200)).train.labels
    train = load_training_data(tiny()).data.train
    assert train.true_labels is not None
    np.testing.assert_array_equal(train.true_labels, clean)
    wrong = (train.labels != clean).mean()
    assert 0.35 < wrong < 0.55  # half of the labels drawn again, a tenth of those right by chance
    assert load_training_data(tiny()).noise.realized_rate == wrong


def test_noise_is_a_function_of_the_seed_and_of_its_own_seed_where_it_has_one() -> None:
    def labels(seed: int, own: int | None = None) -> list[int]:
        given = load_training_data(tiny(seed=seed, noise=replace(SYMMETRIC, seed=own))).data.train.labels
        return [int(label) for label in given]

    assert labels(0) == labels(0) != labels(1)
    assert labels(0, own=5) == labels(1, own=5) == labels(5)


def test_test_rows_are_never_corrupted() -> None:
    plain = data.load(DataConfig(limit=200)).test
    prepared = load_training_data(tiny()).data.test
    assert plain is not None
    assert prepared is not None
    np.testing.assert_array_equal(prepared.labels, plain.labels)


def test_labels_are_withheld_before_they_are_corrupted() -> None:
    """The few that are kept are balanced in their true classes, not in the given ones."""
    train = load_training_data(tiny(data=DataConfig(limit=400, labeled=100))).data.train
    kept = train.labels >= 0
    assert train.true_labels is not None
    assert kept.sum() == 100
    assert np.bincount(train.true_labels[kept], minlength=10).tolist() == [10] * 10
    assert np.bincount(train.labels[kept], minlength=10).tolist() != [10] * 10
    assert 0.3 < (train.labels != train.true_labels)[kept].mean() < 0.6
    assert (train.true_labels >= 0).all()  # metrics may look at all of them
    record = load_training_data(tiny(data=DataConfig(limit=400, labeled=100))).noise
    assert record.n_labeled == 100


def test_held_out_rows_are_labeled_ones_by_their_given_labels() -> None:
    prepared = load_training_data(tiny(data=DataConfig(limit=400, labeled=200, holdout=0.2)))
    given = prepared.data.train.labels
    assert prepared.held_out.shape == (400,)
    assert prepared.held_out.sum() == 40
    assert (given[prepared.held_out] >= 0).all()
    shares = np.bincount(given[prepared.held_out], minlength=10) / np.bincount(given[given >= 0], minlength=10)
    assert np.allclose(shares, 0.2, atol=0.06)
    assert not load_training_data(tiny()).held_out.any()


def write_human_labels(path: Path) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """A file in the format of CIFAR-10N, for all training digits."""
    clean = data.load(DataConfig()).train.labels
    rng = np.random.default_rng(0)
    worse = np.where(rng.random(len(clean)) < 0.4, rng.integers(10, size=len(clean)), clean)
    arrays = {"clean_label": clean, "worse_label": worse, "random_label1": clean.copy()}
    torch.save(arrays, path)
    return arrays


def test_human_labels_come_from_a_torch_file(tmp_path: Path) -> None:
    arrays = write_human_labels(tmp_path / "digits_human.pt")
    config = tiny(noise=NoiseConfig(kind="file", path=str(tmp_path / "digits_human.pt"), labels="worse"))
    prepared = load_training_data(config)
    np.testing.assert_array_equal(prepared.data.train.labels, arrays["worse_label"][:200])
    wrong = (arrays["worse_label"] != arrays["clean_label"])[:200].mean()
    assert (prepared.noise.kind, prepared.noise.seed, prepared.noise.realized_rate) == ("file", None, wrong)
    right = replace(config, noise=replace(config.noise, labels="random1"))
    assert load_training_data(right).noise.realized_rate == 0


def test_human_labels_are_found_beside_the_data(tmp_path: Path) -> None:
    write_human_labels(tmp_path / "digits_human.pt")
    config = tiny(
        data=DataConfig(limit=200, root=str(tmp_path)), noise=NoiseConfig(kind="file", path="digits_human.pt")
    )
    rate = load_training_data(config).noise.realized_rate
    assert rate is not None
    assert rate > 0.2


def test_human_labels_with_few_labels_kept(tmp_path: Path) -> None:
    arrays = write_human_labels(tmp_path / "x.pt")
    config = tiny(data=DataConfig(limit=200, labeled=100), noise=NoiseConfig(kind="file", path=str(tmp_path / "x.pt")))
    train = load_training_data(config).data.train
    kept = train.labels >= 0
    assert kept.sum() == 100
    np.testing.assert_array_equal(train.labels[kept], arrays["worse_label"][:200][kept])


def test_human_labels_of_other_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "shuffled.pt"
    arrays = write_human_labels(path)
    torch.save({name: labels[::-1].copy() for name, labels in arrays.items()}, path)
    with pytest.raises(UserError, match=r"shuffled.pt: its clean labels disagree with the data set's"):
        load_training_data(tiny(noise=NoiseConfig(kind="file", path=str(path))))


def test_labels_that_come_wrong_are_described_not_corrupted() -> None:
    dataset = features(wrong=0.5)
    prepared = load_training_data(tiny(noise=NONE), dataset)
    np.testing.assert_array_equal(prepared.data.train.labels, dataset.train.labels)
    np.testing.assert_array_equal(prepared.data.train.true_labels, dataset.train.true_labels)
    assert prepared.noise.realized_rate == (dataset.train.labels != dataset.train.true_labels).mean() > 0.2


def test_labels_of_unknown_quality_have_no_truth() -> None:
    prepared = load_training_data(tiny(noise=NONE), features(wrong=0.5, truth=False))
    assert prepared.data.train.true_labels is None
    assert prepared.noise.realized_rate is None


def test_noise_on_labels_of_unknown_quality_takes_them_for_the_truth() -> None:
    dataset = features(truth=False)
    prepared = load_training_data(tiny(), dataset)
    np.testing.assert_array_equal(prepared.data.train.true_labels, dataset.train.labels)
    assert prepared.noise.realized_rate == (prepared.data.train.labels != dataset.train.labels).mean()


def test_noise_on_labels_that_are_wrong_already_is_measured_against_the_truth() -> None:
    dataset = features(300, wrong=0.5)
    prepared = load_training_data(tiny(), dataset)
    train = prepared.data.train
    np.testing.assert_array_equal(train.true_labels, dataset.train.true_labels)
    assert (prepared.noise.kind, prepared.noise.rate, prepared.noise.seed) == ("symmetric", 0.5, 0)
    assert prepared.noise.realized_rate == (train.labels != dataset.train.true_labels).mean()
    assert prepared.noise.sha256 == noise.record.labels_sha256(train.labels)


def test_features_are_standardized_by_the_training_rows() -> None:
    dataset = features()
    prepared = load_training_data(tiny(noise=NONE), dataset).data
    columns = dataset.train.inputs.astype(np.float64)
    np.testing.assert_allclose(prepared.train.inputs.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(prepared.train.inputs.std(axis=0), 1, atol=1e-5)
    assert dataset.test is not None
    assert prepared.test is not None
    expected = (dataset.test.inputs - columns.mean(axis=0)) / columns.std(axis=0)
    np.testing.assert_allclose(prepared.test.inputs, expected, rtol=1e-4, atol=1e-4)


def test_rows_to_mix_with_are_standardized_too() -> None:
    config = tiny(noise=NONE, views=ViewsConfig(mix=0.5))
    strong = load_training_data(config, features()).views.strong
    bank = getattr(strong, "bank", None)
    assert bank is not None
    assert np.abs(np.asarray(bank)).max() < 10


def test_a_missing_value_is_named_by_its_own_row() -> None:
    """Not by row 0: standardizing would spread it over its column."""
    dataset = features()
    inputs = dataset.train.inputs.copy()
    inputs[17, 2] = np.nan
    broken = replace(dataset, train=replace(dataset.train, inputs=inputs))
    with pytest.raises(UserError, match=r"clouds \(training\): row 17, column 2 is nan"):
        load_training_data(tiny(noise=NONE), broken)


def with_test(**changes: Any) -> Dataset:
    dataset = features()
    assert dataset.test is not None
    return replace(dataset, test=replace(dataset.test, **changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"inputs": np.full((30, 4), np.nan, np.float32)}, r"clouds \(test\): row 0, column 0 is nan"),
        ({"inputs": np.zeros((30, 5), np.float32)}, r"clouds \(test\): rows have shape \[5\], those to train on \[4\]"),
        ({"inputs": np.zeros((30, 4))}, r"clouds \(test\): .*dtype float64, expected float32"),
        ({"labels": np.full(30, 3)}, r"clouds \(test\): labels: row 0 is 3, expected 0..2"),
        ({"labels": np.zeros(29, np.int64)}, r"clouds \(test\): labels: shape \[29\], expected one label per row"),
    ],
)
def test_a_test_set_given_from_python_is_checked(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_training_data(tiny(noise=NONE), with_test(**changes))


def test_the_preset_for_features_asks_for_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"preset features needs --data.name FILE.npz"):
        load_training_data(preset("features")(NONE))
    write_npz(tmp_path / "features.npz", features())  # by chance of that name: it is taken
    assert len(load_training_data(preset("features")(NONE)).data.train) == 60


def test_a_class_that_noise_leaves_empty_is_named() -> None:
    lonely = Split(np.zeros((5, 2), np.float32), np.array([0, 0, 0, 1, 2]), None)
    dataset = Dataset("few", lonely, None, ("a", "b", "c"))
    with pytest.raises(UserError, match=r"few \(training\): class \d has no labeled rows"):
        load_training_data(
            tiny(noise=NoiseConfig(kind="pair", rate=1.0), seed=0), Dataset("few", lonely, None, (*"abcd",))
        )
    assert load_training_data(tiny(noise=NoiseConfig(kind="pair", rate=1.0)), dataset).data.train.labels.tolist() == [
        1,
        1,
        1,
        2,
        0,
    ]


def test_a_test_set_without_labels_is_no_test_set() -> None:
    dataset = features()
    assert dataset.test is not None
    unlabeled = replace(dataset, test=replace(dataset.test, labels=np.full(30, -1)))
    assert load_training_data(tiny(noise=NONE), unlabeled).data.test is None


def begin(path: Path, config: RunConfig, dataset: Dataset | None = None) -> None:
    """Write what a run writes before it trains."""
    folder = RunFolder(path)
    given = {"dataset": dataset is not None, "networks": False}
    with folder.begin(first_files(folder, config, load_training_data(config, dataset), given, 1)):
        pass


def test_the_folder_says_what_was_done_to_the_labels(tmp_path: Path) -> None:
    config = tiny(data=DataConfig(limit=200, labeled=100))
    prepared = load_training_data(config)
    begin(tmp_path, config)
    assert NoiseRecord.from_json((tmp_path / "noise.json").read_text()) == prepared.noise
    with (tmp_path / "labels.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = (*prepared.data.classes, "")
    assert prepared.data.train.true_labels is not None
    assert [row["row"] for row in rows] == [str(i) for i in range(200)]
    assert [row["given"] for row in rows] == [names[label] for label in prepared.data.train.labels]
    assert [row["true"] for row in rows] == [names[label] for label in prepared.data.train.true_labels]


def test_without_truth_the_folder_claims_none(tmp_path: Path) -> None:
    config = tiny(noise=NONE)
    dataset = replace(features(truth=False), classes=('a "b"', "c,d", "é"))
    begin(tmp_path, config, dataset)
    with (tmp_path / "labels.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == {"row", "given"}
    assert {row["given"] for row in rows} == set(dataset.classes)
    assert json.loads((tmp_path / "noise.json").read_text())["kind"] == "none"


class FailingWrites:
    """The n-th file written by a run fails."""

    def __init__(self, n: int, error: BaseException) -> None:
        self.left, self.error = n, error

    def __call__(self, path: Path, text: str) -> None:
        self.left -= 1
        if not self.left:
            raise self.error
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "disk"), KeyboardInterrupt()], ids=repr)
def test_a_run_that_cannot_be_begun_leaves_nothing(
    n: int, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    before = snapshot(tmp_path)
    monkeypatch.setattr("pars.engine.folder.write_text", FailingWrites(n, error))
    words = "could not be begun, nothing was written: .*disk" if isinstance(error, OSError) else None
    with pytest.raises(UserError if words else KeyboardInterrupt, match=words):
        begin(tmp_path / "new" / "deep" / "run", tiny())
    assert snapshot(tmp_path) == before
