"""Noise adaptation layer (Goldberger & Ben-Reuven 2017): a last layer that turns true classes into given labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pars.lazy import nn, torch
from pars.losses import cross_entropy, reduce
from pars.method_api import (
    Entry,
    Epoch,
    Length,
    Losses,
    Method,
    Recipe,
    Setting,
    Stage,
    State,
    Step,
    Task,
    code,
    epochs_of,
    ours,
    paper,
)
from pars.methods.parts.transition import LARGEST_CONDITION, condition, log_joint

if TYPE_CHECKING:
    from torch import Tensor

Layer = Literal["simple", "complex"]
LAYER = "noise_adaptation"
SMALLEST_COUNT = 1e-8  # in place of 0: a label that was never given to a class would have no finite loss


@dataclass(frozen=True, kw_only=True)
class NoiseAdaptation(Method):
    """-log q_y with q_j = Σ_i p_i θ_ij: p predicts the true class, θ how it is labeled, and both are learned.

    simple: θ = softmax(b), one matrix. complex: θ(x) = softmax(u·h(x) + b), h(x) being the features. The layer begins
    with the confusion matrix of a network that was pre-trained on the given labels. Predictions are p, never q.
    """

    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (Length("pretrain", "pretrain_share", first_stage=True),)

    layer: Layer = "simple"
    beta: float = 0.0  # share of plain cross-entropy in the loss: 1 is the baseline
    confusion: Literal["hard", "soft"] = "hard"  # predictions are counted as classes, or as probabilities
    learned: bool = True  # off: the layer stays as it begins
    initial_noise: float = 0.46  # share of wrong labels that the layer begins with if nothing is pre-trained
    pretrain: int | None = None  # epochs of cross-entropy; none = `pretrain_share` of the run
    pretrain_share: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_shares("beta", "pretrain_share")
        self.require(0 <= self.initial_noise < 1, "initial_noise", "a number from 0 up to, not including, 1")
        self.require(self.initial_noise > 0 or not self.learned, "initial_noise", "a number above 0, to learn from")
        self.require(self.pretrain is None or self.pretrain >= 0, "pretrain", "at least 0 epochs")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        first = epochs_of(self.pretrain_share, task.epochs, self.pretrain, name="pretrain")
        if self.pretrain is None and self.pretrain_share:
            first = max(1, first)
        begin = self.begin_with_confusion if first else self.begin_with_noise
        return (
            Stage("pretrain", first, self.pretrain_step),
            Stage("adapt", task.epochs - first, self.adapt_step, before_epoch=begin, own_curve=True),
        )

    def attachments(self, n_features: int, n_classes: int) -> Mapping[str, nn.Module]:
        weights = {"b": nn.Parameter(self.first_logits(n_classes))}
        if self.layer == "complex":
            weights["u"] = nn.Parameter(torch.zeros(n_classes, n_classes, n_features))
        return {LAYER: nn.ParameterDict(weights)}

    def first_logits(self, k: int) -> Tensor:
        """log θ [K, K] of symmetric noise."""
        theta = torch.full((k, k), self.initial_noise / (k - 1)).fill_diagonal_(1 - self.initial_noise)
        return theta.log()

    def initial_state(self, task: Task) -> State:
        return {"posterior": torch.zeros(task.n_rows, task.n_classes), "transition": torch.eye(task.n_classes)}

    def pretrain_step(self, step: Step) -> Losses:
        logits = step.net(step.batch.weak)
        step.record_selection("agrees", step.batch, logits, logits.argmax(dim=1) == step.batch.labels)
        return {"ce": reduce.mean(cross_entropy(logits, step.batch.labels))}

    def begin_with_noise(self, epoch: Epoch) -> None:
        """Without a network to count from: symmetric noise, and a little of another kind."""
        if epoch.index == 0:
            drawn = torch.from_numpy(0.01 * epoch.rng.random((epoch.n_classes, epoch.n_classes)))
            _set_bias(epoch, self.first_logits(epoch.n_classes) + drawn.float())

    def begin_with_confusion(self, epoch: Epoch) -> None:
        """θ_ij: how often a row that is predicted as i is labeled j."""
        if epoch.index > 0:
            return
        rows = epoch.labeled
        theta = confusion_matrix(epoch.sweep(rows).logits, epoch.given[rows], soft=self.confusion == "soft")
        if condition(theta) <= LARGEST_CONDITION:
            _set_bias(epoch, theta.log())
        else:
            epoch.note(kept_last_split=1.0)  # symmetric noise
        kept = epoch.net.attached[LAYER]["b"].detach().softmax(dim=1).diagonal()  # type: ignore[index]
        epoch.note(labels_right=float(kept.mean()), labels_right_least=float(kept.min()))

    def adapt_step(self, step: Step) -> Losses:
        rows, labels = step.batch.rows, step.batch.labels
        logits, log_theta = self.forward(step)
        joint = log_joint(logits, labels, log_theta)
        posterior = joint.detach().softmax(dim=1)
        step.state["posterior"][rows] = posterior
        theta = log_theta.detach().exp()
        step.state["transition"] = theta if theta.ndim == 2 else theta.mean(dim=0)
        step.record_selection("agrees", step.batch, logits, posterior.argmax(dim=1) == labels)
        losses = {"adapted": (1 - self.beta) * reduce.mean(-joint.logsumexp(dim=1))}
        if self.beta:
            losses["ce"] = self.beta * reduce.mean(cross_entropy(logits, labels))
        return losses

    def forward(self, step: Step) -> tuple[Tensor, Tensor]:
        """Logits [B, K] of p, and log θ: [K, K], or, of the complex layer, [B, K, K]."""
        weights: Any = step.net.attached[LAYER]
        b = weights["b"] if self.learned else weights["b"].detach()
        if self.layer == "simple":
            return step.net(step.batch.weak), b.float().log_softmax(dim=1)
        (features,), (logits,) = step.net.with_features(step.batch.weak)
        u = weights["u"] if self.learned else weights["u"].detach()
        scores = torch.einsum("ijd,nd->nij", u, features).float() + b
        return logits, scores.log_softmax(dim=2)

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        """P(true class | row, given label), and θ; of the complex layer the mean over the last batch."""
        return {name: state[name] for name in ("posterior", "transition")}


def confusion_matrix(logits: Tensor, labels: Tensor, *, soft: bool) -> Tensor:
    """Return θ whose row i is the distribution of labels among rows predicted as i; uniform if there are none.

    Shapes: [m, K], [m] -> [K, K]. soft: every row counts for each class by its probability.

    >>> logits = torch.tensor([[5.0, 0.0, 0.0], [5.0, 0.0, 0.0], [0.0, 5.0, 0.0]])
    >>> confusion_matrix(logits, torch.tensor([0, 1, 1]), soft=False)
    tensor([[5.0000e-01, 5.0000e-01, 5.0000e-09],
            [1.0000e-08, 1.0000e+00, 1.0000e-08],
            [3.3333e-01, 3.3333e-01, 3.3333e-01]])
    """
    k = logits.shape[1]
    predicted = logits.float().softmax(dim=1) if soft else torch.eye(k, device=logits.device)[logits.argmax(dim=1)]
    counts = predicted.T @ torch.eye(k, device=logits.device)[labels] + SMALLEST_COUNT
    return counts / counts.sum(dim=1, keepdim=True)


def _set_bias(epoch: Epoch, logits: Tensor) -> None:
    weights: Any = epoch.net.attached[LAYER]
    with torch.no_grad():
        weights["b"].copy_(logits)


def published(setting: Setting, layer: Layer) -> Recipe:
    """As for CIFAR-100 in the public code, which has no CIFAR-10: there the same."""
    if setting.data == "small":
        return Recipe(NoiseAdaptation, method={"layer": paper(layer)})  # chosen by held-out labels: small_settings.py
    cite = code if setting.data == "cifar100" else ours
    return Recipe(
        NoiseAdaptation,
        method={
            "layer": paper(layer),
            "beta": code(0.0),
            "confusion": code("hard"),
            "pretrain": cite(40),
        },
        train={
            "epochs": cite(80),
            "batch_size": cite(256),
            "optimizer": cite("adam"),
            "lr": cite(1e-3),
            "momentum": cite(0.9),
            "weight_decay": ours(0.0),
            "schedule": cite("constant"),
        },
    )


ABOUT: dict[str, Any] = {
    "authors": "Goldberger & Ben-Reuven",
    "year": 2017,
    "link": "https://openreview.net/forum?id=H12GRgcxg",
    "cost": 1.0,
}
DIFFERS = "no rows are held out to stop by; a class that is never predicted begins with labels of all kinds; no dropout"
ENTRIES = (
    Entry(
        name="noise-adaptation",
        title="Noise adaptation layer, simple",
        aliases=("S-adaptation",),
        summary="learns, as a last layer, a matrix that turns true classes into given labels",
        recipe=partial(published, layer="simple"),
        differs=DIFFERS,
        **ABOUT,
    ),
    Entry(
        name="noise-adaptation-complex",
        title="Noise adaptation layer, complex",
        aliases=("C-adaptation",),
        summary="the same with a matrix for each row, computed from its features",
        recipe=partial(published, layer="complex"),
        differs=f"{DIFFERS}; it begins with the pre-trained network, not with that of the simple layer",
        **ABOUT,
    ),
)
