"""SSR and SSR+ (Feng et al. 2022): relabel what the classifier is sure of, keep what its neighbors confirm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pars.lazy import F, nn, torch
from pars.losses import cross_entropy, reduce
from pars.method_api import (
    Cited,
    Draw,
    Entry,
    Epoch,
    Losses,
    Method,
    Recipe,
    Selection,
    Setting,
    Stage,
    State,
    Step,
    Task,
    code,
    readme,
    recall,
)
from pars.methods.parts.class_balance import balanced_vote, has_several_classes, oversample_classes
from pars.methods.parts.mixing import draw_mix
from pars.methods.parts.targets import one_hot

if TYPE_CHECKING:
    from torch import Tensor

HIDDEN, PROJECTED = 256, 128  # widths of the projector and the predictor


@dataclass(frozen=True, kw_only=True)
class SSR(Method):
    """Sample selection and relabeling anew before every epoch, from the given labels and a pass over weak views.

    Trained is mixup of strong views of the chosen rows, class-balanced, from the first epoch on. "+" (λ_fc > 0) adds
    feature consistency between weak and strong views of all rows, SimSiam's in one direction.
    """

    theta_r: float = 0.9  # confidence above which the prediction replaces the given label
    theta_s: float = 1.0  # a row is chosen if its label has this share of the winning class's votes; 1: it wins
    k: int = 50  # neighbors that vote
    alpha: float = 4.0  # mixup: λ ~ Beta(α, α), at least a half
    lambda_fc: float = 0.0  # feature consistency; SSR+ has 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_shares("theta_r", "theta_s")
        self.require_weights("lambda_fc")
        self.require(self.k >= 1, "k", "at least 1 neighbor")
        self.require_positive("alpha")

    @property
    def mixes_rows(self) -> bool:
        return True

    def stages(self, task: Task) -> tuple[Stage, ...]:
        draws = {"labeled": Draw(balanced_rows)} | ({"all": Draw("all")} if self.lambda_fc else {})
        return (Stage("train", task.epochs, self.step, draws, self.choose),)

    def initial_state(self, task: Task) -> State:
        return {
            "labels": task.labels.clone(),
            "chosen": torch.zeros_like(task.labels, dtype=torch.bool),
            "votes": torch.zeros(task.n_rows, task.n_classes),
        }

    def attachments(self, n_features: int, n_classes: int) -> Mapping[str, nn.Module]:
        if not self.lambda_fc:
            return {}
        return {"projector": two_layers(n_features), "predictor": two_layers(PROJECTED)}

    def choose(self, epoch: Epoch) -> None:
        """Relabel, vote, select. Nothing is cumulative: each time it begins from the given labels."""
        rows, state = epoch.rows, epoch.state
        seen = epoch.sweep(rows, "weak", features=True)
        assert seen.features is not None
        confidence, predicted = seen.logits.softmax(dim=1).max(dim=1)
        labels = torch.where(confidence > self.theta_r, predicted, epoch.given[rows])
        votes = balanced_vote(seen.features, labels, n_classes=epoch.n_classes, k=self.k)
        chosen = confirmed(votes, labels, self.theta_s)
        changed = labels != epoch.given[rows]
        epoch.note(chosen=float(chosen.float().mean()), relabeled=float(changed.float().mean()))
        if not has_several_classes(labels[chosen]):  # the network has collapsed, or nobody is chosen
            epoch.note(kept_last_split=1.0)
            if not state["chosen"].any():
                state["chosen"][epoch.labeled] = True
            return
        state["labels"][rows], state["chosen"][rows], state["votes"][rows] = labels, chosen, votes

    def step(self, step: Step) -> Losses:
        labels = step.state["labels"][step.batch.rows]
        step.selections["chosen"] = Selection(step.batch, labels, step.state["chosen"][step.batch.rows])
        views = torch.cat([step.batch.view("strong", 0), step.batch.view("strong", 1)])
        mix = draw_mix(step, len(views), self.alpha, mostly_first=True)
        logits = step.net(mix(views))
        targets = one_hot(labels, logits.shape[1]).repeat(2, 1)
        losses = {"ce": reduce.mean(cross_entropy(logits, mix(targets)))}
        if self.lambda_fc:
            losses["fc"] = self.lambda_fc * self.consistency(step)
        return losses

    def consistency(self, step: Step) -> Tensor:
        """-cos(Q(P(f(strong))), sg(P(f(weak)))): the prediction follows the weak view's projection, not the reverse."""
        batch, projector, predictor = (
            step.batches["all"],
            step.net.attached["projector"],
            step.net.attached["predictor"],
        )
        with torch.no_grad():
            z = projector(step.net.predict_features(batch.weak))
        (features,), _ = step.net.with_features(batch.strong)
        return -reduce.mean(F.cosine_similarity(predictor(projector(features)).float(), z.float(), dim=1))

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        return {"labels": state["labels"], "chosen": state["chosen"], "votes": state["votes"]}


