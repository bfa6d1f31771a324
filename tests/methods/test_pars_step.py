"""One PARS step against its equations, for every switch; and what must and must not carry a gradient."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from engine.helpers import assert_identical, make_trainer, toy, weights
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
    make_step,
    random_labels,
    random_logits,
)
from pars.engine import TrainConfig
from pars.losses import cross_entropy, parse
from pars.method_api import Losses, Network, Task
from pars.methods import PARS, PARSFast, PARSPaper
from pars.methods.parts import prediction_history
from pars.methods.parts.pseudo_label_trust import agreement_odds, trust
from pars.methods.parts.targets import draw_complements

deterministic = settings(derandomize=True, deadline=None, max_examples=150)

PAPER: dict[str, Any] = {
    "tau": st.sampled_from([0.0, 0.4, 0.6, 0.8, 0.95, 1.0]),
    "lambda_S": st.sampled_from([0.0, 1.0, 2.5]),
    "lambda_N": st.sampled_from([0.0, 0.1, 1.0]),
    "lambda_R": st.sampled_from([0.0, 1.0, 0.3]),
    "robust": st.sampled_from(sorted(ROBUST)),
    "pseudo": st.sampled_from([True, True, True, False]),
    "raw_negative": st.sampled_from(["complement", "given", "none"]),
    "pseudo_negative": st.booleans(),
    "pseudo_positive": st.sampled_from(["ce", "robust"]),
}
STABILIZED: dict[str, Any] = {
    **PAPER,
    "robust_rows": st.sampled_from(["ambiguous", "all"]),
    "raw_weight": st.sampled_from(["odds", "one"]),
    "min_share": st.sampled_from([0.0, 0.25, 1.0]),
    "teacher": st.sampled_from(["current", "average"]),
}
FAST: dict[str, Any] = {
    **STABILIZED,
    "temporal_teacher": st.just(False),
    "agreement_start": st.sampled_from([1.0, 0.51, 0.5]),
    "agreement_tau": st.sampled_from([0.5, 0.7]),
    "pool": st.sampled_from(["all", "batch"]),
}
methods = st.one_of(st.builds(PARSPaper, **PAPER), st.builds(PARS, **STABILIZED), st.builds(PARSFast, **FAST))

BASE: dict[str, Any] = {"tau": 0.6, "lambda_N": 0.5}
NO_STABILIZER: dict[str, Any] = {
    "robust_rows": "ambiguous",
    "raw_weight": "one",
    "min_share": 0.0,
    "teacher": "current",
}
VARIANTS: list[PARSPaper] = [
    PARSPaper(**BASE),
    *(
        PARSPaper(**BASE | changes)
        for changes in (
            {"raw_negative": "given"},
            {"raw_negative": "none", "pseudo_negative": False},
            {"pseudo_positive": "robust"},
            {"pseudo": False},
        )
    ),
    PARS(**BASE),
    *(
        PARS(**BASE | NO_STABILIZER | changes)
        for changes in (
            {"robust_rows": "all"},
            {"raw_weight": "odds"},
            {"min_share": 0.5},
            {"min_share": 1.0},
            {"teacher": "average"},
        )
    ),
    *(
        PARSFast(**BASE | {"temporal_teacher": False} | changes)
        for changes in (
            {},
            {"pool": "all"},
            {"agreement_start": 0.5},
            {"agreement_start": 0.5, "pool": "all"},
            {"agreement_start": 0.5, "pseudo": False},
        )
    ),
]


def numbers(losses: Losses) -> dict[str, float]:
    return {name: value.item() for name, value in losses.items()}


def total_gradients(losses: Losses, logits: dict[str, Tensor]) -> dict[str, Tensor]:
    total = torch.stack(list(losses.values())).sum()
    found = torch.autograd.grad(total, list(logits.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(logits, found, strict=True))


@given(m=methods, seed=st.integers(0, 10**6))
@deterministic
def test_every_switch_matches_the_equations(m: PARSPaper, seed: int) -> None:
    logits, labels = random_logits(seed), random_labels(seed)
    losses = m.main_step(make_step(logits, labels, seed=seed))
    expected = expected_losses(m, logits, labels, seed=seed)
    assert losses.keys() == expected.keys()
    for name, value in numbers(losses).items():
        assert_allclose(value, expected[name], rtol=2e-5, atol=1e-6, err_msg=name)


def test_without_its_stabilizers_pars_is_the_papers_method() -> None:
    config = TrainConfig(epochs=4, batch_size=16, lr=0.1, ema=0.9)
    switched_off = PARS(warm_up=1, **NO_STABILIZER, trust="full", balance_memory=0.0)
    trainers = [
        make_trainer(m, data=toy(), config=config) for m in (PARSPaper(warm_up=1), switched_off, PARS(warm_up=1))
    ]
    for trainer in trainers:
        trainer.run()
    paper, off, on = (weights(trainer) for trainer in trainers)
    assert_identical(paper, off)
    assert any(not torch.equal(tensor, on[name]) for name, tensor in paper.items())


@pytest.mark.parametrize("m", VARIANTS, ids=repr)
def test_gradients_are_those_of_the_equations_with_masks_and_pseudo_labels_fixed(m: PARSPaper) -> None:
    logits, labels = random_logits(5), random_labels(5)
    expected = expected_losses(m, logits, labels)
    others = [expected_losses(other, logits, labels) for other in VARIANTS if other is not m]
    assert expected["raw"] > 0
    assert expected not in others  # the switch does something here
    gradients = total_gradients(m.main_step(make_step(logits, labels)), logits)
    values = {name: tensor.detach().double().numpy() for name, tensor in logits.items()}

    def total() -> float:
        return sum(expected_from_arrays(m, values, labels.tolist()).values())

    # Masks and pseudo-labels are piecewise constant, so that small differences do not see them either.
    for name, array in values.items():
        numeric = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            sums = []
            for shift in (1e-5, -2e-5):
                array[index] += shift
                sums.append(total())
            array[index] += 1e-5
            numeric[index] = (sums[0] - sums[1]) / 2e-5
        assert_allclose(gradients[name], numeric, rtol=1e-3, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("seed", range(5))
def test_the_teachers_view_gets_no_gradient_from_a_joint_forward(seed: int) -> None:
    logits, labels = random_logits(seed), random_labels(seed)
    step = make_step(logits, labels)
    gradients = total_gradients(PARSPaper(tau=0.6).main_step(step), logits)
    assert step.net.backwards == 5 + 9 + 9  # the weak view did go through the network with gradient
    assert (gradients["more/weak"] == 0).all()
    assert (gradients["more/strong"] != 0).all()


@pytest.mark.parametrize("method", [PARSPaper(tau=0), PARS(tau=0, teacher="current", raw_weight="one")], ids=repr)
def test_at_tau_0_every_row_is_ambiguous(method: PARSPaper) -> None:
    logits, labels = random_logits(0), random_labels(0)
    step = make_step(logits, labels)
    losses = method.main_step(step)
    z = logits["more/weak"].argmax(1)
    assert all(selection.selected.all() for selection in step.selections.values())
    assert_allclose(losses["raw"].item(), parse("nce+mae")(logits["raw/weak"], labels).mean().item(), rtol=1e-6)
    assert_allclose(losses["pseudo"].item(), cross_entropy(logits["more/strong"], z).mean().item(), rtol=1e-6)
    assert losses["raw_negative"].item() == losses["pseudo_negative"].item() == 0


def test_at_tau_1_only_negative_learning_is_left() -> None:
    logits, labels = random_logits(0), random_labels(0)
    losses = PARSPaper(tau=1, lambda_R=0).main_step(make_step(logits, labels))
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
    losses = PARS(tau=tau, robust_rows="ambiguous", min_share=min_share).main_step(make_step(logits, labels))
    assert all(value.isfinite() for value in losses.values())
    parts = {name: losses[name] for name in empty}
    assert set(numbers(parts).values()) == {0.0}
    assert all((gradient == 0).all() for gradient in total_gradients(parts, logits).values())


def test_a_row_of_certainty_itself_gives_finite_losses_and_gradients() -> None:
    logits, labels = random_logits(1, size=1e4), random_labels(1)
    losses = PARS(tau=1, lambda_N=1).main_step(make_step(logits, labels))
    assert all(value.isfinite() for value in losses.values())
    assert all(gradient.isfinite().all() for gradient in total_gradients(losses, logits).values())


def test_complements_are_never_the_label_and_uniform_over_the_other_classes() -> None:
    n, classes = 30_000, 5
    labels = torch.arange(n) % classes
    step = make_step(random_logits(0), random_labels(0))
    drawn = draw_complements(step, labels, classes, draws=2)
    assert drawn.shape == (n, 2)
    assert (drawn != labels[:, None]).all()
    pairs = Counter(zip(labels.repeat_interleave(2).tolist(), drawn.flatten().tolist(), strict=True))
    mean = 2 * n / classes / (classes - 1)
    chi_square = sum((count - mean) ** 2 / mean for count in pairs.values())
    assert len(pairs) == classes * (classes - 1)
    assert chi_square < 44.3  # the 99.99 % point for 15 degrees of freedom


def test_with_two_classes_the_complement_is_the_other_one() -> None:
    logits, labels = random_logits(2, classes=2), random_labels(2, classes=2)
    losses = PARSPaper(tau=1, lambda_N=1).main_step(make_step(logits, labels))
    assert_allclose(losses["raw_negative"].item(), cross_entropy(logits["raw/weak"], labels).mean().item(), rtol=1e-5)
    z = logits["more/weak"].argmax(1)
    assert_allclose(losses["pseudo_negative"].item(), cross_entropy(logits["more/strong"], z).mean().item(), rtol=1e-5)


@pytest.mark.parametrize(
    ("method", "forwards", "backwards"),
    [
        (PARSPaper(), 0, 5 + 9 + 9),
        (PARSPaper(pseudo=False), 0, 5),
        (PARS(), 9, 5 + 9),
        (PARS(teacher="current"), 0, 5 + 9 + 9),
        (PARSFast(), 0, 5),
        (PARSFast(pool="all"), 0, 5 + 9),
        (PARSFast(agreement_start=0.5, pool="all"), 0, 5 + 9),
        (PARSFast(temporal_teacher=False), 5, 5),
        (PARSFast(temporal_teacher=False, teacher="current"), 5, 5),
        (PARSFast(temporal_teacher=False, pool="all", agreement_start=0.51), 9, 5 + 9),
        (PARSFast(temporal_teacher=False, pool="all", agreement_start=0.5), 9 + 5, 5 + 9),
        (PARSFast(temporal_teacher=False, pseudo=False), 0, 5),
        (PARSFast(temporal_teacher=False, pseudo=False, agreement_start=0.5), 5, 5),
    ],
    ids=repr,
)
def test_a_step_costs_what_it_says(method: PARSPaper, forwards: int, backwards: int) -> None:
    step = make_step(random_logits(0), random_labels(0))
    step.state |= prediction_history.initial_ensemble(5 + 9, 4)
    method.main_step(step)
    assert (step.net.forwards, step.net.backwards) == (forwards, backwards)


@pytest.mark.parametrize(
    "method",
    [
        PARSFast(momentum=0.5),
        PARSFast(momentum=0.5, pool="all"),
        PARSFast(momentum=0.5, pseudo=False),
        PARSFast(momentum=0.5, temporal_teacher=False, pool="all"),
        PARSFast(momentum=0.5, temporal_teacher=False),
    ],
    ids=repr,
)
def test_the_ensemble_is_updated_with_the_outputs_of_every_row(method: PARSFast) -> None:
    logits, labels = random_logits(0), random_labels(0)
    step = make_step(logits, labels, rows=torch.arange(9, 14))  # none of them in the other batch
    step.state |= prediction_history.initial_ensemble(9 + 5, 4)
    method.main_step(step)
    assert_allclose(step.state["ensemble"][9:], 0.5 * logits["raw/strong"].detach().softmax(dim=1), rtol=1e-5)
    more = 0.5 * logits["more/strong"].detach().softmax(dim=1)
    assert_allclose(step.state["ensemble"][:9], more if method.pseudo and method.pool == "all" else 0 * more, rtol=1e-5)


@pytest.mark.parametrize("pool", ["all", "batch"])
@pytest.mark.parametrize("pseudo", [True, False])
def test_late_in_a_run_labels_train_where_the_ensemble_predicts_them(pool: Any, pseudo: bool) -> None:
    logits, earlier = random_logits(0), random_logits(7)["raw/weak"].detach()
    before, now = earlier.argmax(dim=1), logits["raw/strong"].argmax(dim=1)
    labels = torch.where(torch.arange(5) < 2, before, torch.where(now == before, (now + 1) % 4, now))
    step = make_step(logits, labels)
    step.state |= prediction_history.initial_ensemble(9, 4)
    prediction_history.update_ensemble(step.state, step.batch.rows, earlier, 0.0)
    method = PARSFast(agreement_start=0.5, pool=pool, pseudo=pseudo, raw_weight="one")
    loss = parse(method.robust)(logits["raw/strong"], labels)
    assert not torch.equal(now == labels, before == labels)
    assert_allclose(method.main_step(step)["raw"].item(), loss[:2].sum().item() / 5, rtol=1e-6)


def test_selections_have_the_predictions_of_the_step() -> None:
    logits, labels = random_logits(0), random_labels(0)
    step = make_step(logits, labels, net=Network(AsIs(), Averaged()))
    PARS(tau=0.7).main_step(step)
    taught = Averaged()(logits["more/weak"]).softmax(1)
    assert step.selections["raw"].batch is step.batch
    assert step.selections["pseudo"].batch is step.batches["unlabeled"]
    assert torch.equal(step.selections["raw"].predicted, logits["raw/weak"].argmax(1))
    assert torch.equal(step.selections["pseudo"].predicted, taught.argmax(1))
    assert torch.equal(step.selections["pseudo"].selected, taught.amax(1) > 0.7)


def test_earlier_outputs_give_the_pseudo_label_and_present_ones_update_them() -> None:
    logits, labels = random_logits(0), random_labels(0)
    step = make_step(logits, labels)
    method = PARSFast(tau=0.6, momentum=0.5)
    step.state |= method.initial_state(Task(n_rows=len(labels), n_classes=4, epochs=2, labels=labels))
    method.warm_up_step(step)
    losses = method.main_step(step)
    weak, strong = (logits[f"raw/{view}"].detach().double().softmax(1) for view in ("weak", "strong"))
    assert torch.equal(step.selections["pseudo"].predicted, weak.argmax(1))
    assert torch.equal(step.selections["pseudo"].selected, weak.amax(1) > 0.6)
    sure = weak.amax(1) > 0.6
    assert 0 < sure.sum() < len(sure)
    positive = -strong.log().gather(1, weak.argmax(1)[:, None])[:, 0]
    weight = float(trust(step.state["label_ranks"]))
    assert_allclose(losses["pseudo"].item(), weight * (positive * sure).sum().item() / len(sure), rtol=1e-5)
    averaged = (0.5 * weak + strong) / 1.5  # 0.25 and 0.5, of which the first fades once more
    found = prediction_history.ensemble_logits(step.state, step.batch.rows, torch.zeros(len(labels), 4)).softmax(1)
    assert_allclose(found.numpy(), averaged.numpy(), rtol=1e-5)


def test_rows_of_both_batches_update_the_ensemble_and_an_unseen_row_is_labeled_by_its_present_output() -> None:
    logits, labels = random_logits(0), random_labels(0)
    method = PARSFast(tau=0.6, momentum=0.5, pool="all")
    n = len(logits["more/weak"])  # rows 0 to 8, of which 0 to 4 are the labeled batch's too
    step = make_step(logits, labels, state=method.initial_state(Task(n_rows=n, n_classes=4, epochs=2, labels=labels)))
    earlier = random_logits(7)["more/weak"].detach()[:-1]
    prediction_history.update_ensemble(step.state, torch.arange(n - 1), earlier, 0.5)
    method.main_step(step)
    raw, strong, before = (
        x.detach().double().softmax(1) for x in (logits["raw/strong"], logits["more/strong"], earlier)
    )
    assert torch.equal(step.selections["pseudo"].predicted, torch.cat((before.argmax(1), strong.argmax(1)[-1:])))
    expected = strong.clone()
    expected[len(raw) : -1] = (before[len(raw) :] + 2 * strong[len(raw) : -1]) / 3
    expected[: len(raw)] = (before[: len(raw)] + 2 * raw + 4 * strong[: len(raw)]) / 7
    assert_allclose(
        prediction_history.ensemble_logits(step.state, torch.arange(n), strong).softmax(1).numpy(), expected, rtol=1e-5
    )


@pytest.mark.parametrize("robust", sorted(ROBUST))
def test_the_warm_up_is_the_mean_robust_loss_on_weak_views(robust: str) -> None:
    logits, labels = random_logits(4), random_labels(4)
    step = make_step(logits, labels)
    (loss,) = PARS(robust=robust).warm_up_step(step).values()
    p = logits["raw/weak"].detach().double().softmax(1).numpy()
    expected = np.mean([ROBUST[robust](row, label) for row, label in zip(p, labels.tolist(), strict=True)])
    assert_allclose(loss.item(), expected, rtol=1e-5)
    assert (step.net.forwards, step.net.backwards) == (0, 5)


def test_labels_weigh_as_much_as_they_agree_with_sure_predictions() -> None:
    logits = torch.tensor([[9.0, 0], [9, 0], [9, 0], [0, 9], [0.1, 0], [0, 0.1]])
    sure = logits.softmax(1).amax(1) > 0.95
    for labels, odds in (
        ([0, 0, 0, 1, 1, 1], 1.0),  # all of the sure ones agree
        ([0, 0, 1, 0, 0, 0], 1.0),  # two of four
        ([0, 1, 1, 0, 0, 1], (1 / 6 + 0.01) / (3 / 6 + 0.01)),
        ([1, 1, 1, 0, 0, 1], 0.01 / (4 / 6 + 0.01)),
    ):
        assert agreement_odds(logits, torch.tensor(labels), sure).item() == pytest.approx(odds, rel=1e-6)
    assert (
        agreement_odds(logits, torch.tensor([1, 1, 1, 0, 0, 1]), torch.zeros(6, dtype=torch.bool)) == 1
    )  # nobody to ask


def test_the_balance_is_that_of_the_last_batches_with_the_gradient_of_this_one() -> None:
    logits, labels = random_logits(0), random_labels(0)
    earlier = torch.tensor([0.5, 0.3, 0.1, 0.1])
    step = make_step(logits, labels)
    step.state["mean_prediction"] = earlier.clone()
    method = PARS(lambda_R=2.0, balance_memory=0.75, trust="full")
    loss = method.main_step(step)["balance"]
    loss.backward()  # type: ignore[no-untyped-call]

    student = logits["more/strong"].detach().double()
    p = student.softmax(1)
    mean = 0.75 * earlier.double() + 0.25 * p.mean(0)
    assert_allclose(loss.item(), 2 * sum(-math.log(4 * float(h)) / 4 for h in mean), rtol=1e-5)
    assert_allclose(step.state["mean_prediction"].numpy(), mean.numpy(), rtol=1e-6)
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
        make_step(logits, labels, state={"prior": torch.from_numpy(prior).float()})
    )
    h = torch.softmax(logits["more/strong"].detach().double(), dim=1).mean(dim=0).numpy()
    assert losses["balance"].item() == pytest.approx(float((prior * np.log(prior / h)).sum()), rel=1e-5)


def test_a_prior_from_labels_is_how_often_they_are_given() -> None:
    given = torch.tensor([0, 1, 1, 1, -1, 2, 2, 0])
    state = PARS(prior="labels", trust="full").initial_state(Task(8, 3, given, 10))
    assert_allclose(state["prior"], np.array([2, 3, 2]) / 7, rtol=1e-6)
    assert "prior" not in PARS().initial_state(Task(8, 3, given, 10))
