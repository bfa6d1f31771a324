"""Leave-one-out answers of ridge regression, against fitting it again without each row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from pars.engine.leave_one_out import LARGEST, PENALTIES, SHARPNESS, Regression, leave_one_out


def some_rows(n: int, d: int, n_classes: int = 3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    x = rng.standard_normal((n_classes, d))[labels] * 2 + rng.standard_normal((n, d)) * np.arange(1, d + 1) + 5
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(labels)


def refitted(
    x: torch.Tensor, labels: torch.Tensor, penalty: float
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """scikit-learn's ridge regression, once without each labeled row; columns scaled by all of these."""
    known = np.flatnonzero(labels.numpy() >= 0)
    z = x.double().numpy()
    z = (z - z[known].mean(axis=0)) / z[known].std(axis=0)
    targets = np.eye(int(labels.max()) + 1)[labels[known].numpy()]
    out = []
    for row in range(len(z)):
        others = known != row
        model = Ridge(alpha=penalty).fit(z[known[others]], targets[others])
        out.append(model.predict(z[row : row + 1])[0])
    return np.stack(out)


@pytest.mark.parametrize(("n", "d"), [(40, 6), (20, 30)], ids=["many rows", "many features"])
@pytest.mark.parametrize("penalty", [0.3, 50.0])
def test_a_row_is_answered_as_by_a_regression_that_was_fitted_without_it(n: int, d: int, penalty: float) -> None:
    x, labels = some_rows(n, d)
    labels[3] = -1
    regression = Regression(x, labels, 3)
    (answers,) = regression.without_own(regression.standardized(torch.arange(n)) @ regression.basis, labels, [penalty])
    np.testing.assert_allclose(answers.numpy(), refitted(x, labels, penalty), atol=1e-8)


def test_the_penalty_is_the_one_whose_answers_meet_most_labels() -> None:
    x, labels = some_rows(60, 8, seed=3)
    found = leave_one_out(x, labels, 3)
    assert found is not None
    z = (x.double() - x.double().mean(dim=0)) / x.double().std(dim=0, correction=0)
    scale = float(torch.linalg.eigvalsh(z.T @ z).mean())
    tried = [refitted(x, labels, scale * 10.0**power) for power in np.linspace(-3, 3, PENALTIES)]
    agreements = [(answers.argmax(axis=1) == labels.numpy()).mean() for answers in tried]
    best = tried[int(np.flatnonzero(np.array(agreements) == max(agreements))[-1])]
    expected = torch.from_numpy(SHARPNESS * best).softmax(dim=1)
    torch.testing.assert_close(found.double(), expected, atol=1e-3, rtol=0)


def test_no_label_speaks_for_itself() -> None:
    x, labels = some_rows(50, 5)
    before, changed = leave_one_out(x, labels, 3), labels.clone()
    changed[7] = (labels[7] + 1) % 3
    after = leave_one_out(x, changed, 3)
    assert before is not None
    assert after is not None
    assert (after[7] - before[7]).abs().max() < 0.02  # the penalty, chosen by all labels, may move
    assert not torch.equal(after, before)


def test_a_constant_feature_and_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, labels = some_rows(50, 5)
    whole = leave_one_out(x, labels, 3)
    monkeypatch.setattr("pars.engine.leave_one_out.BLOCK", 40)
    parts = leave_one_out(torch.cat([x, torch.full((50, 1), 3.0)], dim=1), labels, 3)
    assert whole is not None
    assert parts is not None
    torch.testing.assert_close(parts, whole, atol=1e-3, rtol=0)


def test_too_much_and_too_little_is_left_alone() -> None:
    x, labels = some_rows(20, 4)
    assert leave_one_out(x.view(20, 1, 2, 2), labels, 3) is None  # images
    assert leave_one_out(torch.zeros(LARGEST + 1, LARGEST + 1), torch.zeros(LARGEST + 1, dtype=torch.int64), 2) is None
    labels[2:] = -1
    assert leave_one_out(x, labels, 3) is None
