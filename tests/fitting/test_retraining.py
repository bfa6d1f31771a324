"""What a review changed: corrected labels against those before, on rows that say so fairly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pars
from pars import fitting
from pars.cli import main
from pars.corrections import Decision, ReviewedRows, write_corrections

N, TEST = 300, 400
NAMES = np.array(["left", "right"])
WRONG = np.arange(0, 160, 2)  # of class 0: a classifier learns them
DROPPED, RANDOM = (201, 203), range(220, 260)


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    true = np.arange(n) % 2
    return (1.6 * true[:, None] + rng.standard_normal((n, 3))).astype(np.float32), true


def given_labels(flipped: np.ndarray = WRONG) -> np.ndarray:
    true = rows(N, 0)[1]
    given = true.copy()
    given[flipped] = 1 - given[flipped]
    return given


def review(fit: Path, given: np.ndarray, *, random: range = RANDOM, rule: str = "truth") -> Path:
    """The review of a fit, by the truth or by someone who takes every label for the other one."""
    true = rows(N, 0)[1]
    reviewed = ReviewedRows(("left", "right"), given, 1 - given, np.full(N, 0.5))
    right = true if rule == "truth" else 1 - true
    decisions = [Decision(int(row), "relabel", int(right[row])) for row in WRONG]
    decisions += [Decision(row, "keep" if given[row] == true[row] else "accept", int(true[row])) for row in random]
    decisions += [Decision(row, "drop", -1) for row in DROPPED]
    write_corrections(fit / "review", reviewed, decisions, random=random)
    return fit / "review" / "labels.csv"


def fit(given: np.ndarray, **options: Any) -> fitting.FitResult:
    return pars.fit(rows(N, 0)[0], NAMES[given], method="logistic-regression", **options)


def with_test() -> dict[str, Any]:
    x, true = rows(TEST, 1)
    return {"test": x, "test_labels": NAMES[true]}


def accuracy(result: fitting.FitResult) -> float:
    x, true = rows(TEST, 1)
    return float((result.predict(x) == NAMES[true]).mean())


def test_test_rows_compare_the_reviewed_classifier_with_the_new_one(tmp_path: Path) -> None:
    given = given_labels()
    first = fit(given, out=tmp_path / "first")
    labels = review(tmp_path / "first", given, random=range(0))
    second = fit(given, checked_labels=labels, out=tmp_path / "second", **with_test())
    found = second.retraining
    assert found is not None
    assert found.change is not None
    assert (found.change.plain, found.change.robust) == pytest.approx((accuracy(first), accuracy(second)))
    assert (found.judged_by, found.verdict, found.change.rows) == ("test", "better", TEST)
    assert (found.corrected, found.confirmed, found.dropped) == (len(WRONG), 0, len(DROPPED))
    saved = json.loads((tmp_path / "second" / "fit.json").read_text())["retraining"]
    assert (saved["before"], saved["after"], saved["verdict"]) == (found.change.plain, found.change.robust, "better")


def test_a_careless_review_is_told_so(tmp_path: Path) -> None:
    given = given_labels(np.arange(0))
    fit(given, out=tmp_path / "first")
    labels = review(tmp_path / "first", given, random=range(0), rule="the other one")
    found = fit(given, checked_labels=labels, **with_test()).retraining
    assert found is not None
    assert found.verdict == "worse"
    assert "made the classifier worse" in str(found)


def sample_change(folder: Path, given: np.ndarray) -> fitting.Gain:
    first = fit(given, out=folder / "first")
    assert not first.held_out[list(RANDOM)].all()  # it was trained on some of them
    found = fit(given, checked_labels=review(folder / "first", given)).retraining
    assert found is not None
    assert found.judged_by == "held_out"
    assert found.change is not None
    return found.change


def test_a_blind_sample_judges_by_rows_that_neither_classifier_was_trained_on(tmp_path: Path) -> None:
    """What the sampled rows were labeled before has no influence on the accuracy before."""
    change = sample_change(tmp_path / "a", given_labels())
    spoiled = sample_change(tmp_path / "b", given_labels(np.union1d(WRONG, list(RANDOM))))
    assert change.rows == spoiled.rows == len(RANDOM)  # and no suspect that was checked
    assert change == spoiled
    assert change.robust > change.plain


def test_what_cannot_be_judged_says_what_could(tmp_path: Path) -> None:
    given = given_labels()
    fit(given, out=tmp_path / "first")
    labels = review(tmp_path / "first", given, random=range(0))
    found = fit(given, checked_labels=labels).retraining
    assert found is not None
    assert found.verdict is None
    assert "cannot be judged" in str(found)
    assert "--test FILE" in found.reason
    assert "pars review first --sample 100" in found.reason

    elsewhere = tmp_path / "mine.csv"
    elsewhere.write_bytes(labels.read_bytes())
    found = fit(given, checked_labels=elsewhere, **with_test()).retraining
    assert found is not None
    assert "not in the folder review/ of a fit" in found.reason

    found = fit(given, checked_labels=review(tmp_path / "first", given), baseline=False).retraining
    assert found is not None
    assert "--no-baseline" in found.reason


def test_a_reviewed_fit_that_is_damaged_does_not_stop_the_new_one(tmp_path: Path) -> None:
    given = given_labels()
    fit(given, out=tmp_path / "first")
    labels = review(tmp_path / "first", given)
    (tmp_path / "first" / "robust" / "classic.safetensors").write_bytes(b"no")
    found = fit(given, checked_labels=labels, **with_test()).retraining
    assert found is not None
    assert "classic.safetensors" in found.reason


def test_networks_are_trained_once_more_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says it at its end; the same command again says the same without training."""
    given, x = given_labels(), rows(N, 0)[0]
    lines = [",".join([*map(str, point), name]) for point, name in zip(x.tolist(), NAMES[given], strict=True)]
    (tmp_path / "rows.csv").write_text("u,v,w,y\n" + "\n".join(lines) + "\n")
    command = ["fit", str(tmp_path / "rows.csv"), "--label", "y", "--method", "ce"]
    assert main([*command, "--out", str(tmp_path / "first"), "--no-baseline"]) == 0
    labels = review(tmp_path / "first", given)
    command += ["--labels", str(labels), "--out", str(tmp_path / "second")]
    capsys.readouterr()
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert f"Your review: {len(WRONG)} labels corrected, {len(RANDOM)} confirmed, 2 rows dropped." in shown
    assert "accuracy before and after: " in shown
    trained = (tmp_path / "second" / "before" / "metrics.jsonl").stat().st_mtime_ns
    assert main(command) == 0
    assert capsys.readouterr().out == shown
    assert (tmp_path / "second" / "before" / "metrics.jsonl").stat().st_mtime_ns == trained
