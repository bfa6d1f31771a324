"""Feature vectors from columns, against scikit-learn's own preprocessing."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from pars.data import ColumnEncoder, Columns
from pars.errors import UserError

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(1e6, 3, 200)
KINDS = RNG.choice(["x", "y", "z"], 200, p=[0.6, 0.3, 0.1])


def test_numbers_and_categories_are_those_of_scikit_learn() -> None:
    encoder = ColumnEncoder.fit({"n": NUMBERS, "k": KINDS})
    found = encoder.encode({"n": NUMBERS, "k": KINDS})
    expected = np.hstack(
        [
            StandardScaler().fit_transform(NUMBERS[:, None]),
            OneHotEncoder(sparse_output=False).fit_transform(KINDS[:, None]),
        ]
    )
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_texts_of_numbers_are_numbers() -> None:
    texts = [f" {value!r} " for value in NUMBERS.tolist()]
    one, other = ColumnEncoder.fit({"n": texts}), ColumnEncoder.fit({"n": NUMBERS})
    assert one == other
    np.testing.assert_array_equal(one.encode({"n": texts}), other.encode({"n": NUMBERS}))


def test_what_is_learned_is_learned_from_training_rows_only() -> None:
    encoder = ColumnEncoder.fit({"n": [0.0, 2.0]})  # mean 1, deviation 1
    assert encoder.encode({"n": [5.0]}).tolist() == [[4.0]]


@pytest.mark.parametrize("sign", [None, float("nan"), "", "NA", "?", "null"])
def test_missing_values_become_the_mean_and_are_flagged(sign: object) -> None:
    encoder = ColumnEncoder.fit({"n": [1, 3, sign], "k": ["a", "a", sign]})
    assert encoder.feature_names == ["n", "n is missing", "k = a", "k is missing"]
    assert encoder.encode({"n": [sign, 3], "k": [sign, "a"]}).tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]
    whole = ColumnEncoder.fit({"n": [1, 3], "k": ["a", "a"]})  # k is constant: left out
    assert whole.encode({"n": [sign]}).tolist() == [[0]]


def test_rare_and_unseen_categories_are_joined() -> None:
    kinds = ["a"] * 500 + ["b"] * 400 + ["c"] * 5 + ["d"] * 4 + ["e"]
    encoder = ColumnEncoder.fit({"k": kinds})
    assert encoder.feature_names == ["k = a", "k = b", "k = c", "k is another"]
    assert encoder.encode({"k": ["d", "never seen", "c"]}).tolist() == [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 1, 0]]
    assert ColumnEncoder.fit({"k": kinds}, most=1).feature_names == ["k = a", "k is another"]


def test_codes_may_be_called_categories() -> None:
    codes = {"zip": [10, 20, 10, 20]}
    assert ColumnEncoder.fit(codes).feature_names == ["zip"]
    assert ColumnEncoder.fit(codes, categorical=["zip"]).feature_names == ["zip = 10", "zip = 20"]
    with pytest.raises(UserError, match="no column 'post'"):
        ColumnEncoder.fit(codes, categorical=["post"])


def test_columns_that_say_nothing_are_left_out_aloud(caplog: pytest.LogCaptureFixture) -> None:
    rows = {"n": [1.0, 2.0, 3.0], "same": [7, 7, 7], "none": [None, "", None], "name": ["Ann", "Bob", "Cy"]}
    encoder = ColumnEncoder.fit(rows)
    assert encoder.feature_names == ["n"]
    assert [name for name, _ in encoder.left_out] == ["same", "none", "name"]
    assert "column 'name' is left out: 3 different texts" in caplog.text
    with pytest.raises(UserError, match=r"no column to learn from .*a text or an identifier"):
        ColumnEncoder.fit({"name": ["Ann", "Bob", "Cy"]})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("12,5", "row 3 (line 5), column 'n' is '12,5', expected a number as in 49 other rows"),
        ("1_000", "column 'n' is '1_000', expected a number"),
        ("inf", "column 'n' is 'inf', expected a finite number"),
    ],
)
def test_a_value_that_is_no_number_is_named(value: str, words: str) -> None:
    values = ["1.5", "2", "3", *[str(i) for i in range(47)]]
    columns = Columns("t.csv", {"n": [*values[:3], value, *values[3:49]]}, lines=range(2, 52))
    with pytest.raises(UserError) as error:
        ColumnEncoder.fit(columns)
    assert words in str(error.value)
    with pytest.raises(UserError, match=r"column 'n' is .* expected a finite number"):
        ColumnEncoder.fit({"n": values}).encode(columns)


def test_rows_without_a_column_of_training_are_refused() -> None:
    encoder = ColumnEncoder.fit({"a": [1, 2], "b": [1, 2]})
    assert encoder.encode({"b": [1], "more": ["x"], "a": [2]}).tolist() == [[1, -1]]
    with pytest.raises(UserError, match="no column 'b', which training rows had; found 'a'"):
        encoder.encode({"a": [1]})
    with pytest.raises(UserError, match="row 0, column 'k' holds a list"):
        ColumnEncoder.fit({"k": [["a"], ["b"]]})


def test_json_holds_all_of_it() -> None:
    rows: dict[str, Any] = {"n": NUMBERS, "ß": KINDS, "m": [None, *NUMBERS[1:]], "same": [1] * 200}
    encoder = ColumnEncoder.fit(rows)
    again = ColumnEncoder.from_json(encoder.to_json())
    assert again == encoder
    assert again.encode(rows).tobytes() == encoder.encode(rows).tobytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: c.pop("columns"),
        lambda c: c["columns"][0].update(std=0),
        lambda c: c["columns"][0].update(mean="NaN"),
        lambda c: c["columns"][0].update(kind="pickle"),
        lambda c: c["columns"][0].update(name=None),
        lambda c: c.update(left_out=3),
    ],
)
def test_damaged_json_is_refused(damage: Any) -> None:
    content = json.loads(ColumnEncoder.fit({"n": [1, 2]}).to_json())
    damage(content)
    with pytest.raises(UserError, match="is damaged"):
        ColumnEncoder.from_json(json.dumps(content))
    with pytest.raises(UserError, match="is damaged"):
        ColumnEncoder.from_json("{")


def test_a_huge_number_is_scaled_like_any_other() -> None:
    values = np.array([1.0, 2.0, 3.0, 1e300])
    encoder = ColumnEncoder.fit({"a": values.tolist()})
    block = encoder.encode({"a": values.tolist()})[:, 0]
    scaled = values / 1e300
    np.testing.assert_allclose(block, (scaled - scaled.mean()) / scaled.std(), atol=1e-6)
