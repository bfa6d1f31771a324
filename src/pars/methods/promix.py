"""ProMix (Xiao et al. 2023): trust as many labels as can be trusted, and correct for the classes trusted more often."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from pars.lazy import nn, torch
from pars.losses import cross_entropy, reduce
from pars.method_api import (
    Cited,
    Entry,
    Epoch,
    EpochConstant,
    Length,
    Losses,
    Method,
    Network,
    Recipe,
    Selection,
    Setting,
    Stage,
    State,
    Step,
    Task,
    code,
    epochs_of,
    issue,
    ours,
)
from pars.methods.parts.class_balance import smallest_of_each_class
from pars.methods.parts.mixing import Mix, draw_mix
from pars.methods.parts.ramps import linear_ramp
from pars.methods.parts.small_loss import ROUNDING, small_loss_mask
from pars.methods.parts.targets import entropy, one_hot, sharpen

if TYPE_CHECKING:
    from torch import Tensor

FMIX_DECAY = 3.0  # of the spectrum of FMix masks: the larger, the smoother


@dataclass(frozen=True, kw_only=True)
class ProMix(Method):
    """Two networks, each with a second head that alone learns from pseudo-labels of rows that are not trusted.

    Trusted are the smallest losses of each class, labels predicted with high confidence, and, late, predictions that
    both networks are sure of. Logits are debiased by the class priors of what was trained on.
    """

    networks: ClassVar[int] = 2
    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (Length("warm_up", "warm_up_share", first_stage=True),)
    epoch_constants: ClassVar[Mapping[str, EpochConstant]] = {"prior_momentum": "momentum"}

    rho: float = 0.5  # ρ: share of each class, were all equally large, with the smallest losses
    tau: float = 0.99  # confidence above which a label that is predicted is trusted, too
    alpha_debias: float = 0.8  # α: weight of the log-priors that are added to logits in losses
    alpha_pseudo: float = 0.8  # α': weight of those subtracted for pseudo-labels
    prior_momentum: float = 0.9999**196  # of the class priors, over an epoch: 0.9999 a step
    ramp: float = 50 / 600  # share of the run over which strong views, mixup and FMix gain weight
    beta_u: float = 0.1  # largest weight of the second head's pseudo-labels
    beta_u_until: float = 100 / 600  # share of the run over which that grows; after it, 0
    expand_from: float = 350 / 600  # share of the run after which sure predictions of both networks are trusted
    most: float = 0.9  # share of a batch that is trusted then, at most
    T: float = 0.5  # temperature of the second head's pseudo-labels
    alpha: float = 4.0  # mixup: λ ~ Beta(α, α), at least a half
    alpha_fmix: float = 1.0  # FMix: λ ~ Beta(α, α)
    warm_up_entropy: float = 0.0  # weight of the negative entropy of predictions in the warm-up
    warm_up: int | None = None  # epochs of cross-entropy; none = `warm_up_share` of the run
    warm_up_share: float = 0.1
    reference_epochs: int | None = None  # epochs of the run that prior_momentum is meant for; none = any

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_reference()
        self.require_shares(
            "rho", "tau", "prior_momentum", "ramp", "beta_u_until", "expand_from", "most", "warm_up_share"
        )
        self.require_weights("alpha_debias", "alpha_pseudo", "beta_u", "warm_up_entropy")
        self.require_positive("alpha", "alpha_fmix")
        self.require_positive("T", least=1e-3)

    @property
    def mixes_rows(self) -> bool:
        return True

    def stages(self, task: Task) -> tuple[Stage, ...]:
        warm_up = epochs_of(self.warm_up_share, task.epochs, self.warm_up)
        memory = self.at_length(task.epochs).prior_momentum ** (1 / task.steps)
        main = partial(self.main_step, memory=memory)
        return (
            Stage("warm-up", warm_up, self.warm_up_step),
            Stage("main", task.epochs - warm_up, main, before_epoch=self.choose),
        )

    def initial_state(self, task: Task) -> State:
        state: State = {}
        for number in (1, 2):
            state[f"small_loss_{number}"] = torch.zeros_like(task.labels, dtype=torch.bool)
            for name in ("prior", "unreliable_prior"):
                state[f"{name}_{number}"] = torch.full((task.n_classes,), 1 / task.n_classes)
        return state

    def attachments(self, n_features: int, n_classes: int) -> Mapping[str, nn.Module]:
        return {"pseudo_head": nn.Linear(n_features, n_classes)}

    def warm_up_step(self, step: Step) -> Losses:
        """Cross-entropy of both heads of both networks."""
        losses = {}
        for number, net in enumerate(step.nets, start=1):
            (features,), (logits,) = net.with_features(step.batch.weak)
            for name, each in (("ce", logits), ("pseudo_ce", net.attached["pseudo_head"](features))):
                losses[f"{name}_{number}"] = reduce.mean(cross_entropy(each, step.batch.labels))
            if self.warm_up_entropy:
                losses[f"entropy_{number}"] = -self.warm_up_entropy * reduce.mean(entropy(logits))
        return losses

    def choose(self, epoch: Epoch) -> None:
        """Class-wise small losses, for each network by its own."""
        rows = epoch.labeled
        given = epoch.given[rows]
        per_class = max(1, math.ceil(self.rho * len(rows) / epoch.n_classes - ROUNDING))
        for number in (1, 2):
            losses = cross_entropy(epoch.sweep(rows, net=number - 1).logits, given)
            if not (losses.min() < losses.max()):  # all alike, or not finite: they tell nothing
                epoch.note(**{f"kept_last_split_{number}": 1.0})
                continue
            chosen = smallest_of_each_class(losses, given, per_class)
            epoch.state[f"small_loss_{number}"][rows] = chosen
            epoch.note(**{f"small_loss_{number}": chosen.float().mean()})

    def main_step(self, step: Step, *, memory: float) -> Losses:
        batch = step.batch
        passes = [net.with_features(batch.weak, batch.strong) for net in step.nets]
        p = [logits[0].detach().float().softmax(dim=1) for _, logits in passes]
        losses: dict[str, Tensor] = {}
        for number, (net, (features, logits)) in enumerate(zip(step.nets, passes, strict=True), start=1):
            trusted, targets = self.trust(step, p, number, logits[0].detach())
            step.selections[f"trusted_{number}"] = Selection(batch, targets, trusted)
            pseudo = [net.attached["pseudo_head"](each) for each in features]
            prior, other = step.state[f"prior_{number}"], step.state[f"unreliable_prior_{number}"]
            found = self.trusted_losses(step, net, (logits, pseudo), trusted, targets, prior)
            if (weight := self.unreliable_weight(step)) > 0:
                found["unreliable"] = weight * self.unreliable_loss(step, logits[0], pseudo, ~trusted, other)
            losses |= {f"{name}_{number}": loss for name, loss in found.items()}
            for name, mask in ((f"prior_{number}", trusted), (f"unreliable_prior_{number}", ~trusted)):
                step.state[name] = moved_prior(step.state[name], p[number - 1], mask, memory)
        return losses

    def trust(self, step: Step, p: list[Tensor], number: int, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Which rows [B] are trusted by the number-th network, and the class [B] each is trained on.

        p: what each network predicts of the weak views. logits: this network's.
        """
        rows, given = step.batch.rows, step.batch.labels
        own = p[number - 1]
        labels_trusted = step.state[f"small_loss_{number}"][rows] | (own.gather(1, given[:, None])[:, 0] > self.tau)
        debiased = logits.float() - self.alpha_pseudo * step.state[f"prior_{number}"].log()
        targets = torch.where(labels_trusted, given, debiased.argmax(dim=1))
        if step.progress < self.expand_from:
            return labels_trusted, targets
        (first, first_class), (second, second_class) = (each.max(dim=1) for each in p)
        sure = (first > self.tau) & (second > self.tau) & (first_class == second_class) & ~labels_trusted
        free = int(self.most * len(rows)) - labels_trusted.sum()
        return labels_trusted | (sure & small_loss_mask(-(first + second), free, sure)), targets

    def trusted_losses(
        self,
        step: Step,
        net: Network,
        heads: tuple[tuple[Tensor, ...] | list[Tensor], ...],
        trusted: Tensor,
        targets: Tensor,
        prior: Tensor,
    ) -> dict[str, Tensor]:
        """Cross-entropy of each head on trusted rows: weak views, and, ramped up, strong views, mixup and FMix.

        heads: logits of the weak and strong views, of the first and the second head.
        """
        ramp = linear_ramp(step.progress, self.ramp)
        bias = self.alpha_debias * prior.log()
        mixed = self.mixed_losses(step, net, trusted, targets, bias)
        losses = {}
        for name, (weak, strong), mix in zip(("ce", "pseudo_ce"), heads, mixed, strict=True):
            plain, augmented = (
                reduce.mean(cross_entropy(each.float() + bias, targets), trusted) for each in (weak, strong)
            )
            losses[name] = plain + ramp * (augmented + mix)
        return losses

    def mixed_losses(
        self, step: Step, net: Network, trusted: Tensor, targets: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The losses of mixup and FMix of trusted weak views, each head with draws of its own."""
        kept = trusted.nonzero()[:, 0]
        if not len(kept):
            return bias.new_zeros(()), bias.new_zeros(())
        view, labels = step.batch.weak[kept], one_hot(targets[kept], len(bias))
        mixes = [draw_mix(step, len(kept), self.alpha, mostly_first=True) for _ in range(2)]
        masks = [self.draw_fmix(step, view) for _ in range(2)]
        views = [mix(view) for mix in mixes] + [mask * view + (1 - mask) * view[mix.partner] for mix, mask in masks]
        features, logits = net.with_features(*views)
        pseudo_head = net.attached["pseudo_head"]
        out = []
        for head in range(2):
            total = bias.new_zeros(())
            for index, mix in ((head, mixes[head]), (head + 2, masks[head][0])):
                found = pseudo_head(features[index]) if head else logits[index]
                total = total + reduce.mean(cross_entropy(found.float() + bias, mix(labels)))
            out.append(total)
        return out[0], out[1]

    def draw_fmix(self, step: Step, view: Tensor) -> tuple[Mix, Tensor]:
        """Partners and the share of each row of a pair, and the mask of what is the row's own. Mask: [1, …]."""
        mix = draw_mix(step, len(view), self.alpha_fmix)
        mask = fmix_mask(step.rng, tuple(view.shape[1:]), mix.weight)
        return mix, torch.from_numpy(mask).to(view)[None]

    def unreliable_weight(self, step: Step) -> float:
        if step.progress >= self.beta_u_until:
            return 0.0
        return self.beta_u * step.progress / self.beta_u_until

    def unreliable_loss(
        self, step: Step, logits: Tensor, pseudo: list[Tensor], unreliable: Tensor, prior: Tensor
    ) -> Tensor:
        """Soft cross-entropy of the second head towards the first one's debiased predictions, weak and strong views."""
        ramp = linear_ramp(step.progress, self.ramp)
        targets = sharpen((logits.detach().float() - self.alpha_pseudo * prior.log()).softmax(dim=1), self.T)
        weak, strong = (
            reduce.mean(cross_entropy(each.float() + self.alpha_debias * prior.log(), targets), unreliable)
            for each in pseudo
        )
        return weak + ramp * strong

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        return {name: state[name] for name in ("small_loss_1", "small_loss_2")}


def moved_prior(prior: Tensor, p: Tensor, mask: Tensor, memory: float) -> Tensor:
    """Return memory·π + (1 - memory)·(mean prediction of the masked rows); π without such rows. [K], [B, K], [B]."""
    count = mask.sum()
    mean = (p * mask[:, None]).sum(dim=0) / count.clamp_min(1)
    return torch.where(count > 0, torch.lerp(mean, prior, memory), prior)


def fmix_mask(rng: np.random.Generator, shape: tuple[int, ...], share: float) -> npt.NDArray[np.float32]:
    """Return a mask of 0 and 1 with this share of ones: low-frequency noise above a threshold (Harris et al. 2020).

    Images [C, H, W] get a mask [H, W], smooth over pixels. Features [d] have no order that counts: theirs is random.

    >>> fmix_mask(np.random.default_rng(0), (3, 4, 4), 0.25).sum(), fmix_mask(np.random.default_rng(0), (8,), 0.5).sum()
    (np.float32(4.0), np.float32(4.0))
    """
    space = shape[-2:] if len(shape) == 3 else shape
    noise = rng.standard_normal(space)
    if len(space) == 2:
        frequencies = np.hypot(*np.meshgrid(*(np.fft.fftfreq(size) for size in space), indexing="ij"))
        spectrum = np.fft.fft2(noise) / np.maximum(frequencies, 1 / max(space)) ** FMIX_DECAY
        noise = np.fft.ifft2(spectrum).real
    mask = np.zeros(noise.size, dtype=np.float32)
    mask[np.argsort(-noise, axis=None)[: round(share * noise.size)]] = 1
    return mask.reshape(space)


def published(setting: Setting) -> Recipe:
    method: dict[str, Cited] = {
        "prior_momentum": code(0.9999**196),
        "reference_epochs": code(600),
        "warm_up_entropy": code(1.0 if setting.asymmetric else 0.0),
    }
    if setting.data == "small":
        return Recipe(ProMix, method=method)
    hundred = setting.data == "cifar100"
    debias = 0.5 if hundred else 0.8
    return Recipe(
        ProMix,
        method={
            "rho": trusted_share(setting),
            "tau": code(0.95 if hundred else 0.99),
            "alpha_debias": code(debias),
            "alpha_pseudo": code(debias),
            "ramp": code(50 / 600),
            "beta_u": code(0.1),
            "beta_u_until": code(100 / 600),
            "expand_from": code(350 / 600),
            "most": code(0.9),
            "T": code(0.5),
            "alpha": code(4.0),
            "alpha_fmix": code(1.0),
            "warm_up": code(30 if hundred else 10),
            **method,
        },
        train={
            "epochs": code(600),
            "batch_size": code(256),
            "lr": code(0.05),
            "momentum": code(0.9),
            "weight_decay": code(5e-4),
            "schedule": code("cosine"),
            "floor": code(1e-3),
        },
        views={"strong": code("randaugment"), "operations": code(3), "flavor": ours("fixmatch")},
    )


def trusted_share(setting: Setting) -> Cited:
    """ρ: 0.7 at 20 % and 0.5 at 40 and 50 %; for more noise nothing has been published."""
    kind, rate = setting.noise.kind, setting.rate
    if kind == "file":
        return code(0.5)
    if rate > 0.65:
        return ours(0.2 if rate > 0.85 else 0.3)
    in_issue = kind == "instance" and rate in (0.2, 0.4)
    in_code = (kind == "symmetric" and rate in (0.2, 0.5)) or (setting.data, kind, rate) == (
        "cifar10",
        "asymmetric",
        0.4,
    )
    return (issue if in_issue else code if in_code else ours)(0.7 if rate < 0.35 else 0.5)


ENTRIES = (
    Entry(
        name="promix",
        title="ProMix",
        authors="Xiao et al.",
        year=2023,
        link="https://arxiv.org/abs/2207.10276",
        summary="two networks trust small losses of each class, sure labels, and late what both are sure of; debiased",
        cost=26 / 3,  # with half of the rows trusted
        recipe=published,
        tuned={"rho": (0.3, 0.5, 0.7), "tau": (0.95, 0.99)},
        needs=("strong views",),
        differs=(
            "the second head's pseudo-labels are the first one's predictions; both heads learn in the warm-up; weak "
            "and strong views pass together, as the four mixed ones do; FMix of feature vectors takes random features; "
            "rows without a label take no part"
        ),
    ),
)
