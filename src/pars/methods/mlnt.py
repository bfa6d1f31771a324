"""Meta-learning noise-tolerant training (Li et al. 2019): agree with the teacher even after a step on wrong labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pars.lazy import nn, torch
from pars.losses import cross_entropy, reduce
from pars.method_api import (
    Entry,
    Epoch,
    Length,
    Losses,
    Method,
    Network,
    Recipe,
    Setting,
    Stage,
    Step,
    Task,
    batch_statistics,
    code,
    epochs_of,
    ours,
    third_party,
)
from pars.methods.parts.ramps import sigmoid_ramp

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_COUNT = 1000  # label sets, each with weights of its own: more would not fit in memory
Weights = dict[str, "Tensor"]
OfOneSet = Callable[["Tensor"], tuple[Weights, "Tensor"]]


@dataclass(frozen=True, kw_only=True)
class MLNT(Method):
    """Cross-entropy plus η·J, J being how far a gradient step on synthetic noise takes the network from its teacher.

    The noise of a row is the label of a neighbor in the features of a network that was trained before, with
    cross-entropy. The teacher is the average of the weights; `train.ema` is its γ.
    """

    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (Length("pretrain", "pretrain_share", first_stage=True),)

    a: float = 0.2  # learning rate of the step on synthetic labels
    M: int = 10  # sets of synthetic labels a step
    rho: float = 0.5  # share of a batch's labels that are replaced in each
    eta: float = 0.4  # weight of J, a mean over rows and classes; small data takes more (see `published`)
    neighbors: int = 10  # nearest rows of the batch that a label is taken from
    second_order: bool = False  # differentiate through the step on synthetic labels, too
    ramp: float = 1 / 6  # share of the meta stage over which η grows: as exp(-5(1-u)²), u from 0 to 1
    start: float = 0.025  # share of the meta stage before which there is no J at all
    pretrain: int | None = None  # epochs of cross-entropy for the features; none = `pretrain_share` of the run
    pretrain_share: float = 0.2

    one_gpu: ClassVar[str] = "its meta-gradient differentiates through BatchNorm, which torch's SyncBatchNorm forbids"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_positive("a")
        self.require_weights("eta")
        self.require_shares("rho", "ramp", "start", "pretrain_share")
        for name in ("M", "neighbors"):
            self.require(1 <= getattr(self, name) <= LARGEST_COUNT, name, f"1 to {LARGEST_COUNT}")
        self.require(self.pretrain is None or self.pretrain >= 1, "pretrain", "at least 1 epoch")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        pretrain = max(1, epochs_of(self.pretrain_share, task.epochs, self.pretrain, name="pretrain"))
        return (
            Stage("pretrain", pretrain, self.pretrain_step),
            Stage("meta", task.epochs - pretrain, self.meta_step, before_stage=self.store_features, restart="all"),
        )

    def pretrain_step(self, step: Step) -> Losses:
        return {"ce": reduce.mean(cross_entropy(step.net(step.batch.weak), step.batch.labels))}

    def store_features(self, epoch: Epoch) -> None:
        """Keep the features of all rows after pre-training: the meta stage begins with fresh weights."""
        found = epoch.sweep(epoch.rows, features=True).features
        assert found is not None  # asked for
        epoch.state["features"] = found.new_zeros(len(epoch.given), found.shape[1]).index_copy_(0, epoch.rows, found)

    def meta_step(self, step: Step) -> Losses:
        logits = step.net(step.batch.weak)
        losses = {"ce": reduce.mean(cross_entropy(logits, step.batch.labels))}
        if self.eta and step.stage_progress >= self.start:
            teacher = step.net.teacher(step.batch.weak).float().softmax(dim=1)
            step.record_selection("agrees", step.batch, logits, teacher.argmax(dim=1) == step.batch.labels)
            weight = self.eta * sigmoid_ramp(step.stage_progress, self.ramp)
            losses["meta"] = weight * self.disagreement(step, teacher)
        return losses

    def disagreement(self, step: Step, teacher: Tensor) -> Tensor:
        """J, the mean over M sets of synthetic labels, with its gradient; processes divide the sets, not the rows."""
        net, own = step.net, dict[str, "Tensor"]()
        count_work(net, len(step.batch), self.M, second_order=self.second_order)

        def of_sets(sets: Tensor) -> Tensor:
            gradient, values = meta_gradient(
                net.module, step.batch.weak, sets, teacher, a=self.a, second_order=self.second_order
            )
            own.update((name, each * (len(sets) / self.M)) for name, each in gradient.items())
            return values

        value = net.apply(of_sets, self.synthetic_labels(step)).mean()
        parameters = dict(net.module.named_parameters())
        return with_gradient(value, ((parameters[name], each) for name, each in own.items()))

    def synthetic_labels(self, step: Step) -> Tensor:
        """[M, B]: in each set a share ρ of the labels is that of a random one of the row's nearest neighbors."""
        labels, n = step.batch.labels, len(step.batch)
        features = step.state["features"][step.batch.rows]
        distance = torch.cdist(features, features).fill_diagonal_(math.inf)  # a row is no neighbor of its own
        nearest = distance.topk(max(1, min(self.neighbors, n - 1)), largest=False).indices  # [B, k]
        pick = step.uniform_integers(nearest.shape[1], (self.M, n))
        theirs = labels[nearest[torch.arange(n, device=labels.device), pick]]
        replaced = torch.stack([step.permutation(n) for _ in range(self.M)]) < round(self.rho * n)
        return torch.where(replaced, theirs, labels)