def confirmed(votes: Tensor, labels: Tensor, theta_s: float) -> Tensor:
    """Rows whose label has at least θ_s times the votes of the class with most; at θ_s = 1 a tie is enough."""
    own = votes.gather(1, labels.clamp_min(0)[:, None])[:, 0]
    return (labels >= 0) & (own >= theta_s * votes.amax(dim=1))


def balanced_rows(state: State) -> Tensor:
    rows = state["chosen"].nonzero()[:, 0]
    return oversample_classes(rows, state["labels"][rows])


def two_layers(n_in: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_in, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, PROJECTED))


def published(setting: Setting, lambda_fc: float = 0.0) -> Recipe:
    weight = {"lambda_fc": code(lambda_fc)}
    if setting.data == "small":
        return Recipe(SSR, method=weight)
    if setting.data == "clothing1m":
        return published_clothing1m(weight["lambda_fc"])
    many_wrong = setting.noise.kind == "symmetric" and setting.rate >= 0.5
    hundred = setting.data == "cifar100"
    lower = (readme if hundred else recall)(0.8)
    return Recipe(
        SSR,
        method={"theta_r": lower if many_wrong else code(0.9), "theta_s": code(1.0), "k": code(200), **weight},
        train={
            "epochs": code(300),
            "batch_size": code(128),
            "lr": code(0.02),
            "momentum": code(0.9),
            "weight_decay": code(5e-4),
            "schedule": code("cosine"),
            "floor": code(1 / 50),
        },
        views={"strong": code("autoaugment"), "policy": code("cifar10")},
    )


def published_clothing1m(weight: Cited) -> Recipe:
    """Published for SSR+. Its code leaves out the class prior here, by a wrong argument: not repeated."""
    return Recipe(
        SSR,
        method={"theta_r": code(0.99), "theta_s": code(1.0), "lambda_fc": weight, "alpha": code(0.5)},
        train={
            "epochs": code(150),
            "steps_per_epoch": code(1000),
            "batch_size": code(32),
            "lr": code(0.002),
            "weight_decay": code(1e-3),
            "schedule": code("steps"),
            "milestones": code((50 / 150, 100 / 150)),
            "gamma": code(0.1),
        },
        views={"strong": code("autoaugment"), "policy": code("imagenet")},
    )


def published_plus(setting: Setting) -> Recipe:
    return published(setting, lambda_fc=1.0)


ABOUT: dict[str, Any] = {
    "authors": "Feng et al.",
    "year": 2022,
    "link": "https://arxiv.org/abs/2111.11288",
    "needs": ("strong views",),
}
ENTRIES = (
    Entry(
        name="ssr",
        title="Sample Selection and Relabeling",
        summary="before each epoch relabels sure rows and keeps those whose nearest neighbors agree; mixup on them",
        cost=2 + 1 / 3,
        recipe=published,
        differs=(
            "an unlabeled row takes part once the classifier is sure of it; a choice of one class only is not used"
        ),
        **ABOUT,
    ),
    Entry(
        name="ssr+",
        title="Sample Selection and Relabeling with feature consistency",
        summary="SSR, and on all rows the features of a strong view predict those of a weak one",
        cost=3 + 2 / 3,
        recipe=published_plus,
        tuned={"theta_r": (0.8, 0.9, 0.95), "k": (50, 200)},
        differs="as ssr; the weak view's forward has no gradient and leaves BatchNorm's averages alone",
        **ABOUT,
    ),
)
