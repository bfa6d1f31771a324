"""AugDesc (Nishi et al. 2021): DivideMix that describes rows by weak views and descends on strong ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from pars.method_api import Cited, Entry, Recipe, Setting, code, ours, paper
from pars.methods.dividemix import (
    DIFFERS,
    DivideMix,
    StepView,
    clothing1m_method,
    clothing1m_train,
    is_published,
    nearest_rate,
    published_method,
    published_train,
)


@dataclass(frozen=True, kw_only=True)
class AugDesc(DivideMix):
    """DivideMix with two kinds of views. WS: labels are made from weak views, gradients from strong ones.

    WAW and SAW: the warm-up trains on weak or on strong views. With `descent_view` weak it is DivideMix.
    """

    descent_view: StepView = "strong"


def schedule(setting: Setting, warm_up_view: StepView) -> tuple[int, int]:
    """The epochs of the preset for this noise, and the epoch at which the learning rate drops."""
    weak = warm_up_view == "weak"
    if setting.data == "cifar100":
        return 400, 300
    if setting.asymmetric:
        return (350, 250) if weak else (300, 150)
    by_rate = {0.2: (300, 150), 0.5: (300, 150 if weak else 200), 0.8: (350, 200), 0.9: (350, 250)}
    return by_rate[nearest_rate(setting)]


def published(setting: Setting, *, warm_up_view: StepView = "weak", use_unlabeled: bool = False) -> Recipe:
    method: dict[str, Cited] = {"use_unlabeled": paper(use_unlabeled), "warm_up_view": paper(warm_up_view)}
    if setting.data == "small":
        # From pixels, by held-out labels (small_settings.py): a small network hardly learns the published mixtures.
        return Recipe(AugDesc, method=method | ({"lambda_u": ours(5.0), "alpha": ours(0.5)} if setting.pixels else {}))
    views: dict[str, Cited] = {
        "analysis_view": code("plain"),
        "guess_view": paper("weak"),
        "descent_view": paper("strong"),
    }
    if setting.data == "clothing1m":
        return Recipe(
            AugDesc,
            method=method | views | clothing1m_method(),
            train=clothing1m_train(80),
            views={"strong": code("autoaugment"), "policy": code("imagenet")},  # its strong warm-up: "cifar10"
        )
    epochs, drop = schedule(setting, warm_up_view)
    train = published_train(epochs, drop)
    if not is_published(setting):
        train |= {name: ours(train[name].value) for name in ("epochs", "milestones")}
    return Recipe(
        AugDesc,
        method=method
        | views
        | published_method(setting, epochs, ratio=1.0, answered_in=code)
        # The presets do not have it; the code is a fork of DivideMix.
        | {"confidence_penalty": ours(1.0 if setting.asymmetric else 0.0)},
        train=train,
        views={"strong": code("autoaugment"), "policy": code("cifar10")},  # on CIFAR-100, too
    )


ABOUT: dict[str, Any] = {
    "authors": "Nishi et al.",
    "year": 2021,
    "link": "https://arxiv.org/abs/2103.02130",
    "cost": 6 + 2 / 3,  # with labeled and unlabeled batches of half a batch; published are whole ones, at twice that
    "needs": ("strong views",),
}
ENTRIES = (
    Entry(
        name="augdesc-ws-waw",
        title="Augmented Descent, weak warm-up",
        aliases=("DM-AugDesc-WS-WAW",),
        summary="DivideMix whose labels are made from weak views and whose gradients come from strong ones; warm-up "
        "on weak views",
        recipe=published,
        tuned={"lambda_u": (0.0, 25.0, 150.0), "p_threshold": (0.3, 0.5, 0.7)},
        differs=DIFFERS,
        **ABOUT,
    ),
    Entry(
        name="augdesc-ws-saw",
        title="Augmented Descent, strong warm-up",
        aliases=("DM-AugDesc-WS-SAW",),
        summary="AugDesc with a warm-up on strong views",
        recipe=partial(published, warm_up_view="strong"),
        tuned={"lambda_u": (0.0, 25.0, 150.0), "p_threshold": (0.3, 0.5, 0.7)},
        differs="as augdesc-ws-waw; strong views on Clothing1M have ImageNet's policy in the warm-up, too",
        **ABOUT,
    ),
    Entry(
        name="augdesc-ws",
        title="Augmented Descent",
        summary="AugDesc for few labels, which it uses alone: augdesc-ws-waw",
        recipe=published,
        differs="as augdesc-ws-waw; the table with few labels does not say which warm-up it had",
        **ABOUT,
    ),
    Entry(
        name="augdesc-ws+",
        title="Augmented Descent with unlabeled rows",
        summary="AugDesc for few labels: rows that never had one join the unlabeled part",
        recipe=partial(published, use_unlabeled=True),
        differs="as augdesc-ws, whose public code has no unlabeled rows; λ_u is that of the noise",
        **ABOUT,
    ),
)
