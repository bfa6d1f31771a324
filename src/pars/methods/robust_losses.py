"""Robust losses as methods: plain training on the given labels with a loss that a wrong label cannot pull far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pars.method_api import Cited, Entry, Recipe, Setting, code, ours, paper, recall, third_party
from pars.methods.supervised import Supervised

# Small runs weigh reverse cross-entropy less: at full weight it is soon sure, and under pair noise of the wrong class.
ON_CLOTHING1M: dict[str, Cited] = {  # of every loss in a later paper's code
    "epochs": third_party(10),
    "batch_size": third_party(256),
    "lr": third_party(5e-3),
    "momentum": third_party(0.9),
    "schedule": third_party("steps"),
    "milestones": third_party((0.5,)),
    "gamma": third_party(0.1),
}
A = "A=-9.2103"  # log 0 as Wang et al.'s and Ma et al.'s code have it, log 1e-4; Wang et al.'s paper says -4


def trained_with(
    ten_classes: str, hundred_classes: str | None = None, *, small: str | None = None, clothing1m: str | None = None
) -> Callable[[Setting], Recipe]:
    """A recipe of cross-entropy's, with another loss: for CIFAR-100 and others its own, where it has one."""

    def published(setting: Setting) -> Recipe:
        if setting.data == "small":
            return Recipe(Supervised, method={"loss": ours(small) if small else code(ten_classes)})
        if setting.data == "clothing1m" and clothing1m:
            return Recipe(Supervised, method={"loss": third_party(clothing1m)}, train=ON_CLOTHING1M)
        text = hundred_classes if hundred_classes and setting.data == "cifar100" else ten_classes
        clip = {"grad_clip": code(5.0)}  # in Ma et al.'s code, for every loss
        return Recipe(Supervised, method={"loss": code(text)}, train=clip)

    return published


def published_imae(setting: Setting) -> Recipe:
    """T = 8 for all data; 64 000 steps, drops at 32 000 and 48 000."""
    loss = {"loss": paper("imae(T=8)")}
    if setting.data == "small":
        return Recipe(Supervised, method=loss)
    return Recipe(
        Supervised,
        method=loss,
        train={
            "epochs": paper(164),
            "schedule": paper("steps"),
            "milestones": paper((0.5, 0.75)),
            "gamma": recall(0.1),
            "lr": recall(0.1),
            "momentum": recall(0.9),
            "weight_decay": recall(1e-4),
            "batch_size": recall(128),
        },
    )


ACTIVE_PASSIVE: dict[str, Any] = {
    "authors": "Ma et al.",
    "year": 2020,
    "link": "https://arxiv.org/abs/2006.13554",
    "cost": 1.0,
}
ENTRIES = (
    Entry(
        name="mae",
        title="Mean absolute error",
        authors="Ghosh et al.",
        year=2017,
        link="https://arxiv.org/abs/1712.09482",
        summary="1 - p_y: robust to symmetric noise, but slow to learn many classes",
        cost=1.0,
        recipe=trained_with("mae"),
    ),
    Entry(
        name="gce",
        title="Generalized cross-entropy",
        authors="Zhang & Sabuncu",
        year=2018,
        link="https://arxiv.org/abs/1805.07836",
        summary="(1 - p_y^q)/q: between cross-entropy (q = 0) and mean absolute error (q = 1)",
        cost=1.0,
        recipe=trained_with("gce(q=0.7)", clothing1m="gce(q=0.6)"),
        differs="not truncated",
    ),
    Entry(
        name="sce",
        title="Symmetric cross-entropy",
        authors="Wang et al.",
        year=2019,
        link="https://arxiv.org/abs/1908.06112",
        summary="cross-entropy and, with label and prediction exchanged, its reverse",
        cost=1.0,
        recipe=trained_with(
            f"sce(alpha=0.1,beta=1,{A})", f"sce(alpha=6,beta=0.1,{A})", clothing1m=f"sce(alpha=10,beta=1,{A})"
        ),
        differs="log 0 is -9.21 as in the code, not -4 as in the paper",
    ),
    Entry(
        name="imae",
        title="IMAE: mean absolute error, improved",
        authors="Wang et al.",
        year=2019,
        link="https://arxiv.org/abs/1903.12141",
        summary="cross-entropy scaled row by row, so that uncertain rows weigh most and none weighs nothing",
        cost=1.0,
        recipe=published_imae,
        differs="the recipe for ten classes is used for a hundred, too",
    ),
    Entry(
        name="focal",
        title="Focal loss",
        authors="Lin et al.",
        year=2017,
        link="https://arxiv.org/abs/1708.02002",
        summary="cross-entropy that weighs rows down that are already predicted well; made for rare classes, not noise",
        cost=1.0,
        recipe=trained_with("focal(gamma=0.5)", clothing1m="focal(gamma=0.5)"),
        robust=False,
    ),
    Entry(
        name="nce",
        title="Normalized cross-entropy",
        summary="cross-entropy over its sum for all labels: robust, but it underfits alone",
        recipe=trained_with("nce"),
        **ACTIVE_PASSIVE,
    ),
    Entry(
        name="nce+mae",
        title="Active-passive loss NCE+MAE",
        summary="normalized cross-entropy, plus mean absolute error",
        recipe=trained_with("nce+mae", "10*nce+mae"),
        **ACTIVE_PASSIVE,
    ),
    Entry(
        name="nce+rce",
        title="Active-passive loss NCE+RCE",
        summary="normalized cross-entropy, plus reverse cross-entropy",
        recipe=trained_with(
            f"nce+rce({A})",
            f"10*nce+0.1*rce({A})",
            small=f"nce+0.1*rce({A})",
            clothing1m=f"10*nce+rce({A})",
        ),
        **ACTIVE_PASSIVE,
    ),
    Entry(
        name="nfl+mae",
        title="Active-passive loss NFL+MAE",
        summary="normalized focal loss, plus mean absolute error",
        recipe=trained_with("nfl(gamma=0.5)+mae", "10*nfl(gamma=0.5)+mae"),
        **ACTIVE_PASSIVE,
    ),
    Entry(
        name="nfl+rce",
        title="Active-passive loss NFL+RCE",
        summary="normalized focal loss, plus reverse cross-entropy",
        recipe=trained_with(
            f"nfl(gamma=0.5)+rce({A})", f"10*nfl(gamma=0.5)+0.1*rce({A})", small=f"nfl(gamma=0.5)+0.1*rce({A})"
        ),
        **ACTIVE_PASSIVE,
    ),
)
