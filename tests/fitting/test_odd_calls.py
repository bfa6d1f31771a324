"""Objects of the wrong kind, and arguments that do not go together: one error that says what was expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pars
from pars import RobustClassifier
from pars.errors import UserError

X = np.random.default_rng(0).normal(size=(60, 3)) + 3 * (np.arange(60)[:, None] % 2)
Y = np.arange(60) % 2
TEXTS = ["a word", "another one"] * 30
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
