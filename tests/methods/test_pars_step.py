"""One PARS step against its equations, for every switch; and what must and must not carry a gradient."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import Tensor

from methods.reference import (
    ROBUST,
    AsIs,
    Averaged,
    expected_from_arrays,
    expected_losses,
    random_labels,
    random_logits,
    step,
)
from pars.losses import cross_entropy, parse
from pars.methods import PARS, Losses, Network, Task
from pars.methods.parts import temporal
from pars.methods.parts.negative import complements
from pars.methods.parts.votes import label_odds, shares, trust

deterministic = settings(derandomize=True, deadline=None, max_examples=150)

methods = st.builds(
    PARS,
    tau=st.sampled_from([0.0, 0.4, 0.6, 0.8, 0.95, 1.0]),
    lambda_S=st.sampled_from([0.0, 1.0, 2.5]),
    lambda_N=st.sampled_from([0.0, 0.1, 1.0]),
    lambda_R=st.sampled_from([0.0, 1.0, 0.3]),
    robust=st.sampled_from(sorted(ROBUST)),
    pseudo=st.sampled_from([True, True, True, False]),
    raw_negative=st.sampled_from(["complement", "given", "none"]),
    pseudo_negative=st.booleans(),
    pseudo_positive=st.sampled_from(["ce", "robust", "soft"]),
    raw_anchor=st.sampled_from(["ambiguous", "all", "agreeing"]),
    late=st.sampled_from([1.0, 1.0, 0.51, 0.5]),
    late_tau=st.sampled_from([0.5, 0.7]),
    raw_weight=st.sampled_from(["odds", "one"]),
    min_share=st.sampled_from([0.0, 0.25, 1.0]),
    teacher=st.sampled_from(["current", "average"]),
    joint_forward=st.booleans(),
    mask_view=st.sampled_from(["weak", "strong"]),
    raw_view=st.sampled_from(["weak", "strong"]),
    pool=st.sampled_from(["all", "batch"]),
    ramp=st.sampled_from([0.0, 0.3, 0.5, 0.8]),
    negatives=st.integers(1, 3),
)
VARIANTS: list[dict[str, Any]] = [
    {},
    {"raw_anchor": "ambiguous"},
    {"raw_anchor": "agreeing"},
    {"raw_anchor": "agreeing", "pool": "batch"},
    {"raw_anchor": "agreeing", "shared": 0.05},
    {"late": 0.5, "pool": "batch"},
    {"late": 0.5, "teacher": "average"},
    {"late": 0.5, "pseudo": False},
    {"raw_weight": "odds"},
    {"min_share": 0.5},
    {"min_share": 1.0},
    {"raw_negative": "given"},
    {"raw_negative": "none", "pseudo_negative": False},
    {"pseudo_positive": "robust"},
    {"pseudo": False},
    {"teacher": "average"},
    {"joint_forward": True},
    {"mask_view": "strong"},
    {"raw_view": "strong"},
    {"raw_view": "strong", "pool": "batch"},
    {"pool": "batch"},
    {"ramp": 0.8},
    {"negatives": 3},
]


def numbers(losses: Losses) -> dict[str, float]:
    return {name: value.item() for name, value in losses.items()}


def total_gradients(losses: Losses, logits: dict[str, Tensor]) -> dict[str, Tensor]:
    total = torch.stack(list(losses.values())).sum()
    found = torch.autograd.grad(total, list(logits.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(logits, found, strict=True))


@given(m=methods, shared=st.sampled_from([1.0, 0.3, 0.0]), seed=st.integers(0, 10**6), stage_progress=st.floats(0, 1))
@deterministic
def test_every_switch_matches_the_equations(m: PARS, shared: float, seed: int, stage_progress: float) -> None:
    if m.late < 1 or m.raw_anchor == "agreeing":
        m = replace(m, shared=shared)
    logits, labels = random_logits(seed), random_labels(seed)
    losses = m.main_step(step(logits, labels, seed=seed, stage_progress=stage_progress))
    expected = expected_losses(m, logits, labels, seed=seed, stage_progress=stage_progress)
    assert losses.keys() == expected.keys()
    for name, value in numbers(losses).items():
        assert_allclose(value, expected[name], rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_gradients_are_those_of_the_equations_with_masks_and_pseudo_labels_fixed(changes: dict[str, Any]) -> None:
    plain = PARS.paper(tau=0.6, lambda_N=0.5, raw_anchor="all", joint_forward=False)
    m = replace(plain, **changes)
    logits, labels = random_logits(5), random_labels(5)
    expected = expected_losses(m, logits, labels)
    assert expected["raw"] > 0
    assert (expected == expected_losses(plain, logits, labels)) == (changes in ({}, {"joint_forward": True}))
    gradients = total_gradients(m.main_step(step(logits, labels)), logits)
    values = {name: tensor.detach().double().numpy() for name, tensor in logits.items()}

    def total() -> float:
        return sum(expected_from_arrays(m, values, labels.tolist()).values())

    # Masks and pseudo-labels are piecewise constant, so that small differences do not see them either.
    for name, array in values.items():
        numeric = np.zeros_like(array)
        for at in np.ndindex(array.shape):
            sums = []
            for shift in (1e-5, -2e-5):
                array[at] += shift
                sums.append(total())
            array[at] += 1e-5
            numeric[at] = (sums[0] - sums[1]) / 2e-5
        assert_allclose(gradients[name], numeric, rtol=1e-3, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("positive", ["ce", "soft"])
@pytest.mark.parametrize("seed", range(5))
def test_the_view_that_guesses_gets_no_gradient_from_a_joint_forward(seed: int, positive: Any) -> None:
    logits, labels = random_logits(seed), random_labels(seed)
    at = step(logits, labels)
    gradients = total_gradients(PARS.paper(tau=0.6, pseudo_positive=positive).main_step(at), logits)
    assert at.net.backwards == 5 + 9 + 9  # the guess did go through the network with gradient
    assert (gradients["more/weak"] == 0).all()
    assert (gradients["more/strong"] != 0).all()


@pytest.mark.parametrize("raw_anchor", ["ambiguous", "all"])
def test_at_tau_0_every_row_is_ambiguous(raw_anchor: Any) -> None:
    logits, labels = random_logits(0), random_labels(0)
    at = step(logits, labels)
    losses = PARS.paper(tau=0, raw_anchor=raw_anchor).main_step(at)
    z = logits["more/weak"].argmax(1)
    assert all(selection.ambiguous.all() for selection in at.selections.values())
    assert_allclose(losses["raw"].item(), parse("nce+mae")(logits["raw/weak"], labels).mean().item(), rtol=1e-6)
    assert_allclose(losses["pseudo"].item(), cross_entropy(logits["more/strong"], z).mean().item(), rtol=1e-6)
    assert losses["raw_negative"].item() == losses["pseudo_negative"].item() == 0


def test_at_tau_1_only_negative_learning_is_left() -> None:
    logits, labels = random_logits(0), random_labels(0)
    losses = PARS.paper(tau=1, lambda_R=0).main_step(step(logits, labels))
    assert numbers(losses)["raw"] == numbers(losses)["pseudo"] == numbers(losses)["balance"] == 0
    assert numbers(losses)["raw_negative"] > 0
    assert numbers(losses)["pseudo_negative"] > 0


@pytest.mark.parametrize(
    ("tau", "empty"), [(0.0, ("raw_negative", "pseudo_negative")), (1.0, ("raw", "pseudo"))], ids=str
)
@pytest.mark.parametrize("min_share", [0.0, 0.25, 1.0])
def test_an_empty_subset_contributes_nothing_and_pulls_nowhere(
    tau: float, empty: tuple[str, ...], min_share: float
) -> None:
    logits, labels = random_logits(1), random_labels(1)
    losses = PARS.paper(tau=tau, min_share=min_share).main_step(step(logits, labels))
    assert all(value.isfinite() for value in losses.values())
    parts = {name: losses[name] for name in empty}
    assert set(numbers(parts).values()) == {0.0}
    assert all((gradient == 0).all() for gradient in total_gradients(parts, logits).values())


def test_a_row_of_certainty_itself_gives_finite_losses_and_gradients() -> None:
    logits, labels = random_logits(1, size=1e4), random_labels(1)
    losses = PARS(tau=1, lambda_N=1).main_step(step(logits, labels))
    assert all(value.isfinite() for value in losses.values())
    assert all(gradient.isfinite().all() for gradient in total_gradients(losses, logits).values())


def test_complements_are_never_the_label_and_uniform_over_the_other_classes() -> None:
    n, classes = 30_000, 5
    labels = torch.arange(n) % classes
    at = step(random_logits(0), random_labels(0))
    drawn = complements(at, labels, classes, draws=2)
    assert drawn.shape == (n, 2)
    assert (drawn != labels[:, None]).all()
    pairs = Counter(zip(labels.repeat_interleave(2).tolist(), drawn.flatten().tolist(), strict=True))
    mean = 2 * n / classes / (classes - 1)
    chi_square = sum((count - mean) ** 2 / mean for count in pairs.values())
    assert len(pairs) == classes * (classes - 1)
    assert chi_square < 44.3  # the 99.99 % point for 15 degrees of freedom


def test_with_two_classes_the_complement_is_the_other_one() -> None:
    logits, labels = random_logits(2, classes=2), random_labels(2, classes=2)
    losses = PARS.paper(tau=1, lambda_N=1).main_step(step(logits, labels))
    assert_allclose(losses["raw_negative"].item(), cross_entropy(logits["raw/weak"], labels).mean().item(), rtol=1e-5)
    z = logits["more/weak"].argmax(1)
    assert_allclose(losses["pseudo_negative"].item(), cross_entropy(logits["more/strong"], z).mean().item(), rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "forwards", "backwards"),
    [
        ({}, 9, 5 + 9),
        ({"teacher": "average"}, 9, 5 + 9),
        ({"joint_forward": True}, 0, 5 + 9 + 9),
        ({"joint_forward": True, "teacher": "average"}, 9, 5 + 9),
        ({"pool": "batch"}, 5, 5 + 5),
        ({"pool": "batch", "raw_view": "strong"}, 5, 5),
        ({"pool": "batch", "raw_view": "strong", "joint_forward": True}, 0, 5 + 5),
        ({"pseudo": False}, 0, 5),
        ({"pseudo": False, "late": 0.5}, 5, 5),
        ({"late": 0.51}, 9, 5 + 9),
        ({"late": 0.5}, 9 + 5, 5 + 9),
        ({"late": 0.5, "pool": "batch"}, 5, 5 + 5),
        ({"teacher": "temporal"}, 0, 5 + 9),
        ({"teacher": "temporal", "late": 0.5}, 0, 5 + 9),
        ({"teacher": "temporal", "pool": "batch", "raw_view": "strong"}, 0, 5),
    ],
    ids=str,
)
def test_a_step_costs_what_it_says(changes: dict[str, Any], forwards: int, backwards: int) -> None:
    at = step(random_logits(0), random_labels(0))
    at.state |= temporal.empty(5 + 9, 4)
    PARS.paper(**({"joint_forward": False} | changes)).main_step(at)
    assert (at.net.forwards, at.net.backwards) == (forwards, backwards)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"pseudo": False},
        {"teacher": "average"},
        {"teacher": "temporal"},
        {"joint_forward": True},
        {"pool": "batch", "raw_view": "strong"},
        {"pool": "batch", "raw_view": "strong", "joint_forward": True},
    ],
    ids=str,
)
def test_who_draws_what_is_useful_remembers_what_was_said_of_every_row(changes: dict[str, Any]) -> None:
    logits, labels = random_logits(0), random_labels(0)
    at = step(logits, labels, rows=torch.arange(9, 14))  # none of them in the other batch
    at.state |= temporal.empty(9 + 5, 4)
    method = PARS.paper(**({"joint_forward": False, "momentum": 0.5} | changes))
    method.main_step(at)
    assert_allclose(at.state["ensemble"][9:], 0.5 * logits[f"raw/{method.raw_view}"].detach().softmax(dim=1), rtol=1e-5)
    more = 0.5 * logits["more/strong"].detach().softmax(dim=1)
    assert_allclose(at.state["ensemble"][:9], more if method.pseudo and method.pool == "all" else 0 * more, rtol=1e-5)


@pytest.mark.parametrize("pool", ["all", "batch"])
@pytest.mark.parametrize("pseudo", [True, False])
def test_late_labels_teach_where_what_was_said_before_shares_them(pool: Any, pseudo: bool) -> None:
    logits, earlier = random_logits(0), random_logits(7)["raw/weak"].detach()
    before, now = earlier.argmax(dim=1), logits["raw/strong"].argmax(dim=1)
    labels = torch.where(torch.arange(5) < 2, before, torch.where(now == before, (now + 1) % 4, now))
    at = step(logits, labels)
    at.state |= temporal.empty(9, 4)
    temporal.write(at.state, at.batch.rows, earlier, 0.0)
    method = PARS.paper(late=0.5, teacher="temporal", pool=pool, pseudo=pseudo, raw_view="strong", min_share=1.0)
    loss = parse(method.robust)(logits["raw/strong"], labels)
    assert not torch.equal(now == labels, before == labels)
    assert_allclose(method.main_step(at)["raw"].item(), loss[:2].sum().item() / 5, rtol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_a_label_is_shared_that_has_its_share_of_the_first_choice(share: float) -> None:
    logits, earlier, labels = random_logits(0), random_logits(7)["raw/weak"].detach(), random_labels(3)
    at = step(logits, labels)
    at.state |= temporal.empty(9, 4)
    temporal.write(at.state, at.batch.rows, earlier, 0.0)
    method = PARS.paper(late=0.5, shared=share, teacher="temporal", pool="batch", raw_view="strong", min_share=1.0)
    p = earlier.double().softmax(dim=1).numpy()
    kept = [i for i, label in enumerate(labels.tolist()) if p[i, label] >= share * p[i].max() * (1 - 1e-6)]
    loss = parse(method.robust)(logits["raw/strong"], labels)
    assert_allclose(method.main_step(at)["raw"].item(), loss[kept].sum().item() / 5, rtol=1e-6)


def test_a_smaller_share_keeps_more_labels() -> None:
    earlier, labels = random_logits(7)["raw/weak"].detach(), random_labels(3)
    kept = [int(shares(earlier, labels, share).sum()) for share in (1.0, 0.5, 0.1, 0.0)]
    assert kept == sorted(kept)
    assert kept[0] < kept[-1] == len(labels)
    assert torch.equal(shares(earlier, labels, 1.0), earlier.argmax(dim=1) == labels)


def test_the_ramp_starts_at_nothing_and_ends_at_full_weight() -> None:
    logits, labels = random_logits(0), random_labels(0)

    def at(progress: float, **changes: Any) -> dict[str, float]:
        return numbers(PARS.paper(tau=0.6, **changes).main_step(step(logits, labels, stage_progress=progress)))

    plain = at(0.0)
    assert [at(0.0, ramp=0.4)[name] for name in ("pseudo", "pseudo_negative", "balance")] == [0, 0, 0]
    assert_allclose(at(0.1, ramp=0.4)["pseudo"], plain["pseudo"] / 4, rtol=1e-6)
    assert at(0.4, ramp=0.4) == at(1.0, ramp=0.4) == plain
    assert at(0.0, ramp=0.4)["raw"] == plain["raw"]


def test_selections_say_what_the_step_believed() -> None:
    logits, labels = random_logits(0), random_labels(0)
    at = step(logits, labels, net=Network(AsIs(), Averaged()))
    PARS.paper(tau=0.7, teacher="average").main_step(at)
    taught = Averaged()(logits["more/weak"]).softmax(1)
    assert at.selections["raw"].batch is at.batch
    assert at.selections["pseudo"].batch is at.batches["more"]
    assert torch.equal(at.selections["raw"].predicted, logits["raw/weak"].argmax(1))
    assert torch.equal(at.selections["pseudo"].predicted, taught.argmax(1))
    assert torch.equal(at.selections["pseudo"].ambiguous, taught.amax(1) > 0.7)


def test_what_was_said_of_a_row_before_labels_it_and_what_is_said_now_is_remembered() -> None:
    logits, labels = random_logits(0), random_labels(0)
    at = step(logits, labels)
    method = PARS(tau=0.6, teacher="temporal", momentum=0.5, pool="batch", raw_view="strong")
    at.state |= method.initial_state(Task(n_rows=len(labels), n_classes=4, epochs=2, labels=labels))
    method.warm_up_step(at)
    losses = method.main_step(at)
    weak, strong = (logits[f"raw/{view}"].detach().double().softmax(1) for view in ("weak", "strong"))
    assert torch.equal(at.selections["pseudo"].predicted, weak.argmax(1))
    assert torch.equal(at.selections["pseudo"].ambiguous, weak.amax(1) > 0.6)
    sure = weak.amax(1) > 0.6
    assert 0 < sure.sum() < len(sure)
    positive = -strong.log().gather(1, weak.argmax(1)[:, None])[:, 0]
    weight = trust(at.state["votes"]).item()
    assert_allclose(losses["pseudo"].item(), weight * (positive * sure).sum().item() / len(sure), rtol=1e-5)
    remembered = (0.5 * weak + strong) / 1.5  # 0.25 and 0.5, of which the first fades once more
    found = temporal.logits_of(at.state, at.batch.rows, torch.zeros(len(labels), 4)).softmax(1)
    assert_allclose(found.numpy(), remembered.numpy(), rtol=1e-5)


def test_rows_of_both_batches_are_remembered_and_one_never_seen_is_labelled_by_what_is_said_of_it_now() -> None:
    logits, labels = random_logits(0), random_labels(0)
    method = PARS(tau=0.6, teacher="temporal", momentum=0.5)
    n = len(logits["more/weak"])  # rows 0 to 8, of which 0 to 4 are the labelled batch's too
    at = step(logits, labels, state=method.initial_state(Task(n_rows=n, n_classes=4, epochs=2, labels=labels)))
    earlier = random_logits(7)["more/weak"].detach()[:-1]
    temporal.write(at.state, torch.arange(n - 1), earlier, 0.5)
    method.main_step(at)
    raw, strong, before = (x.detach().double().softmax(1) for x in (logits["raw/weak"], logits["more/strong"], earlier))
    assert torch.equal(at.selections["pseudo"].predicted, torch.cat((before.argmax(1), strong.argmax(1)[-1:])))
    expected = strong.clone()
    expected[len(raw) : -1] = (before[len(raw) :] + 2 * strong[len(raw) : -1]) / 3
    expected[: len(raw)] = (before[: len(raw)] + 2 * raw + 4 * strong[: len(raw)]) / 7
    assert_allclose(temporal.logits_of(at.state, torch.arange(n), strong).softmax(1).numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("robust", sorted(ROBUST))
def test_the_warm_up_is_the_mean_robust_loss_on_weak_views(robust: str) -> None:
    logits, labels = random_logits(4), random_labels(4)
    at = step(logits, labels)
    (loss,) = PARS(robust=robust).warm_up_step(at).values()
    p = logits["raw/weak"].detach().double().softmax(1).numpy()
    expected = np.mean([ROBUST[robust](row, label) for row, label in zip(p, labels.tolist(), strict=True)])
    assert_allclose(loss.item(), expected, rtol=1e-5)
    assert (at.net.forwards, at.net.backwards) == (0, 5)


def test_labels_weigh_as_much_as_they_agree_with_sure_predictions() -> None:
    logits = torch.tensor([[9.0, 0], [9, 0], [9, 0], [0, 9], [0.1, 0], [0, 0.1]])
    sure = logits.softmax(1).amax(1) > 0.95
    for labels, odds in (
        ([0, 0, 0, 1, 1, 1], 1.0),  # all of the sure ones agree
        ([0, 0, 1, 0, 0, 0], 1.0),  # two of four
        ([0, 1, 1, 0, 0, 1], (1 / 6 + 0.01) / (3 / 6 + 0.01)),
        ([1, 1, 1, 0, 0, 1], 0.01 / (4 / 6 + 0.01)),
    ):
        assert label_odds(logits, torch.tensor(labels), sure).item() == pytest.approx(odds, rel=1e-6)
    assert label_odds(logits, torch.tensor([1, 1, 1, 0, 0, 1]), torch.zeros(6, dtype=torch.bool)) == 1  # nobody to ask


def test_the_balance_is_that_of_the_last_batches_with_the_gradient_of_this_one() -> None:
    logits, labels = random_logits(0), random_labels(0)
    earlier = torch.tensor([0.5, 0.3, 0.1, 0.1])
    at = step(logits, labels)
    at.state["mean_prediction"] = earlier.clone()
    method = PARS(lambda_R=2.0, balance_memory=0.75, trust="full")
    loss = method.main_step(at)["balance"]
    loss.backward()  # type: ignore[no-untyped-call]

    student = logits["more/strong"].detach().double()
    p = student.softmax(1)
    mean = 0.75 * earlier.double() + 0.25 * p.mean(0)
    assert_allclose(loss.item(), 2 * sum(-math.log(4 * float(h)) / 4 for h in mean), rtol=1e-5)
    assert_allclose(at.state["mean_prediction"].numpy(), mean.numpy(), rtol=1e-6)
    # d/ds of -2/4 Σ_k h_k / mean_k, h being this batch's own mean: as if the mean were only measured elsewhere
    slope = -2 / 4 / mean / len(p)
    expected = p * (slope - (p * slope).sum(1, keepdim=True))
    found = logits["more/strong"].grad
    assert found is not None
    assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-7)


def test_predictions_are_held_near_the_prior_that_the_state_has() -> None:
    logits, labels = random_logits(3), random_labels(3)
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    losses = PARS(prior="labels", trust="full").main_step(
        step(logits, labels, state={"prior": torch.from_numpy(prior).float()})
    )
    h = torch.softmax(logits["more/strong"].detach().double(), dim=1).mean(dim=0).numpy()
    assert losses["balance"].item() == pytest.approx(float((prior * np.log(prior / h)).sum()), rel=1e-5)


def test_a_prior_from_labels_is_how_often_they_are_given() -> None:
    given = torch.tensor([0, 1, 1, 1, -1, 2, 2, 0])
    state = PARS(prior="labels", trust="full").initial_state(Task(8, 3, given, 10))
    assert_allclose(state["prior"], np.array([2, 3, 2]) / 7, rtol=1e-6)
    assert "prior" not in PARS().initial_state(Task(8, 3, given, 10))
