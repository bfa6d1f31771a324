"""The rules behind the defaults."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pars import run
from pars.autoconfig import rules
from pars.losses import parse
from pars.method_api import Setting
from pars.methods import PARS, by_name


def facts(n: int = 1000, k: int = 10, shape: tuple[int, ...] = (64,), smallest: int | None = None) -> rules.Facts:
    first = n // k if smallest is None else smallest
    return rules.Facts(shape=shape, class_rows=(first, *np.diff(np.linspace(first, n, k).astype(int)).tolist()))


shapes = st.one_of(
    st.integers(1, 5000).map(lambda d: (d,)), st.tuples(st.sampled_from([1, 3]), st.integers(1, 64), st.integers(1, 64))
)


@given(n=st.integers(2, 10**6), k=st.integers(2, 1000), shape=shapes)
def test_whatever_the_data_the_settings_are_a_configuration(n: int, k: int, shape: tuple[int, ...]) -> None:
    found = facts(n, k, shape)
    base = run.RunConfig(method=by_name("pars", Setting(robust=rules.robust_losses_for(found)[-1])))
    config = run.overlay(base, rules.settings(found) | {"method": rules.method_for("pars", found)})
    assert 16 <= config.train.batch_size <= 128
    assert 20 <= config.train.epochs <= 200
    assert 0 <= config.views.dropout_weak <= config.views.dropout_strong <= 0.5
    parse(config.method.robust)  # type: ignore[attr-defined]


@given(n=st.integers(2, 10**6))
def test_what_is_held_out_can_tell_stages_apart_and_leaves_most_rows(n: int) -> None:
    held = rules.holdout_for(facts(n))
    assert held == 0 or held * n >= 99.9
    assert held <= 0.2


def test_a_few_hundred_rows_are_all_trained_on() -> None:
    assert rules.holdout_for(facts(499)) == 0
    assert rules.holdout_for(facts(500)) == 0.2
    assert rules.holdout_for(facts(5000, smallest=4)) == 0


def test_few_rows_take_few_steps() -> None:
    for n, most in ((20, 80), (100, 200), (1_000, 1_100), (10_000, 1_700)):
        batch = rules.batch_size_for(n)
        assert rules.epochs_for(facts(n), batch) * math.ceil(n / batch) <= most


def test_the_settings_that_were_tuned_for_ten_thousand_embeddings_are_met() -> None:
    config = run.overlay(run.RunConfig(), rules.settings(facts(10_000, 10, (1280,))))
    tuned = run.preset("features")(run.RunConfig().noise)
    assert (config.train.epochs, config.train.batch_size) == (tuned.train.epochs, tuned.train.batch_size)
    assert config.model == tuned.model
    assert config.views.dropout_strong == pytest.approx(tuned.views.dropout_strong, abs=0.03)


def test_a_single_feature_is_blurred_rather_than_dropped() -> None:
    views = rules.views_for(facts(shape=(1,)))
    assert views["dropout_strong"] < 0.05
    assert views["noise"] > 0.2


@given(k=st.integers(2, 1000))
def test_every_class_has_a_gradient_at_the_start_with_the_loss_that_always_learns(k: int) -> None:
    q = float(rules.robust_losses_for(facts(k=k))[-1].removeprefix("gce(q=").removesuffix(")"))
    assert (1 / k) ** q > 0.19


def test_few_classes_of_features_may_have_the_loss_and_the_confidence_of_the_features_preset() -> None:
    tuned = run.preset("features")(run.RunConfig().noise).method
    assert isinstance(tuned, PARS)
    assert (rules.robust_losses_for(facts())[0], rules.confidence_for(facts())) == (tuned.robust, tuned.tau)


def test_many_classes_take_more_steps() -> None:
    few, many = (rules.epochs_for(facts(10_000, k), 128) for k in (10, 90))
    assert (few, many) == (20, 61)
