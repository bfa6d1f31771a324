"""The audit of a run: memorized wrong labels are still found, and the folder gives the same audit as the trainer."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from run.helpers import tiny
from sklearn.metrics import roc_auc_score

from audit.worlds import calibration_error, world
from pars import run
from pars.audit import audit_run, from_dynamics, score
from pars.audit.calibration import calibrate, log_probabilities
from pars.audit.from_run import USUAL_LEAD, Chosen, choose_probabilities, mix_with_linear
from pars.augment import ViewsConfig
from pars.data import DataConfig
from pars.engine import TrainConfig, Trainer
from pars.errors import UserError
from pars.methods import Supervised
from pars.models import ModelConfig
from pars.noise import NoiseConfig


def train_until_memorized(holdout: float) -> tuple[Trainer, Any]:
    """Plain cross-entropy on digits with 40 % wrong labels, until it repeats nearly all of them."""
    config = run.RunConfig(
        data=DataConfig(name="digits", holdout=holdout),
        noise=NoiseConfig(kind="symmetric", rate=0.4, convention="exclusive"),
        model=ModelConfig(name="mlp", hidden=(256,)),
        views=ViewsConfig(weak="none", strong="none"),
        train=TrainConfig(epochs=40, batch_size=64, lr=0.1, weight_decay=0.0, ema=0.9, evaluate_every=40),
        method=Supervised(),
        device="cpu",
    )
    prepared = run.load_training_data(config)
    trainer = run.build_trainer(config, prepared, None)
    trainer.run()
    return trainer, prepared.data.train


@pytest.fixture(scope="module", params=[0.0, 0.1], ids=["all labels", "some held out"])
def memorized(request: pytest.FixtureRequest) -> tuple[Trainer, Any]:
    torch.set_num_threads(1)
    return train_until_memorized(request.param)


def test_memorized_rows_are_still_found(memorized: tuple[Trainer, Any]) -> None:
    trainer, train = memorized
    assert trainer.dynamics is not None
    wrong, used = train.labels != train.true_labels, ~trainer.held_out
    last = trainer.predict_proba(trainer.inputs).numpy()
    assert (last.argmax(axis=1) == train.labels)[used].mean() > 0.97  # memorized indeed
    report = from_dynamics(trainer.recorded())
    by_the_end = roc_auc_score(wrong[used], -last[used, train.labels[used]])
    assert by_the_end < 0.85
    assert roc_auc_score(wrong[used], -report.label_right_prob[used]) > 0.97
    assert any("it has memorized labels. Only early predictions are used" in words for words in report.warnings)
    assert report.noise_rate == pytest.approx(wrong.mean(), abs=0.1)
    after = score(last[used], train.labels[used])
    assert after.noise_rate < 0.1
    assert calibration_error(after.label_right_prob, ~wrong[used]) > 0.3
    assert calibration_error(report.label_right_prob, ~wrong) < 0.1
    if trainer.held_out.any():
        assert report.noise_rate_low <= wrong.mean() <= report.noise_rate_high
        assert "held_out" in report.estimators


def test_held_out_labels_calibrate_what_was_memorized() -> None:
    """The margin of training labels is lowered to the usual lead, and left alone where it is not above that."""
    here = world(n=4000)
    held_out = np.arange(4000) % 5 == 0
    led = np.log(here.p)
    rows = np.flatnonzero(~held_out)
    led[rows, here.labels[rows]] += 2.5
    led = np.exp(led) / np.exp(led).sum(axis=1, keepdims=True)
    chosen = choose_probabilities(led, None, here.labels, held_out)
    usual = np.log(here.p)
    usual[rows, here.labels[rows]] += USUAL_LEAD
    assert_allclose(chosen.probabilities, np.exp(usual) / np.exp(usual).sum(axis=1, keepdims=True), atol=0.05)
    assert "are subtracted" in chosen.warnings[0]
    assert choose_probabilities(here.p, None, here.labels, held_out).warnings == ()


def test_without_memorization_early_and_late_predictions_are_averaged() -> None:
    here, other = world(n=500), world(n=500, seed=1)
    chosen = choose_probabilities(here.p, other.p, here.labels, np.zeros(500, bool))
    late_agrees = (here.p.argmax(axis=1) == here.labels).mean()
    assert late_agrees - (other.p.argmax(axis=1) == here.labels).mean() > 0.1
    assert_array_equal(chosen.probabilities, other.p)  # late predictions agree with more labels than early ones
    assert_allclose(choose_probabilities(here.p, here.p, here.labels, np.zeros(500, bool)).probabilities, here.p)


def test_held_out_labels_decide_the_weight_of_a_linear_model() -> None:
    """Of two sets of probabilities one is uninformative: its weight is zero, whichever it is."""
    here = world(n=4000)
    held_out = np.arange(4000) % 5 == 0
    nothing = np.random.default_rng(17).dirichlet(np.full(here.p.shape[1], 50.0), 4000)
    network = mix_with_linear(Chosen(here.p), nothing, here.labels, held_out)
    linear = mix_with_linear(Chosen(nothing), here.p, here.labels, held_out)
    for found in (network, linear):
        calibrated = calibrate(log_probabilities(found.probabilities), here.labels)
        assert_allclose(np.exp(calibrated), np.exp(calibrate(np.log(here.p), here.labels)), atol=0.02)
    assert network.warnings == ()
    assert "a linear model predicts held-out labels better" in linear.warnings[0]


def test_two_views_that_err_apart_find_more_than_either() -> None:
    here = world(n=4000)
    wrong, held_out = here.labels != here.true, np.arange(4000) % 5 == 0
    rng = np.random.default_rng(17)
    first, second = (np.log(here.p) + 1.5 * rng.standard_normal(here.p.shape) for _ in range(2))
    first, second = (np.exp(v) / np.exp(v).sum(axis=1, keepdims=True) for v in (first, second))
    both = mix_with_linear(Chosen(first), second, here.labels, held_out).probabilities
    found = [roc_auc_score(wrong, -score(p, here.labels).label_right_prob) for p in (first, second, both)]
    assert found[2] > max(found[:2]) + 0.01


def test_a_network_that_memorized_and_is_worse_is_left_out() -> None:
    here = world(n=4000)
    held_out = np.arange(4000) % 5 == 0
    rng, rows = np.random.default_rng(17), np.flatnonzero(~held_out)
    first, second = (np.log(here.p) + noise * rng.standard_normal(here.p.shape) for noise in (3.0, 1.5))
    first[rows, here.labels[rows]] += 9.0  # memorized
    network, linear = (np.exp(v) / np.exp(v).sum(axis=1, keepdims=True) for v in (first, second))
    chosen = choose_probabilities(network, network, here.labels, held_out)
    alone = np.exp(calibrate(np.log(linear), here.labels))
    assert chosen.memorized
    both = mix_with_linear(chosen, linear, here.labels, held_out)
    assert_allclose(both.probabilities, alone, atol=1e-9)
    assert "its weight in this audit is 100 %" in both.warnings[-1]
    if_not = mix_with_linear(replace(chosen, memorized=False), linear, here.labels, held_out)
    assert np.abs(if_not.probabilities - alone).max() > 0.01
    assert "100 %" not in if_not.warnings[-1]


def test_without_held_out_labels_the_weight_of_a_linear_model_is_a_quarter() -> None:
    here, other = world(n=500), world(n=500, seed=1)
    found = mix_with_linear(Chosen(here.p), other.p, here.labels, np.zeros(500, bool)).probabilities
    logs = [calibrate(log_probabilities(p), here.labels) for p in (here.p, other.p)]
    mean = np.exp(0.75 * logs[0] + 0.25 * logs[1])
    assert_allclose(found, mean / mean.sum(axis=1, keepdims=True))


def test_a_folder_gives_the_audit_of_its_trainer(tmp_path: Path) -> None:
    dataset = replace(tiny(), data=DataConfig(name="digits", limit=300, holdout=0.1))
    run.train(dataset, tmp_path / "run")
    report = audit_run(tmp_path / "run")
    trainer = run.build_trainer(dataset, run.load_training_data(dataset), None)
    trainer.run()
    assert trainer.dynamics is not None
    same = from_dynamics(trainer.recorded(), classes=report.classes)
    assert_array_equal(report.label_right_prob, same.label_right_prob)
    assert_array_equal(report.rank, same.rank)
    assert report.summary() == same.summary()
    assert_array_equal(report.evidence["label_used_in_loss"], ~trainer.held_out)
    assert report.evidence.keys() >= {"margin_avg", "p_mean", "p_std", "agree", "forget", "first_agree"}
    held = int(np.flatnonzero(trainer.held_out)[0])
    assert "held out: this label was not used for training" in report.why[held]
    features = run.row_features(tmp_path / "run")
    assert len(features) == 300
    assert "knn_agree" in audit_run(tmp_path / "run", features=features).evidence


def test_rows_of_vectors_are_their_own_features(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x, y=np.arange(40) % 2)
    run.train(tiny(data=DataConfig(name=str(tmp_path / "x.npz")), noise=NoiseConfig()), tmp_path / "run")
    assert_allclose(run.row_features(tmp_path / "run"), (x - x.mean(axis=0)) / x.std(axis=0), atol=1e-5)


def test_what_is_no_finished_run_with_dynamics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run"):
        audit_run(tmp_path)
    quiet = tiny(train=TrainConfig(epochs=1, batch_size=64, dynamics_every=0))
    run.train(quiet, tmp_path / "quiet")
    with pytest.raises(UserError, match=r"dynamics.safetensors is missing"):
        audit_run(tmp_path / "quiet")
    run.train(tiny(), tmp_path / "run")
    broken = tmp_path / "broken"
    shutil.copytree(tmp_path / "run", broken)
    (broken / "dynamics.safetensors").write_bytes(b"x")
    with pytest.raises(UserError, match=r"dynamics.safetensors is not a file written by pars, or is damaged"):
        audit_run(broken)
    (broken / "model.safetensors").unlink()
    with pytest.raises(UserError, match="is not finished: `pars resume"):
        audit_run(broken)
    with pytest.raises(UserError, match="dynamics have no 'late'"):
        from_dynamics({"given": np.zeros(3)})
