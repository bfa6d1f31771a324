"""Each part of the audit against a formula written another way."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize, minimize_scalar
from sklearn.neighbors import NearestNeighbors

from audit.worlds import world
from pars.audit import noise_model, scoring
from pars.audit.calibration import (
    Calibrated,
    calibrate,
    class_thresholds,
    log_probabilities,
    softmax,
    subsample,
    temperature_for_confidence,
)
from pars.audit.noise_model import (
    CENTERS,
    NoiseModel,
    dawid_skene,
    fit_flip_probs,
    fit_noise_model,
    fit_rates,
    transition_em,
)
from pars.audit.posterior import estimated_accuracy, label_margin, prediction_margin
from pars.audit.scoring import neighbor_votes

RNG = np.random.default_rng(0)


def test_the_label_temperature_is_the_most_likely_one() -> None:
    here = world(n=500)
    log_p = log_probabilities(here.p**2 / (here.p**2).sum(axis=1, keepdims=True))

    def loss(log_tau: float) -> float:
        q = softmax(log_p, np.exp(log_tau))
        return -float(np.log(q[np.arange(500), here.labels]).sum())

    expected = np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-8}).x)
    scaled = calibrate(log_p, here.labels)
    tau = (log_p[0, 0] - log_p[0, 1]) / (scaled[0, 0] - scaled[0, 1])
    assert tau == pytest.approx(expected, rel=1e-3)
    assert expected == pytest.approx(2, rel=0.15)


def test_a_class_threshold_is_the_mean_self_confidence_of_its_rows() -> None:
    here = world(n=2000)
    usual = class_thresholds(np.log(here.p[np.arange(2000), here.labels]), here.labels, 5)
    for k in range(5):
        assert usual[k] == pytest.approx(here.p[here.labels == k, k].mean(), abs=0.005)


def test_a_matched_temperature_has_the_confidence_asked_for() -> None:
    logits = 3 * RNG.standard_normal((400, 6))
    for target in (0.6, 0.8, 0.99):
        tau = temperature_for_confidence(logits, target)
        assert softmax(logits, tau).max(axis=1).mean() == pytest.approx(max(target, 0.0), abs=1e-3) or tau > 0.999


def test_rates_are_those_of_a_penalized_logistic_regression() -> None:
    total = RNG.integers(0, 60, (noise_model.BINS, 3)).astype(float)
    true = 1 / (1 + np.exp(-(np.array([-2.0, -1.0, 0.5]) + 1.5 * CENTERS[:, None])))
    wrong = RNG.binomial(total.astype(int), true).astype(float)
    mean = np.log((wrong.sum() + 0.5) / (total.sum() - wrong.sum() + 0.5))

    def loss(theta: np.typing.NDArray[np.float64]) -> float:
        z = theta[:3] + theta[3] * CENTERS[:, None]
        likelihood = (wrong * z - total * np.logaddexp(0, z)).sum()
        return float(-likelihood + ((theta[:3] - mean) ** 2).sum() / 2 + theta[3] ** 2 / 18)

    best = minimize(loss, np.zeros(4), tol=1e-12).x
    a, b = fit_rates(total, wrong)
    assert_allclose([*a, b], best, atol=1e-4)


def test_rates_of_no_wrong_and_of_only_wrong_labels_are_finite() -> None:
    total = np.ones((noise_model.BINS, 4)) * [5, 0, 1, 100]
    for share in (0.0, 1.0):
        a, b = fit_rates(total, total * share)
        assert np.isfinite([*a, b]).all()
        assert (abs(a) < 20).all()


def test_flip_probabilities_are_smoothed_when_counts_are_few() -> None:
    rng = np.random.default_rng(1)
    even = np.stack([rng.multinomial(6, np.ones(30) / 30) for _ in range(30)]).astype(float)
    assert_allclose(fit_flip_probs(even).sum(axis=1), 1)
    assert (np.diag(fit_flip_probs(even)) == 0).all()
    assert fit_flip_probs(even).max() < 0.15  # cells of one or two rows are smoothed
    to_the_next = np.roll(np.eye(30), 1, axis=1) * 40
    assert fit_flip_probs(to_the_next)[3, 4] > 0.9


def test_the_likelihood_of_a_label_is_a_distribution_over_labels() -> None:
    model = NoiseModel(RNG.standard_normal(4), 1.3, fit_flip_probs(RNG.integers(0, 9, (4, 4)).astype(float)))
    difficulty = RNG.random(50)
    total = sum(model.likelihood(difficulty, np.full(50, k)) for k in range(4))
    assert_allclose(total, 1)


def test_denoising_undoes_the_noise() -> None:
    k = 4
    clean = np.full((4, k), 0.01) + 0.96 * np.eye(k)
    turns = np.roll(np.eye(k), 1, axis=1)
    model = NoiseModel(np.full(k, np.log(0.4 / 0.6)), 0.0, turns)
    noisy = clean @ (0.6 * np.eye(k) + 0.4 * turns)
    before, after = np.abs(noisy - clean).sum(), np.abs(np.exp(model.denoise(np.log(noisy), np.zeros(4))) - clean).sum()
    assert after < 0.35 * before


def test_with_many_classes_denoising_of_the_largest_is_close_to_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    n, k = 300, 400
    rng = np.random.default_rng(5)
    logits = 1.5 * rng.standard_normal((n, k))
    logits[np.arange(n), rng.integers(k, size=n)] += 8
    for flips, share in ((np.roll(np.eye(k), 1, axis=1), 0.85), ((1 - np.eye(k)) / (k - 1), 0.9999)):
        p = softmax(logits, 1.0)
        noisy = 0.7 * p + 0.3 * p @ flips
        model = NoiseModel(np.full(k, np.log(0.3 / 0.7)), 0.0, flips)
        exact = np.exp(model.denoise(np.log(noisy), np.zeros(n)))
        monkeypatch.setattr(noise_model, "DENSE_CLASSES", 100)
        close = np.exp(model.denoise(np.log(noisy), np.zeros(n)))
        monkeypatch.undo()
        assert_allclose(close.sum(axis=1), 1, rtol=1e-3)
        rows, best = np.arange(n), exact.argmax(axis=1)
        assert (close.argmax(axis=1) == best).all()
        of_exact, of_close = ((found - noisy)[rows, best].mean() for found in (exact, close))
        assert of_exact > 0.1  # there is something to take out
        assert share * of_exact < of_close <= 1.0001 * of_exact


def test_the_prior_of_many_classes_is_chosen_from_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.random.default_rng(6).poisson(2.0, (200, 200)).astype(float)
    exact = fit_flip_probs(counts)
    monkeypatch.setattr(noise_model, "PRIOR_CELLS", 200 * 50)
    assert_allclose(fit_flip_probs(counts), exact)


def test_calibrated_rows_are_those_of_all_rows_at_once() -> None:
    here = world(n=500)
    labels = np.where(np.arange(500) % 7 == 0, -1, here.labels)
    lazy, every = Calibrated(here.p, labels), calibrate(log_probabilities(here.p), labels)
    rows = np.array([3, 400, 7])
    assert lazy.shape == (500, 5)
    assert (lazy[rows] == every[rows]).all()
    assert (lazy[10:40] == every[10:40]).all()
    assert (lazy.best() == every.argmax(axis=1)).all()
    assert (lazy.of_class(here.labels) == every[np.arange(500), here.labels]).all()


def test_the_noise_model_finds_the_rates_that_made_the_labels() -> None:
    rng = np.random.default_rng(2)
    n, k = 20_000, 3
    true, difficulty = rng.integers(k, size=n), rng.random(n)
    rates = 1 / (1 + np.exp(-(np.array([-2.0, -1.5, -1.0])[true] + 2.0 * (difficulty - 0.5))))
    labels = np.where(rng.random(n) < rates, (true + 1) % k, true)
    clean = np.full((n, k), 0.005)
    clean[np.arange(n), true] = 0.99
    model = fit_noise_model(clean, labels, difficulty)
    assert_allclose(model.a, [-2.0, -1.5, -1.0], atol=0.1)
    assert model.b == pytest.approx(2.0, abs=0.2)
    assert (model.flip_probs[np.arange(k), (np.arange(k) + 1) % k] > 0.98).all()


def test_accuracy_is_read_off_agreement_with_noisy_labels() -> None:
    rng = np.random.default_rng(3)
    n, k = 50_000, 5
    true = rng.integers(k, size=n)
    predicted = np.where(rng.random(n) < 0.85, true, (true + rng.integers(1, k, size=n)) % k)
    labels = np.where(rng.random(n) < 0.3, (true + rng.integers(1, k, size=n)) % k, true)
    uniform = (1 - np.eye(k)) / (k - 1)
    model = NoiseModel(np.full(k, np.log(0.3 / 0.7)), 0.0, uniform)
    assert estimated_accuracy(np.eye(k)[predicted], labels, np.zeros(n), model) == pytest.approx(0.85, abs=0.01)


def em_by_loops(clean: list[list[float]], labels: list[int], k: int) -> float:
    t = [[0.8 if i == j else 0.2 / (k - 1) for j in range(k)] for i in range(k)]
    n, right = len(labels), 0.8
    given = [(labels.count(j) + 1) / (n + k) for j in range(k)]
    for _ in range(60):
        q = []
        for g, y in zip(clean, labels, strict=True):
            row = [g[j] * t[j][y] for j in range(k)]
            q.append([value / sum(row) for value in row])
        right = sum(row[y] for row, y in zip(q, labels, strict=True)) / n
        for j in range(k):
            row = [
                sum(p[j] for p, y in zip(q, labels, strict=True) if y == c)
                + 10 * (right * (j == c) + (1 - right) * given[c])
                for c in range(k)
            ]
            t[j] = [value / sum(row) for value in row]
    return 1 - right


def test_the_transition_em_is_that_of_plain_loops() -> None:
    here = world(n=150, k=3, sharp=6.0)
    clean = here.p / here.p.sum(axis=1, keepdims=True)
    rate, transition = transition_em(clean, here.labels)
    assert rate == pytest.approx(em_by_loops(clean.tolist(), here.labels.tolist(), 3), abs=1e-4)
    assert_allclose(transition.sum(axis=1), 1)


def test_three_independent_voters_give_the_noise_rate() -> None:
    rng = np.random.default_rng(4)
    n, k = 6000, 6
    true = rng.integers(k, size=n)
    votes = [np.where(rng.random(n) < rate, (true + rng.integers(1, k, size=n)) % k, true) for rate in (0.3, 0.2, 0.25)]
    assert dawid_skene(votes[0], votes[1:], k) == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("cells", [2**24, 700])
def test_votes_of_neighbors_are_those_of_scikit_learn(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "CELLS", cells)
    features, classes = RNG.standard_normal((90, 7)), RNG.integers(4, size=90)
    classes[::8] = -1
    votes = neighbor_votes(features, classes, n_classes=4, k=6)
    centered = features - features.mean(axis=0)
    voters = np.flatnonzero(classes >= 0)
    order = NearestNeighbors(n_neighbors=len(voters), metric="cosine").fit(centered[voters]).kneighbors(centered)[1]
    for row in range(90):
        nearest = [voters[j] for j in order[row] if voters[j] != row][:6]
        assert_allclose(votes[row], np.bincount(classes[nearest], minlength=4) / 6)


def test_of_many_rows_some_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "VOTERS", 50)
    true = np.arange(300) % 3
    features = np.eye(3)[true] + 0.05 * RNG.standard_normal((300, 3))
    votes = neighbor_votes(features, true, n_classes=3, k=5)
    assert (votes.argmax(axis=1) == true).all()


def test_a_single_row_has_no_neighbors() -> None:
    assert (neighbor_votes(np.ones((1, 2)), np.array([0]), n_classes=2) == 0).all()


def test_margins_by_hand() -> None:
    logits = np.array([[3.0, 1.0, 0.0], [0.5, 2.0, 1.5]])
    assert_allclose(prediction_margin(logits), [2.0, 0.5])
    assert_allclose(label_margin(logits, np.array([1, 1])), [-2.0, 0.5])


def test_spread_rows_are_evenly_spread() -> None:
    assert subsample(np.arange(10), 3, 4).tolist() == [0, 3, 6, 9]
    assert subsample(np.arange(3), 3, 4).tolist() == [0, 1, 2]


def test_the_largest_of_many_columns_are_those_of_a_sort() -> None:
    values = np.random.default_rng(8).standard_normal((50, 5003)).astype(np.float32)
    found = scoring.largest(values, 10)
    expected = np.argsort(-values, axis=1)[:, :10]
    assert (np.sort(found, axis=1) == np.sort(expected, axis=1)).all()