def meta_gradient(
    module: nn.Module, view: Tensor, label_sets: Tensor, teacher: Tensor, *, a: float, second_order: bool
) -> tuple[Weights, Tensor]:
    """∇J, J = (1/M) Σ_m J_m, and all J_m = KL(teacher ‖ p(θ'_m)) / K, with θ'_m = θ - a·∇CE(θ; labels of set m).

    Of first order the gradient is that with respect to θ'_m, as if the step were constant; of second order it is
    multiplied by dθ'_m/dθ = I - a·H_m, H_m being the Hessian of CE. Shapes: label_sets [M, B], teacher [B, K].
    """
    weights = {name: parameter.detach() for name, parameter in module.named_parameters()}
    entropy = torch.xlogy(teacher, teacher).sum(dim=1)

    def forward(w: Weights) -> Tensor:
        logits: Tensor = torch.func.functional_call(module, w, (view,))
        return logits

    def ce(logits: Tensor, labels: Tensor) -> Tensor:
        return reduce.mean(cross_entropy(logits, labels))

    def ce_of(w: Weights, labels: Tensor) -> Tensor:
        return ce(forward(w), labels)

    def kl(w: Weights) -> Tensor:
        return reduce.mean(entropy + cross_entropy(forward(w), teacher)) / teacher.shape[1]

    def of_one_set(labels: Tensor) -> tuple[Weights, Tensor]:
        stepped = subtract(weights, a, back(torch.func.grad(ce)(logits, labels))[0])
        gradient, value = torch.func.grad_and_value(kl)(stepped)
        if second_order:
            # The Hessian times the gradient, forward over reverse. Reverse over forward is wrong through torch's
            # BatchNorm, and double backward of a convolution fails under vmap.
            product = torch.func.jvp(lambda w: torch.func.grad(ce_of)(w, labels), (weights,), (gradient,))[1]
            gradient = subtract(gradient, a, product)
        return gradient, value

    # Autocast has no part in torch.func's transforms: its cache of cast weights does not know of their levels.
    with batch_statistics(module), torch.autocast(view.device.type, enabled=False):
        # Labels differ between sets, weights and rows do not: θ passes forward once for all of them.
        logits, back = torch.func.vjp(forward, weights)[:2]
        over_sets = one_by_one if view.device.type == "cpu" else all_at_once
        gradients, values = over_sets(of_one_set, label_sets)
    return {name: each.mean(dim=0) for name, each in gradients.items()}, values


def all_at_once(of_one_set: OfOneSet, label_sets: Tensor) -> tuple[Weights, Tensor]:
    """A gradient and a value per set, vectorized: M weights at once are a convolution in M groups."""
    found: tuple[Weights, Tensor] = torch.func.vmap(of_one_set, randomness="same")(label_sets)
    return found


