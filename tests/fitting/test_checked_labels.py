"""A fit with the labels of a review: corrected labels are trained on, dropped rows are not, checked rows are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pars
from pars import fitting, run
from pars.cli import main
from pars.corrections import Decision, ReviewedRows, write_corrections
from pars.data import DROPPED

N = 240
WRONG, DROP, RANDOM = range(10), (20, 21, 22), range(100, 130)


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    true = np.arange(N) % 2
    given = true.copy()
    given[list(WRONG)] = 1 - given[list(WRONG)]
    return (4.0 * true[:, None] + rng.standard_normal((N, 3))).astype(np.float32), given, true


def review(folder: Path, random: bool = True) -> Path:
    """The truth plays the reviewer."""
    _, given, true = rows()
    reviewed = ReviewedRows(("left", "right"), given, true, np.ones(N))
    decisions = [Decision(row, "relabel", int(true[row])) for row in WRONG]
    decisions += [Decision(row, "drop", -1) for row in DROP]
    decisions += [Decision(row, "keep", int(true[row])) for row in RANDOM if random]
    write_corrections(folder, reviewed, decisions, random=RANDOM)
    return folder / "labels.csv"


def names(labels: np.ndarray) -> np.ndarray:
    return np.where(labels == 0, "left", "right")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> fitting.FitResult:
    folder = tmp_path_factory.mktemp("fit")
    x, given, _ = rows()
    return pars.fit(x, names(given), checked_labels=review(folder / "review"), out=folder / "out")


def test_corrected_labels_are_those_of_the_fit(fitted: fitting.FitResult) -> None:
    _, _, true = rows()
    given = fitted.audit.given
    assert given[list(WRONG)].tolist() == true[list(WRONG)].tolist()
    assert given[list(DROP)].tolist() == [-1] * len(DROP)


def test_dropped_and_trusted_rows_are_not_trained_on(fitted: fitting.FitResult) -> None:
    assert fitted.held_out[[*DROP, *RANDOM]].all()
    others = np.delete(np.arange(N), [*DROP, *RANDOM])
    assert 0 < fitted.held_out[others].sum() < len(others) / 2


def test_trusted_rows_decide_whether_it_helped(fitted: fitting.FitResult) -> None:
    assert fitted.clean_gain is not None
    checked = {*RANDOM, *(row for row in WRONG if fitted.held_out[row])}
    assert fitted.clean_gain.rows == len(checked)


def test_checked_rows_are_not_suspect_again(fitted: fitting.FitResult) -> None:
    report, checked = fitted.audit, [*WRONG, *RANDOM]
    assert (report.label_right_prob[checked] == 1).all()
    assert not report.is_label_issue[checked].any()
    assert set(report.suspects[-len(checked) :].tolist()) == set(checked)
    assert sorted(report.rank[report.given >= 0].tolist()) == list(range(1, N - len(DROP) + 1))


def test_the_folder_says_the_same_later(fitted: fitting.FitResult) -> None:
    assert fitted.out is not None
    again = fitting.audit_fit(fitted.out)
    np.testing.assert_array_equal(again.label_right_prob, fitted.audit.label_right_prob)
    np.testing.assert_array_equal(again.rank, fitted.audit.rank)


def test_the_same_folder_with_other_checked_labels_is_refused(fitted: fitting.FitResult, tmp_path: Path) -> None:
    x, given, _ = rows()
    with pytest.raises(pars.errors.UserError, match="changed"):
        pars.fit(x, names(given), checked_labels=review(tmp_path, random=False), out=fitted.out)


def test_pars_train_takes_the_labels_of_a_review(tmp_path: Path) -> None:
    x, given, true = rows()
    np.savez(tmp_path / "mine.npz", x=x, y=given, classes=np.array(["left", "right"]))
    labels = review(tmp_path / "review")
    flags = ["--preset", "features", "--data.name", str(tmp_path / "mine.npz"), "--train.epochs", "1"]
    assert main(["train", *flags, "--labels", str(labels), "--out", str(tmp_path / "run")]) == 0
    loaded = run.load_training_data(run.open_run(tmp_path / "run")[1])
    train = loaded.data.train
    assert train.labels[list(WRONG)].tolist() == true[list(WRONG)].tolist()
    assert loaded.held_out[[*DROP, *RANDOM]].all()
    assert train.checked is not None
    assert train.checked[list(DROP)].tolist() == [DROPPED] * 3


def test_labels_of_other_rows_are_refused_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, given, _ = rows()
    table = "u,v,w,y\n" + "".join(f"{a},{b},{c},{y}\n" for (a, b, c), y in zip(x, names(1 - given), strict=True))
    (tmp_path / "t.csv").write_text(table)
    flags = ["fit", str(tmp_path / "t.csv"), "--label", "y", "--out", str(tmp_path / "out")]
    assert main([*flags, "--labels", str(review(tmp_path))]) == 2
    assert "labels of another table" in capsys.readouterr().err
