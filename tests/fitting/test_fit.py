"""`pars.fit` from Python: rows of every kind, in memory or in a folder, with one result."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from run.helpers import snapshot
from sklearn.datasets import load_iris

import pars
from pars.engine import Trainer
from pars.errors import EncoderChosenWarning, UserError
from pars.fitting import load_predictor

NAMES = np.array(["setosa", "versicolor", "virginica"])
COLUMNS = ("a", "b", "c", "d")


def irises() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Features, given labels of which a fifth are wrong, and right labels."""
    x, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    given = np.where(rng.random(len(y)) < 0.2, (y + rng.integers(1, 3, len(y))) % 3, y)
    return x.astype(np.float32), NAMES[given], NAMES[y]


def write_csv(path: Path) -> Path:
    x, given, true = irises()
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS, "label", "true"])
        writer.writerows([*row, a, b] for row, a, b in zip(x.tolist(), given, true, strict=True))
    return path


@pytest.fixture(scope="module")
def in_memory() -> pars.fitting.FitResult:
    x, given, _ = irises()
    return pars.fit(x, given)


def test_the_flagged_labels_are_the_wrong_ones_and_predictions_are_right(in_memory: Any) -> None:
    x, given, true = irises()
    wrong = given != true
    assert in_memory.audit.is_label_issue[wrong].mean() > 0.7  # of 27 rows
    assert in_memory.audit.is_label_issue[~wrong].mean() < 0.1
    assert (in_memory.predict(x) == true).mean() > 0.85
    assert_array_equal(in_memory.predict_proba(x).argmax(axis=1), in_memory.predictions)
    assert in_memory.out is None


def test_nothing_is_written_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x, given, _ = irises()
    pars.fit(x, given, method="ce")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_changes_nothing_but_that_it_can_be_resumed(in_memory: Any, tmp_path: Path) -> None:
    x, given, _ = irises()
    stored = pars.fit(x, given, out=tmp_path / "out")
    assert_array_equal(stored.predict_proba(x), in_memory.predict_proba(x))
    assert_array_equal(stored.audit.label_right_prob, in_memory.audit.label_right_prob)
    before = snapshot(tmp_path)
    again = pars.fit(x, given, out=tmp_path / "out")
    assert snapshot(tmp_path) == before
    assert again.summary() == stored.summary()
    assert_array_equal(again.audit.label_right_prob, stored.audit.label_right_prob)
    assert_array_equal(load_predictor(tmp_path / "out").predict_proba(x), stored.predict_proba(x))


def test_a_folder_whose_rows_are_gone_is_not_taken_for_another_table(tmp_path: Path) -> None:
    x, given, _ = irises()
    pars.fit(x, given, method="ce", out=tmp_path / "out")
    (tmp_path / "out" / "rows.npz").unlink()
    with pytest.raises(UserError, match="has changed since"):
        pars.fit(x[::-1], given[::-1], method="ce", out=tmp_path / "out")


def test_one_trainer_is_built_for_each_training_and_rows_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Any] = []
    reads: list[Any] = []
    initialize, load = Trainer.__init__, np.load

    def counted_init(self: Trainer, **given: Any) -> None:
        built.append(given)
        initialize(self, **given)

    def counted_load(*given: Any, **options: Any) -> Any:
        reads.append(given)
        return load(*given, **options)

    monkeypatch.setattr(Trainer, "__init__", counted_init)
    monkeypatch.setattr(np, "load", counted_load)
    table = write_csv(tmp_path / "irises.csv")
    pars.fit(table, "label", method="ce", features=list(COLUMNS), out=tmp_path / "out")
    assert len(built) == 4  # two trials of networks; plain training twice: as the method, and to compare with
    assert not reads
    assert (tmp_path / "out" / "rows.npz").exists()


def test_a_frame_a_file_and_arrays_are_the_same_rows(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    x, given, _ = irises()
    frame = pd.DataFrame(x, columns=COLUMNS).assign(label=given)
    file = write_csv(tmp_path / "irises.csv")
    results = [
        pars.fit(frame, "label", method="ce"),
        pars.fit(file, "label", method="ce", features=list(COLUMNS)),
        pars.fit(frame[list(COLUMNS)], given, method="ce"),
    ]
    for result in results[1:]:
        assert_array_equal(result.predictions, results[0].predictions)
    assert_array_equal(results[0].predict(frame), results[1].predict(frame[list(COLUMNS)]))
    tensors = pars.fit(torch.from_numpy(x), torch.from_numpy(np.searchsorted(NAMES, given)), method="ce")
    assert tensors.classes == ("0", "1", "2")


def test_texts_are_read_by_an_encoder_that_is_named_in_a_warning() -> None:
    texts = ["my card is lost", "card payment failed", "the parcel is late", "no parcel came"] * 10
    with pytest.warns(EncoderChosenWarning, match="TF-IDF"):
        result = pars.fit(texts, ["card", "card", "post", "post"] * 10, method="ce")
    assert result.predict(["a new card", "where is the parcel"]).tolist() == ["card", "post"]


def test_right_labels_of_further_rows_decide() -> None:
    x, given, true = irises()
    result = pars.fit(x[::2], given[::2], method="ce", test=x[1::2], test_labels=true[1::2])
    assert result.clean_gain is not None
    assert result.clean_gain.rows == 75
    assert result.verdict == result.clean_gain.verdict
    expected = float((result.predict(x[1::2]) == true[1::2]).mean())
    assert result.clean_gain.robust == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (np.zeros((4, 2)), ["a", "b", "a"], "3 labels for 4 rows"),
        (np.zeros((4, 2)), None, "rows has no labels"),
        (np.zeros((4, 2)), ["a"] * 4, "labels of one class, 'a'"),
        (np.zeros((4, 2)), ["a", None, "b", "a"], "row 1, column 'labels' is empty"),
        (["a", "b", 3, "c"], ["x", "y", "x", "y"], "rows: row 2 is '3'"),
        (np.full((4, 2), np.nan), ["a", "b", "a", "b"], "row 0"),
        ("missing.csv", "label", "missing.csv does not exist"),
    ],
    ids=["too few labels", "no labels", "one class", "a missing label", "a number among texts", "NaN", "no file"],
)
def test_a_mistake_is_named(rows: Any, labels: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        pars.fit(rows, labels, out=tmp_path / "out")
    assert not (tmp_path / "out" / "robust").exists()


def test_the_result_says_it_in_words(in_memory: Any) -> None:
    lines = str(in_memory).splitlines()
    assert lines[0].startswith("Estimated noise rate: ")
    assert any("of plain training at the same cost" in line for line in lines)
    assert {"helped", "hurt", "inconclusive"} >= {in_memory.verdict}


def test_flipped_labels_are_found() -> None:
    x, _, true = irises()
    found = pars.selftest(x, true, flip=0.2, method="ce")
    assert found.flipped == 30
    assert found.recall > 0.8
    assert found.restored > 0.8
    assert "30 labels were flipped" in str(found)