def one_by_one(of_one_set: OfOneSet, label_sets: Tensor) -> tuple[Weights, Tensor]:
    """The same in turn: a CPU is full with one set, and its grouped convolutions take twice as long."""
    gradients, values = zip(*map(of_one_set, label_sets), strict=True)
    return {name: torch.stack([each[name] for each in gradients]) for name in gradients[0]}, torch.stack(values)


def subtract(weights: Weights, factor: float, others: Weights) -> Weights:
    """w - factor·o, by name."""
    return {name: weight - factor * others[name] for name, weight in weights.items()}


def with_gradient(value: Tensor, gradients: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """A scalar of this value whose gradient with respect to each parameter is the one beside it.

    >>> theta = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> scalar = with_gradient(torch.tensor(7.0), [(theta, torch.tensor([0.5, -3.0]))])
    >>> scalar.backward()
    >>> scalar.item(), theta.grad
    (7.0, tensor([ 0.5000, -3.0000]))
    """
    linear = torch.stack([(parameter * gradient).sum() for parameter, gradient in gradients]).sum()
    return value + (linear - linear.detach())


def count_work(net: Network, rows: int, sets: int, *, second_order: bool) -> None:
    """A backward alone is counted as two forwards; what is differentiated forward costs three times its own."""
    net.forwards += rows * (1 + 2 * sets)  # θ forward once, and back for each set
    net.backwards += rows * sets  # θ'_m
    if second_order:
        net.forwards += rows * (1 + 8 * sets)  # θ forward, its tangents; back, and their tangents


def published(setting: Setting) -> Recipe:
    """On CIFAR as re-implementations have it, one of which cites the paper: the authors' own code is for Clothing1M.

    On digits, half of whose labels are wrong, a network with the published η memorizes nearly as fast as without it.
    """
    if setting.data == "small":
        return Recipe(MLNT, method={"eta": ours(20.0)})
    if setting.data == "clothing1m":
        return published_clothing1m()
    pretrain, meta = 20, 120
    return Recipe(
        MLNT,
        method={
            "a": third_party(0.2),
            "M": third_party(10),
            "rho": third_party(0.5),
            "eta": third_party(0.4),
            "neighbors": third_party(10),
            "ramp": third_party(20 / meta),
            "start": third_party(3 / meta),
            "pretrain": ours(pretrain),
        },
        train={
            "epochs": ours(pretrain + meta),
            "lr": third_party(0.2),
            "weight_decay": third_party(1e-4),
            "batch_size": third_party(128),
            "schedule": third_party("steps"),
            "milestones": third_party(((pretrain + 80) / (pretrain + meta),)),
            "gamma": third_party(0.1),
            "ema": third_party(0.999),
            "ema_ramp": ours(True),  # published: 0.99 for 20 epochs; the ramp is there after 2, at 0.999 after 23
        },
    )


def published_clothing1m() -> Recipe:
    """One epoch, after three of cross-entropy; the paper's further iterations are not run."""
    pretrain, steps = 3, 1_000_000 // 32
    return Recipe(
        MLNT,
        method={
            "a": code(0.02),
            "M": code(10),
            "rho": code(0.5),
            "eta": code(1.0),
            "neighbors": code(10),
            "start": code(500 / steps),
            "ramp": code(2000 / steps),
            "pretrain": code(pretrain),
        },
        train={
            "epochs": code(pretrain + 1),
            "lr": code(8e-4),
            "momentum": code(0.9),
            "weight_decay": code(1e-3),
            "batch_size": code(32),
            "steps_per_epoch": code(steps),
            "schedule": ours("constant"),
            "ema": code(0.999),
            "ema_ramp": ours(True),
        },
    )


ENTRIES = (
    Entry(
        name="mlnt",
        title="Learning to Learn from Noisy Labeled Data",
        aliases=("Meta-Learning",),
        authors="Li et al.",
        year=2019,
        link="https://arxiv.org/abs/1812.05214",
        summary="cross-entropy, and staying near the averaged weights' predictions after a step on synthetic noise",
        cost=18.3,
        recipe=published,
        tuned={"eta": (5.0, 20.0), "rho": (0.25, 0.5)},
        differs="first-order meta-gradient, as the paper has it; one round, without a mentor",
    ),
)
