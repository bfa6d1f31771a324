"""The rules behind the defaults."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pars import run
from pars.autoconfig import rules
from pars.losses import parse
from pars.methods import PARS, by_name


def class_rows(n: int = 1000, k: int = 10, smallest: int | None = None) -> list[int]:
    first = n // k if smallest is None else smallest
    return [first, *np.diff(np.linspace(first, n, k).astype(int)).tolist()]


def train(n: int, k: int = 10, shape: tuple[int, ...] = (64,)) -> dict[str, int]:
    return rules.settings(shape, class_rows(n, k))["train"]


def holdout(n: int, smallest: int | None = None) -> float:
    return float(rules.settings((64,), class_rows(n, smallest=smallest))["data"]["holdout"])


shapes = st.one_of(
    st.integers(1, 5000).map(lambda d: (d,)), st.tuples(st.sampled_from([1, 3]), st.integers(1, 64), st.integers(1, 64))
)


@given(n=st.integers(2, 10**6), k=st.integers(2, 1000), shape=shapes)
def test_whatever_the_data_the_settings_are_a_configuration(n: int, k: int, shape: tuple[int, ...]) -> None:
    base = run.RunConfig(method=by_name("pars", rules.candidates(shape, k)[-1].setting))
    config = run.overlay(base, rules.settings(shape, class_rows(n, k)))
    assert 16 <= config.train.batch_size <= 128
    assert (20 if n <= rules.MANY else rules.FEWEST_PASSES) <= config.train.epochs <= 200
    assert 0 <= config.views.dropout_weak <= config.views.dropout_strong <= 0.5
    parse(config.method.robust)  # type: ignore[attr-defined]


@given(n=st.integers(2, 10**6))
def test_what_is_held_out_can_tell_stages_apart_and_leaves_most_rows(n: int) -> None:
    held = holdout(n)
    assert held == 0 or held * n >= 99.9
    assert held <= 0.2


def test_a_few_hundred_rows_are_all_trained_on() -> None:
    assert holdout(499) == 0
    assert holdout(500) == 0.2
    assert holdout(5000, smallest=4) == 0


def test_few_rows_take_few_steps() -> None:
    for n, most in ((20, 80), (100, 200), (1_000, 1_100), (10_000, 1_700)):
        found = train(n)
        assert found["epochs"] * math.ceil(n / found["batch_size"]) <= most


def test_a_batch_is_about_a_tenth_of_the_rows() -> None:
    assert [train(n, k=2)["batch_size"] for n in (2, 150, 500, 1500, 50_000)] == [16, 16, 64, 128, 128]


def test_images_take_at_least_40_passes() -> None:
    assert train(10_000, shape=(3, 32, 32))["epochs"] == 40


def test_beyond_60_000_rows_there_are_fewer_passes_but_not_fewer_than_5() -> None:
    assert [train(n)["epochs"] for n in (10_000, 60_000, 120_000, 240_000, 1_000_000)] == [20, 20, 10, 5, 5]
    assert [train(n, shape=(3, 32, 32))["epochs"] for n in (60_000, 120_000, 10**6)] == [40, 20, 5]


def test_a_tenth_is_held_out_and_at_least_a_hundred_rows() -> None:
    found = [rules.settings((4,), (n, n))["data"]["holdout"] for n in (200, 250, 5_000)]
    assert found == [0.0, 0.2, 0.1]


def test_labels_more_uneven_than_noise_can_make_them_are_the_prior_of_pars() -> None:
    found = [rules.settings((9,), rows)["method"] for rows in ((60, 140), (50, 140))]
    assert found == [{"prior": "uniform"}, {"prior": "labels"}]
    assert rules.settings((9,), (50, 140), "elr")["method"] == {}


def test_the_settings_that_were_tuned_for_ten_thousand_embeddings_are_met() -> None:
    config = run.overlay(run.RunConfig(), rules.settings((1280,), class_rows(10_000)))
    tuned = run.preset("features")(run.RunConfig().noise)
    assert (config.train.epochs, config.train.batch_size) == (tuned.train.epochs, tuned.train.batch_size)
    assert config.model == replace(tuned.model, matmul="onednn")  # equal up to rounding
    assert config.views.dropout_strong == pytest.approx(tuned.views.dropout_strong, abs=0.03)


def test_a_single_feature_is_blurred_rather_than_dropped() -> None:
    views = rules.settings((1,), class_rows())["views"]
    assert views["dropout_strong"] < 0.05
    assert views["noise"] > 0.2


@given(k=st.integers(2, 1000))
def test_every_class_has_a_gradient_at_the_start_with_the_loss_that_always_learns(k: int) -> None:
    q = float(str(rules.candidates((64,), k)[-1].setting.robust).removeprefix("gce(q=").removesuffix(")"))
    assert (1 / k) ** q > 0.19


def test_few_classes_of_features_may_have_the_loss_and_the_confidence_of_the_features_preset() -> None:
    tuned = run.preset("features")(run.RunConfig().noise).method
    assert isinstance(tuned, PARS)
    first = rules.candidates((64,), 10)[0]
    assert (first.setting.robust, first.setting.tau, first.changes) == (tuned.robust, tuned.tau, {})


def test_losses_and_networks_to_try_depend_on_the_number_of_classes() -> None:
    found = [[candidate.name for candidate in rules.candidates((9,), k)] for k in (2, 10, 77)]
    few = ["nce+mae", "nce+mae, linear", "gce(q=0.7)"]
    assert found == [few, few, ["gce(q=0.37), linear", "gce(q=0.37)"]]


def test_images_are_not_given_to_a_linear_model() -> None:
    assert [candidate.changes for candidate in rules.candidates((3, 32, 32), 10)] == [{}]


def test_many_classes_take_more_steps() -> None:
    few, many = (train(10_000, k)["epochs"] for k in (10, 90))
    assert (few, many) == (20, 61)
