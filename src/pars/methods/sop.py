"""SOP and SOP+ (Liu et al. 2022): a sparse noise vector per row, learned with the network, explains wrong labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pars.lazy import F, torch
from pars.losses import class_balance, reduce
from pars.method_api import (
    Cited,
    Entry,
    Epoch,
    Losses,
    Method,
    Recipe,
    Setting,
    Stage,
    State,
    Step,
    Task,
    code,
    recall,
    third_party,
)
from pars.methods.parts.targets import kl_divergence, one_hot

if TYPE_CHECKING:
    from torch import Tensor

FLOOR = 1e-4  # of q and of the mean of q, before their logarithms


@dataclass(frozen=True, kw_only=True)
class SOP(Method):
    """p + s is fitted to the given label e_y, with s = u²·e_y - v²·(1 - e_y) of each row's own u and v.

    Squares of parameters that begin near 0, learned by plain gradient descent, stay 0 but where the network keeps
    contradicting the label. With λ_C and λ_B it is SOP+.
    """

    lr_u: float = 10.0  # learning rate of u, the mass that the given label has without reason
    lr_v: float = 10.0  # learning rate of v, the mass that the other classes lack
    sigma: float = 1e-3  # standard deviation that u and v begin with; the published 1e-8 is for hundreds of epochs
    lambda_C: float = 0.0  # consistency of strong with weak views
    lambda_B: float = 0.0  # balance of classes

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_weights("lr_u", "lr_v", "lambda_C", "lambda_B")
        self.require(0 <= self.sigma <= 1, "sigma", "a number from 0 (never leaves 0) to 1")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        return (Stage("train", task.epochs, self.step, before_epoch=self.draw_first_values),)

    def initial_state(self, task: Task) -> State:
        return {"u": torch.zeros(task.n_rows), "v": torch.zeros(task.n_rows, task.n_classes)}

    def draw_first_values(self, epoch: Epoch) -> None:
        if epoch.index == 0:
            for name in ("u", "v"):
                values = epoch.state[name]
                drawn = torch.from_numpy(self.sigma * epoch.rng.standard_normal(values.shape))
                values.copy_(drawn)

    def step(self, step: Step) -> Losses:
        labels = step.batch.labels
        if self.lambda_C:
            logits, strong = step.net.together(step.batch.weak, step.batch.strong)
        else:
            logits = strong = step.net(step.batch.weak)
        given = one_hot(labels, logits.shape[1])
        u, v = step.row_parameter("u", lr=self.lr_u), step.row_parameter("v", lr=self.lr_v)
        U = (u[:, None] ** 2 * given).clamp(0, 1)
        V = (v**2 * (1 - given)).clamp(0, 1)
        p = logits.float().softmax(dim=1)
        step.record_selection("agrees", step.batch, logits, u.detach() ** 2 < 0.5)
        # v is learned by L_2 alone: cross-entropy would use it to take the other classes away.
        q = F.normalize((p + U - V.detach()).clamp_min(FLOOR), p=1, dim=1).clamp(FLOOR, 1)
        predicted = one_hot(p.argmax(dim=1), logits.shape[1])
        losses = {
            "ce": reduce.mean(-q.gather(1, labels[:, None])[:, 0].log()),  # L_1
            "noise": reduce.mean((predicted + U - V - given).square().sum(dim=1)),  # L_2: its gradient is u's and v's
        }
        if self.lambda_B:
            losses["balance"] = self.lambda_B * class_balance(reduce.mean_probabilities(q), floor=FLOOR)
        if self.lambda_C:
            losses["consistency"] = self.lambda_C * reduce.mean(kl_divergence(logits.detach(), strong))
        return losses

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        """How much of the given label is noise, and how much every class lacks for it: 0 to 1."""
        return {"given_noise": state["u"].square().clamp(0, 1), "class_noise": state["v"].square().clamp(0, 1)}


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(SOP)
    train = {
        "epochs": third_party(120),
        "schedule": third_party("steps"),
        "milestones": third_party((40 / 120, 80 / 120)),
    }
    return Recipe(SOP, method=noise_vectors(setting), train=common(setting) | train)


def published_plus(setting: Setting) -> Recipe:
    plus = {"lambda_C": code(0.9), "lambda_B": code(0.1)}
    if setting.data == "small":
        return Recipe(SOP, method=plus)
    train = {"epochs": code(300), "schedule": code("cosine"), "floor": code(0.01)}
    return Recipe(
        SOP, method=noise_vectors(setting) | plus, train=common(setting) | train, views={"strong": code("autoaugment")}
    )


def noise_vectors(setting: Setting) -> dict[str, Cited]:
    sigma = {"sigma": code(1e-8)}
    if setting.data != "cifar100":
        # No code has a recipe of its own for asymmetric noise here: third parties train everything at 10.
        of_v = recall(100.0) if setting.noise.kind == "asymmetric" else third_party(10.0)
        return sigma | {"lr_u": third_party(10.0), "lr_v": of_v}
    lr_u, lr_v = (0.1, 100.0) if setting.asymmetric else (1.0, 10.0)
    return sigma | {"lr_u": code(lr_u), "lr_v": code(lr_v)}


def common(setting: Setting) -> dict[str, Cited]:
    decay = code(1e-3) if setting.data == "cifar100" else third_party(5e-4)
    return {"lr": code(0.02), "weight_decay": decay, "batch_size": code(128)}


ABOUT: dict[str, Any] = {"authors": "Liu et al.", "year": 2022, "link": "https://arxiv.org/abs/2202.14026"}
ENTRIES = (
    Entry(
        name="sop",
        title="Sparse Over-Parameterization",
        summary="learns a sparse noise vector for each row beside the network, so that wrong labels need not be fitted",
        cost=1.0,
        recipe=published,
        tuned={"lr_u": (1.0, 10.0), "lr_v": (10.0, 100.0)},
        differs="a small run begins with larger noise vectors (sigma)",
        **ABOUT,
    ),
    Entry(
        name="sop+",
        title="Sparse Over-Parameterization, with consistency and balance",
        summary="SOP, strong views that have to agree with weak ones, and a balance of classes",
        cost=2.0,
        recipe=published_plus,
        tuned={"lr_u": (1.0, 10.0), "lr_v": (10.0, 100.0)},
        needs=("strong views",),
        differs="as sop; the strong view crops before AutoAugment, not after it, and paints no square over",
        **ABOUT,
    ),
)
