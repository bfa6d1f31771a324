"""Which Gaussian mixture is fastest on 50 000 losses, at equal posteriors: scikit-learn's, or EM in numpy or torch?

    python benchmarks/mixture.py      # writes results/mixture.jsonl, seconds

All of them stop by the same rule (10 iterations, tolerance 1e-2). `sklearn` is DivideMix's call, which starts from
k-means; `sklearn, same start` is given the best split of the sorted values, where `ours` (`fit_gaussian_mixture`, in
numpy) and `torch` start. Milliseconds are medians over 21 interleaved rounds, one thread; `difference` is the largest
difference of a posterior from scikit-learn's with the same start.
"""

from __future__ import annotations

import json
import math
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from sklearn.mixture import GaussianMixture
from torch import Tensor

from pars.methods.parts.loss_mixture import fit_gaussian_mixture, min_max_normalize

Array = npt.NDArray[np.float64]
RESULTS = Path(__file__).parent.parent / "results"
N, ROUNDS = 50_000, 21


def losses_of(n: int, noisy: float) -> Array:
    """Cross-entropies as a warmed-up network has them: many near 0, the wrong labels' around 3."""
    rng = np.random.default_rng(0)
    few = int(noisy * n)
    return rng.permutation(np.concatenate([rng.gamma(1, 0.3, n - few), rng.gamma(6, 0.5, few)]))


def best_split(x: Array) -> npt.NDArray[np.bool_]:
    """The upper of two clusters with the least sum of squares."""
    order = np.sort(x)
    n = np.arange(1, len(x))
    below, total = order.cumsum()[:-1], order.sum()
    upper: npt.NDArray[np.bool_] = x > order[int((below**2 / n + (total - below) ** 2 / (len(x) - n)).argmax())]
    return upper


def by_sklearn(x: Array, *, same_start: bool) -> Array:
    start = {}
    if same_start:
        high = best_split(x)
        groups = [x[~high], x[high]]
        start = {
            "weights_init": [len(group) / len(x) for group in groups],
            "means_init": [[group.mean()] for group in groups],
            "precisions_init": [[[1 / (group.var() + 5e-4)]] for group in groups],
        }
    fit = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0, **start).fit(x[:, None])
    low: Array = fit.predict_proba(x[:, None])[:, int(fit.means_.argmin())]
    return low


def by_torch(x: Array) -> Array:
    values = torch.from_numpy(x)
    high = torch.from_numpy(best_split(x))
    weight, mean, variance = _parameters(values, torch.stack([~high, high]).double())
    before = -math.inf
    for _ in range(10):
        first, second = _log_joint(values, weight, mean, variance)
        low = torch.sigmoid(first - second)
        weight, mean, variance = _parameters(values, torch.stack([low, 1 - low]))
        likelihood = float(torch.logaddexp(first, second).mean())
        if abs(likelihood - before) < 1e-2:
            break
        before = likelihood
    first, second = _log_joint(values, weight, mean, variance)
    out: Array = torch.sigmoid(first - second if mean[0] < mean[1] else second - first).numpy()
    return out


def _parameters(x: Tensor, posterior: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    count = posterior.sum(dim=1)
    mean = posterior @ x / count
    return count / len(x), mean, ((x - mean[:, None]) ** 2 * posterior).sum(dim=1) / count + 5e-4


def _log_joint(x: Tensor, weight: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    square = (x - mean[:, None]) ** 2 / variance[:, None]
    return weight.log()[:, None] - 0.5 * (square + (2 * math.pi * variance).log()[:, None])


def by_ours(x: Array) -> Array:
    out: Array = fit_gaussian_mixture(torch.from_numpy(x), normalize=False).low.numpy()
    return out


def main() -> None:
    warnings.simplefilter("ignore")  # ten iterations may be too few to converge
    torch.set_num_threads(1)
    fits: dict[str, Callable[[Array], Array]] = {
        "sklearn": lambda x: by_sklearn(x, same_start=False),
        "sklearn, same start": lambda x: by_sklearn(x, same_start=True),
        "torch": by_torch,
        "ours": by_ours,
    }
    lines = []
    for noisy in (0.2, 0.5, 0.8):
        x = min_max_normalize(torch.from_numpy(losses_of(N, noisy))).numpy()
        expected = by_sklearn(x, same_start=True)
        seconds: dict[str, list[float]] = {name: [] for name in fits}
        for _ in range(ROUNDS):
            for name, fit in fits.items():
                begin = time.perf_counter()
                fit(x)
                seconds[name].append(time.perf_counter() - begin)
        milliseconds = {name: round(1000 * statistics.median(each), 1) for name, each in seconds.items()}
        difference = {name: float(f"{np.abs(fit(x) - expected).max():.2g}") for name, fit in fits.items()}
        lines.append(
            {
                "rows": N,
                "noisy": noisy,
                "ratio": round(milliseconds["sklearn"] / milliseconds["ours"], 1),  # the others over ours
                "ratio_same_start": round(milliseconds["sklearn, same start"] / milliseconds["ours"], 1),
                "ratio_torch": round(milliseconds["torch"] / milliseconds["ours"], 1),
                "milliseconds": milliseconds,
                "difference": difference,
                "command": "python benchmarks/mixture.py",
            }
        )
        print(json.dumps(lines[-1]))
    (RESULTS / "mixture.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
