"""Which rows are in which batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pars import seeds
from pars.engine import TrainConfig
from pars.engine.batches import Order, lay_out
from pars.errors import UserError
from pars.method_api import Draw

deterministic = settings(derandomize=True, deadline=None, max_examples=60)


def laid_out(
    n: int,
    *,
    batch_size: int,
    steps: int | None = None,
    ratio: float = 3.0,
    unlabeled: int = 0,
    held_out: int = 0,
    pool: str = "all",
) -> dict[str, Order]:
    """The batches of a stage on n labeled rows, then unlabeled ones; the last of them are held out."""
    assert pool in ("all", "labeled")
    draws = {"unlabeled": Draw("all" if pool == "all" else "labeled", ratio)}
    config = TrainConfig(epochs=2, batch_size=batch_size, steps_per_epoch=steps)
    labeled = np.arange(held_out, n)
    return lay_out(labeled, np.arange(held_out, n + unlabeled), config, 3).orders(draws, {})


def epoch_of(order: Order, epoch: int) -> list[npt.NDArray[np.int64]]:
    return [order.batch(epoch, step) for step in range(order.steps)]


def counts(batches: Sequence[npt.NDArray[np.int64]]) -> Counter[int]:
    return Counter(np.concatenate(list(batches)).tolist())


@given(n=st.integers(1, 300), batch_size=st.integers(1, 128), epoch=st.integers(0, 50))
@deterministic
def test_an_epoch_is_one_pass_in_batches_of_equal_size(n: int, batch_size: int, epoch: int) -> None:
    batches = epoch_of(laid_out(n, batch_size=batch_size)["labeled"], epoch)
    sizes = [len(batch) for batch in batches]
    assert counts(batches) == Counter(range(n))
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= batch_size
    assert len(batches) == -(-n // min(batch_size, n))


@given(n=st.integers(2, 200), batch_size=st.integers(2, 64))
@deterministic
def test_a_three_times_larger_batch_is_three_whole_passes(n: int, batch_size: int) -> None:
    scheduled = laid_out(n, batch_size=batch_size)
    batches = epoch_of(scheduled["unlabeled"], 0)
    assert len(batches) == len(epoch_of(scheduled["labeled"], 0))
    assert counts(batches) == Counter(dict.fromkeys(range(n), 3))
    assert max(map(len, batches)) - min(map(len, batches)) <= 1
    passes = np.concatenate(list(batches)).reshape(3, n)
    assert all(sorted(one) == list(range(n)) for one in passes.tolist())


def test_a_given_number_of_steps_cycles_the_labeled_rows() -> None:
    scheduled = laid_out(40, batch_size=16, steps=11, unlabeled=500)
    assert [len(batch) for batch in epoch_of(scheduled["labeled"], 0)] == [16] * 11
    assert set(counts(epoch_of(scheduled["labeled"], 0)).values()) == {4, 5}  # 176 = 4 · 40 + 16
    assert [len(batch) for batch in epoch_of(scheduled["unlabeled"], 0)] == [48] * 11
    assert set(counts(epoch_of(scheduled["unlabeled"], 0)).values()) == {1}  # 528 of 540 rows


def test_fewer_steps_than_a_pass_read_other_rows_each_epoch() -> None:
    order = laid_out(100, batch_size=10, steps=2)["labeled"]
    assert set(counts(epoch_of(order, 0)).values()) == {1}
    assert len(set().union(*(counts(epoch_of(order, epoch)) for epoch in range(60)))) == 100


def test_the_order_is_a_pure_function_of_seed_and_epoch() -> None:
    def flat(seed: int, stream: str, epoch: int) -> list[int]:
        order = Order(np.arange(50), seed, stream, 120, 7)
        epoch_of(order, 9)  # asking for another epoch first changes nothing
        return [int(row) for row in np.concatenate(list(epoch_of(order, epoch)))]

    assert flat(1, "labeled", 4) == flat(1, "labeled", 4)
    others = [flat(2, "labeled", 4), flat(1, "unlabeled", 4), flat(1, "labeled", 5)]
    assert flat(1, "labeled", 4) not in others
    assert flat(1, "labeled", 4)[:50] != flat(1, "labeled", 4)[50:100]  # passes differ, too


def test_every_row_comes_early_as_often_as_late() -> None:
    order = Order(np.arange(20), 0, "labeled", 20, 4)
    firsts = Counter(row for epoch in range(2000) for row in order.batch(epoch, 0).tolist())
    assert min(firsts.values()) > 400  # 500 each on average, deviation 19
    assert max(firsts.values()) < 600


def test_pools_hold_what_they_say() -> None:
    scheduled = laid_out(60, batch_size=16, unlabeled=40, held_out=10)
    for epoch in range(4):
        assert set(counts(epoch_of(scheduled["labeled"], epoch))) == set(range(10, 60))
        assert set(counts(epoch_of(scheduled["unlabeled"], epoch))) == set(range(10, 100))
    own = laid_out(60, batch_size=16, unlabeled=40, pool="labeled")["unlabeled"]
    assert set(counts(epoch_of(own, 0))) == set(range(60))


def test_a_small_second_batch_still_has_two_rows() -> None:
    more = laid_out(8, batch_size=2, ratio=0.01)["unlabeled"]
    assert [len(batch) for batch in epoch_of(more, 0)] == [2] * 4  # BatchNorm needs two


def test_nothing_to_train_on_is_an_error() -> None:
    with pytest.raises(UserError, match="no labeled rows"):
        laid_out(0, batch_size=4, unlabeled=9)


@pytest.mark.parametrize(("n", "steps"), [(50_000, None), (4_000, 391)])
def test_steps_in_an_epoch_of_the_papers_settings(n: int, steps: int | None) -> None:
    rows = np.arange(n)
    assert lay_out(rows, rows, TrainConfig(batch_size=128, steps_per_epoch=steps), 0).steps == 391


def test_batches_are_cut_from_the_passes_laid_end_to_end() -> None:
    order = Order(np.arange(7), 5, "unlabeled", 24, 5)
    passes = [np.arange(7)[seeds.generator(5, "order/more", 3, index).permutation(7)] for index in range(4)]
    whole = np.concatenate(passes)
    for step in (4, 0, 2, 1, 3):  # in any order, as after a resume
        assert order.batch(3, step).tolist() == whole[step * 24 // 5 : (step + 1) * 24 // 5].tolist()
        assert order.batch(2, step).tolist() != order.batch(3, step).tolist()


def test_an_epoch_of_any_length_is_not_built_at_once() -> None:
    order = laid_out(60, batch_size=16, steps=10**9)["labeled"]
    assert order.steps == 10**9
    assert len(order.batch(0, 10**9 - 1)) == 16


@pytest.mark.parametrize(("n", "batch_size", "smallest"), [(3, 2, 1), (4, 2, 2), (10, 4, 3), (6, 1, 1)])
def test_the_smallest_batch_is_known_beforehand(n: int, batch_size: int, smallest: int) -> None:
    order = laid_out(n, batch_size=batch_size)["labeled"]
    assert order.per_epoch // order.steps == min(map(len, epoch_of(order, 0))) == smallest


@given(sizes=st.lists(st.integers(1, 60), min_size=2, max_size=6), steps=st.integers(1, 9), epoch=st.integers(0, 5))
@deterministic
def test_balanced_epochs_have_each_class_as_often(sizes: list[int], steps: int, epoch: int) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    config = TrainConfig(batch_size=12, steps_per_epoch=steps, class_balanced=True)
    layout = lay_out(np.arange(len(labels)), np.arange(len(labels)), config, 3, labels)
    batches = epoch_of(layout.orders({}, {})["labeled"], epoch)
    drawn = np.concatenate(batches)
    assert len(drawn) == layout.per_epoch
    of_class = np.bincount(labels[drawn], minlength=len(sizes))
    assert of_class.max() - of_class.min() <= 1
    for label, size in enumerate(sizes):  # no row a second time before all rows of its class had their turn
        times = np.bincount(drawn[labels[drawn] == label], minlength=len(labels))[labels == label]
        assert times.max() - times.min() <= 1
        assert times.max() == -(-of_class[label] // size)
    again = layout.orders({}, {})["labeled"].batch(epoch, steps - 1)
    np.testing.assert_array_equal(again, batches[-1])
    if len(labels) > 30:
        other = np.concatenate(epoch_of(layout.orders({}, {})["labeled"], epoch + 1))
        assert drawn.tolist() != other.tolist()


def test_only_batches_of_labeled_rows_are_balanced() -> None:
    labels = np.repeat([0, 1], [90, 10])
    config = TrainConfig(batch_size=20, steps_per_epoch=5, class_balanced=True)
    draws = {"unlabeled": Draw("all"), "other": Draw("labeled", 2.0)}
    orders = lay_out(np.arange(100), np.arange(100), config, 0, labels).orders(draws, {})
    shares = {name: float(labels[np.concatenate(epoch_of(order, 0))].mean()) for name, order in orders.items()}
    assert shares == {"labeled": 0.5, "unlabeled": 0.1, "other": 0.5}
