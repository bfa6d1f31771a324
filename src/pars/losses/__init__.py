"""Losses: pure functions `(logits [B, K], labels [B]) -> loss [B]`, computed in float32; reductions apart.

| name in a config | function | paper |
|---|---|---|
| `ce` | `cross_entropy` | – |
| `focal(gamma)` | `focal` | Lin et al. 2017 |
| `mae` | `mae` | Ghosh et al. 2017 |
| `rce(A)`, `sce(alpha,beta,A)` | `rce`, `sce` | Wang et al. 2019 |
| `gce(q)` | `gce` | Zhang & Sabuncu 2018 |
| `imae(T)` | `imae` | Wang et al. 2019 |
| `nce`, `nfl(gamma)` | `nce`, `nfl` | Ma et al. 2020 |
| – | `positive_learning`, `negative_learning` | Kim et al. 2019 |
| – | `class_balance` | Tanaka et al. 2018 |

`parse("10*nce+mae")` makes a `Loss` of a text; `mean` and `mean_probabilities` reduce over the global batch.
"""

from pars.losses.functions import (
    class_balance,
    cross_entropy,
    focal,
    gce,
    imae,
    mae,
    nce,
    negative_learning,
    nfl,
    positive_learning,
    rce,
    sce,
)
from pars.losses.reduce import mean, mean_probabilities
from pars.losses.spec import BASE_LOSSES, Loss, parse

__all__ = [
    "BASE_LOSSES",
    "Loss",
    "class_balance",
    "cross_entropy",
    "focal",
    "gce",
    "imae",
    "mae",
    "mean",
    "mean_probabilities",
    "nce",
    "negative_learning",
    "nfl",
    "parse",
    "positive_learning",
    "rce",
    "sce",
]
