"""Objects of the wrong kind, and arguments that do not go together: one error that says what was expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pars
from pars import RobustClassifier, audit
from pars.errors import UserError

X = np.random.default_rng(0).normal(size=(60, 3)) + 3 * (np.arange(60)[:, None] % 2)
Y = np.arange(60) % 2
TEXTS = ["a word", "another one"] * 30
DAYS = [f"2024-{1 + day // 28:02}-{1 + day % 28:02}" for day in range(60)]
FRAME = {"u": X[:, 0].tolist(), "v": X[:, 1].tolist(), "label": ["ab"[label] for label in Y]}


@pytest.mark.parametrize(
    ("rows", "labels", "options", "words"),
    [
        (X, True, {}, "labels is True, expected a column's name, or one label per row"),
        (X, 3, {}, "labels is 3, expected a column's name"),
        (X, np.array(1), {}, "expected a column's name, or one label per row"),
        (X, Y[:-1], {}, "59 labels for 60 rows"),
        (X, Y, {"method": 3}, "method is 3, expected a name of `pars methods`"),
        (X, Y, {"method": None}, "method is None, expected a name"),
        (X, Y, {"method": "logistic"}, "unknown method 'logistic'"),
        (X, Y, {"method": "wann", "network": "lite0"}, "network is 'lite0', but wann has no network"),
        (FRAME, "label", {"network": "lite0"}, "network is 'lite0', which trains on images"),
        (TEXTS, Y, {"network": {"name": "lite0"}, "encoder": "tfidf"}, "which trains on images, but rows has none"),
        (X, Y, {"test": X}, "the test rows have no labels, expected test_labels"),
        (FRAME, "label", {"test": {"u": [1, 2], "label": ["a", "b"]}}, "no column 'v'"),
        (X, Y, {"device": "tpu"}, "device is 'tpu', expected one of"),
        (X, Y, {"wat": 3}, "so wat = 3 means nothing"),
        (["a b", None] * 30, Y, {}, "row 1 is None, expected a text"),
        (X, Y, {"out": 3}, "out is 3, expected the path of a file or folder"),
        (X, Y, {"out": True}, "out is True, expected the path"),
        (X, Y, {"out": b"fit"}, "out is b'fit', expected the path"),
        (X, Y, {"out": "a\0b"}, "out is 'a\\x00b', which holds a NUL character"),
        (X, Y, {"out": ""}, "a path is empty"),
        (X, Y, {"checked_labels": 3}, "checked_labels is 3, expected the path"),
        (X, Y, {"encoded_views": "3"}, "encoded_views is '3', expected a whole number"),
        (X, Y, {"seed": "x"}, "seed is 'x', expected a whole number"),
        (iter(X), Y, {}, "rows: of type iterator, expected a path, a frame, an array or a list"),
        (None, Y, {}, "rows: of type NoneType, expected a path"),
        (X * 1e200, Y, {}, "too large for float32"),
        (FRAME, "label", {"true": "u"}, "is the given label of no row (60 such rows); is it another column?"),
        (FRAME, "lable", {}, "no column 'lable', expected one of 'u', 'v', 'label'"),
        ({**FRAME, "v": DAYS, "u": DAYS}, "label", {}, "60 different dates or times, none of them in 2 rows"),
    ],
)
def test_an_odd_call_of_fit_is_refused_and_writes_nothing(
    rows: Any, labels: Any, options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as found:
        pars.fit(rows, labels, **{"out": tmp_path / "fit", **options})
    assert words in str(found.value)
    assert not list(tmp_path.iterdir())


def test_a_test_table_is_read_by_the_columns_of_the_training_table() -> None:
    """Of two rows, a column may look like row numbers."""
    test = {"u": [1, 2], "v": [0.0, 3.0], "label": ["a", "b"]}
    result = pars.fit(FRAME, "label", test=test, method="logistic-regression", baseline=False)
    assert len(result.predict({"u": [1, 2], "v": [0.0, 3.0]})) == 2


@pytest.mark.parametrize("method", [3, None, ["pars"]])
def test_an_estimator_of_an_odd_method_names_it(method: Any) -> None:
    with pytest.raises(UserError, match="expected a name of `pars methods`"):
        RobustClassifier(method, random_state=0).fit(X, Y)


@pytest.mark.parametrize("seed", [-1, 2**70])
def test_any_whole_number_is_a_seed(seed: int) -> None:
    result = pars.fit(X, Y, method="logistic-regression", baseline=False, seed=seed)
    assert result.predict(X).tolist() == [str(label) for label in Y]


def test_texts_instead_of_rows_of_numbers_are_named() -> None:
    with pytest.raises(UserError, match=r"X is one text, 'abc', expected a list of them"):
        RobustClassifier("wann", random_state=0).fit("abc", Y)


@pytest.mark.parametrize("share", ["0.1", None, float("nan")])
def test_a_share_to_flip_that_is_none_is_named(share: Any) -> None:
    with pytest.raises(UserError, match=f"the share to flip is {share!r}, expected a number"):
        pars.selftest(X, Y, flip=share)


def test_a_folder_in_the_home_folder_is_written_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    seed: Any = np.int64(3)
    result = pars.fit(X, Y, out="~/fit", method="logistic-regression", baseline=False, seed=seed)
    assert result.out == tmp_path / "home" / "fit"
    assert (tmp_path / "home" / "fit" / "job.json").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("kind", ["datetime64[ns]", "period[D]", "object"])
def test_dates_in_a_frame_are_left_out_with_a_reason(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    pandas = pytest.importorskip("pandas")
    days = pandas.Series(pandas.to_datetime(DAYS))
    column = days.dt.date if kind == "object" else days.dt.to_period("D") if kind == "period[D]" else days
    frame = pandas.DataFrame({"u": X[:, 0], "day": column})
    model = RobustClassifier("logistic-regression", random_state=0).fit(frame, Y)
    assert "column 'day' is left out: 60 different dates or times" in caplog.text
    assert model.predict(frame.drop(columns="day").assign(day="2030-01-01")).shape == (60,)


def test_odd_arguments_of_an_audit_are_named() -> None:
    report = audit.score(np.eye(2)[Y] * 0.8 + 0.1, Y)
    with pytest.raises(UserError, match="review of '3' rows, expected 0 or more"):
        report.review("3")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="some above 1e\\+100"):
        audit.from_features(X * 1e200, Y)
    with pytest.raises(UserError, match="cannot review a int, expected a folder, a fit or an audit report"):
        pars.review(3)
    assert "the probabilities predict these labels no better" in audit.score(np.full((60, 2), 0.5), Y).headline
