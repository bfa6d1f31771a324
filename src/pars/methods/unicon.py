"""UNICON (Karim et al. 2022): class-uniform selection by divergence, MixMatch, and a contrastive loss on the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pars.lazy import F, nn, torch
from pars.losses import cross_entropy, reduce
from pars.method_api import (
    Batch,
    Cited,
    Draw,
    Entry,
    Epoch,
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
    third_party,
)
from pars.methods.parts.class_balance import smallest_of_each_class
from pars.methods.parts.label_guessing import co_guess, refine_labels
from pars.methods.parts.mixing import mixmatch
from pars.methods.parts.ramps import linear_ramp
from pars.methods.parts.targets import entropy, mean_softmax

if TYPE_CHECKING:
    from torch import Tensor

PROJECTED = 128  # width of the projection


@dataclass(frozen=True, kw_only=True)
class UNICON(Method):
    """Before each epoch the rows of each class whose label both networks together contradict least are trusted.

    How many is the same number for every class. MixMatch on strong views treats the trusted rows as labeled; the others
    are guessed by both networks, and their features are learned without labels (SimCLR).
    """

    networks: ClassVar[int] = 2
    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (Length("warm_up", "warm_up_share", first_stage=True),)

    d_u: float = 0.7  # mean divergence above which fewer rows are trusted; none is above ln 2 = 0.69
    tau: float = 5.0  # and by how many fewer: the cut is lowered by its distance from the smallest divergence over τ
    d_refine: float = 0.5  # divergence from which a trusted label is mixed with the prediction
    lambda_u: float = 30.0  # guessed rows
    ramp: float = 0.05  # share of the second stage over which λ_u grows from 0
    lambda_c: float = 0.025  # contrastive loss
    temperature: float = 0.05  # of the contrastive loss
    T: float = 0.5  # temperature of guessed and refined labels
    alpha: float = 4.0  # mixing: λ ~ Beta(α, α), at least a half
    rest_ratio: float = 0.5  # guessed rows of an epoch, in passes over the labeled rows
    train_rest: bool = True  # off: only the trusted rows are trained on
    warm_up_entropy: float = 0.0  # weight of the negative entropy of predictions in the warm-up
    warm_up: int | None = None  # epochs of cross-entropy; none = `warm_up_share` of the run
    warm_up_share: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_shares("ramp", "warm_up_share", "d_refine")
        self.require_weights("d_u", "lambda_u", "lambda_c", "warm_up_entropy")
        self.require_positive("tau", "alpha", "rest_ratio")
        self.require_positive("T", "temperature", least=1e-3)

    @property
    def mixes_rows(self) -> bool:
        return True

    def stages(self, task: Task) -> tuple[Stage, ...]:
        warm_up = epochs_of(self.warm_up_share, task.epochs, self.warm_up)
        draws = {}
        for number in (1, 2):  # each network has batches of its own
            draws[f"trusted_{number}"] = Draw(trusted_rows, trusted_share)
            if self.train_rest:
                draws[f"rest_{number}"] = Draw(rest_rows, self.rest_ratio)
        return (
            Stage("warm-up", warm_up, self.warm_up_step),
            Stage("mixmatch", task.epochs - warm_up, self.mixmatch_step, draws, self.choose),
        )

    def initial_state(self, task: Task) -> State:
        return {
            "divergence": torch.zeros(task.n_rows),
            "trusted": task.labels >= 0,  # until there is a split
            "rest": torch.zeros_like(task.labels, dtype=torch.bool),
            "trusted_share": torch.ones(()),  # of the labeled rows
        }

    def attachments(self, n_features: int, n_classes: int) -> Mapping[str, nn.Module]:
        return {"projection": nn.Sequential(nn.Linear(n_features, PROJECTED), nn.BatchNorm1d(PROJECTED))}

    def warm_up_step(self, step: Step) -> Losses:
        losses = {}
        for number, net in enumerate(step.nets, start=1):
            logits = net(step.batch.weak)
            losses[f"ce_{number}"] = reduce.mean(cross_entropy(logits, step.batch.labels))
            if self.warm_up_entropy:
                losses[f"entropy_{number}"] = -self.warm_up_entropy * reduce.mean(entropy(logits))
        return losses

    def choose(self, epoch: Epoch) -> None:
        """Split the rows by the divergence of their label from the mean prediction of both networks."""
        rows, state = epoch.labeled, epoch.state
        given = epoch.given[rows]
        p = mean_softmax(*(epoch.sweep(rows, net=index).logits for index in range(2)))
        d = label_divergence(p, given)
        cut = d.mean()
        if cut > self.d_u:
            cut = cut - (cut - d.min()) / self.tau
        share = (d < cut).double().mean()
        epoch.note(divergence=d.mean(), below_cut=share)
        if not share > 0:  # all alike, or not finite
            epoch.note(kept_last_split=1.0)
            return
        per_class = max(1, int(share * len(rows) / epoch.n_classes))
        trusted = rows[smallest_of_each_class(d, given, per_class)]
        state["divergence"][rows] = d
        for name, value in (("trusted", False), ("rest", True)):
            state[name][epoch.rows] = value
            state[name][trusted] = not value
        state["trusted_share"] = torch.tensor(len(trusted) / len(rows))
        epoch.note(trusted=state["trusted_share"])

    def mixmatch_step(self, step: Step) -> Losses:
        losses: dict[str, Tensor] = {}
        for number, (net, peer) in enumerate((step.nets, step.nets[::-1]), start=1):
            u = step.batches[f"rest_{number}"] if self.train_rest else None
            found = self.losses(step, net, peer, step.batches[f"trusted_{number}"], u)
            losses |= {f"{name}_{number}": loss for name, loss in found.items()}
            for name in ("trusted", "guessed") if self.train_rest else ("trusted",):
                step.selections[f"{name}_{number}"] = step.selections.pop(name)
        return losses

    def losses(self, step: Step, net: Network, peer: Network, x: Batch, u: Batch | None) -> Losses:
        """The losses of one network: L_x + λ_u·L_u + λ_c·L_c + R, on its own trusted rows x and other rows u.

        Without other rows L_x + R alone.
        """
        own = [net.predict(x.view("weak", index)) for index in range(2)]
        divergence = step.state["divergence"][x.rows]
        w = torch.where(divergence < self.d_refine, 1.0, 1 - divergence)  # weight of the given label
        refined = refine_labels(x.labels, w, own, self.T)
        step.selections["trusted"] = Selection(x, refined.argmax(dim=1), step.state["trusted"][x.rows])
        strong_x = [x.view("strong", index) for index in range(2)]
        if u is None:
            matched = mixmatch(step, net, strong_x, refined, (), refined[:0], alpha=self.alpha)
            return {"trusted": matched.cross_entropy(), "balance": matched.class_balance()}
        guessed = co_guess(net, peer, [u.view("weak", index) for index in range(2)], self.T)
        step.selections["guessed"] = Selection(u, guessed.argmax(dim=1), step.state["trusted"][u.rows])
        strong_u = [u.view("strong", index) for index in range(2)]
        matched = mixmatch(step, net, strong_x, refined, strong_u, guessed, alpha=self.alpha)
        losses = {
            "trusted": matched.cross_entropy(),
            "guessed": self.guess_weight(step) * matched.squared_error(),
            "balance": matched.class_balance(),
        }
        if self.lambda_c:
            (first, second), _ = net.with_features(*strong_u)
            projected = net.attached["projection"](torch.cat([first, second])).float()
            losses["contrast"] = self.lambda_c * reduce.mean(contrastive_loss(projected, self.temperature))
        return losses

    def guess_weight(self, step: Step) -> float:
        return self.lambda_u * linear_ramp(step.stage_progress, self.ramp)

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        return {"divergence": state["divergence"], "trusted": state["trusted"]}


def label_divergence(p: Tensor, labels: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence of each label from its prediction, 0 to ln 2. Shapes: [m, K], [m] -> [m].

    With m = (p + e_y)/2 all terms but that of y are ln 2: d = ½ [ln 2 (1 - p_y) + p_y ln(p_y/m_y) - ln m_y].

    >>> label_divergence(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), torch.tensor([0, 0, 0]))
    tensor([0.0000, 0.6931, 0.2158])
    """
    p_y = p.float().gather(1, labels[:, None])[:, 0]
    middle = (1 + p_y) / 2
    log_2 = torch.log(torch.full_like(p_y, 2.0))
    return ((1 - p_y) * log_2 + torch.xlogy(p_y, p_y / middle) - middle.log()) / 2


def contrastive_loss(projected: Tensor, temperature: float) -> Tensor:
    """SimCLR's loss of each of 2B views, the i-th and (B+i)-th of which are of one row. Shapes: [2B, d] -> [2B].

    Cross-entropy over the cosines with all other views: which of them is the other view of the same row?

    >>> views = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    >>> contrastive_loss(views, 1.0)                          # log(e + 1 + 1) - 1
    tensor([0.5514, 0.5514, 0.5514, 0.5514])
    """
    directions = F.normalize(projected, dim=1)
    cosines = (directions @ directions.T / temperature).fill_diagonal_(-torch.inf)
    n = len(projected)
    return cross_entropy(cosines, (torch.arange(n, device=projected.device) + n // 2) % n)


def trusted_rows(state: State) -> Tensor:
    return state["trusted"].nonzero()[:, 0]


def rest_rows(state: State) -> Tensor:
    """Where every row is trusted, the trusted ones are guessed, too."""
    rows = state["rest"].nonzero()[:, 0]
    return rows if len(rows) else trusted_rows(state)


def trusted_share(state: State) -> float:
    return float(state["trusted_share"])


def published(setting: Setting) -> Recipe:
    entropy_weight: dict[str, Cited] = {"warm_up_entropy": code(1.0 if setting.asymmetric else 0.0)}
    if setting.data == "small":
        # From pixels, by held-out labels (small_settings.py): a small network hardly learns the published mixtures.
        of_pixels = {"lambda_u": ours(5.0), "alpha": ours(0.5)} if setting.pixels else {}
        return Recipe(UNICON, method=entropy_weight | of_pixels)
    if setting.data == "clothing1m":
        return published_clothing1m()
    warm_up, epochs = (30 if setting.data == "cifar100" else 10), 350
    return Recipe(
        UNICON,
        method={
            "d_u": code(0.7),
            "tau": code(5.0),
            "d_refine": code(0.5),
            "lambda_u": code(30.0),
            "ramp": code(16 / (epochs - warm_up)),
            "lambda_c": code(0.025),
            "temperature": code(0.05),
            "T": code(0.5),
            "alpha": code(4.0),
            "rest_ratio": issue(1.0) if setting.rate >= 0.9 else code(0.5),
            "warm_up": code(warm_up),
            **entropy_weight,
        },
        train={
            "epochs": code(epochs),
            "batch_size": ours(128),  # of which about half are trusted: published 64 of them
            "lr": code(0.02),
            "momentum": code(0.9),
            "weight_decay": code(5e-4),
            "schedule": code("cosine"),
            "floor": code(0.01),
        },
        views={"strong": code("autoaugment"), "policy": code("cifar10")},
    )


def published_clothing1m() -> Recipe:
    """Trained on the trusted rows alone. Its code trains two or three times on each selection; here it is once.

    An epoch is of 32 000 rows: derived code chooses from so many, drawn anew; here all rows are looked at.
    """
    return Recipe(
        UNICON,
        method={"train_rest": code(False), "alpha": code(0.5), "warm_up": code(0), "warm_up_entropy": ours(0.0)},
        train={
            "epochs": code(200),
            "steps_per_epoch": third_party(32_000 // 64),
            "batch_size": ours(64),  # of which about half are trusted: published 32 of them
            "lr": code(0.005),
            "momentum": code(0.9),
            "weight_decay": code(1e-3),
            "schedule": code("cosine"),  # ends at 200 epochs, published at 100, from where the rate rises again
            "floor": code(1e-5 / 0.005),
        },
        views={"strong": code("autoaugment"), "policy": code("imagenet")},
    )


ENTRIES = (
    Entry(
        name="unicon",
        title="UNICON: uniform selection and contrastive learning",
        authors="Karim et al.",
        year=2022,
        link="https://arxiv.org/abs/2203.14542",
        summary="two networks trust as many rows of each class as of any other; MixMatch, contrastive loss on the rest",
        cost=8.84,  # with half of the rows trusted
        recipe=published,
        tuned={"lambda_u": (10.0, 30.0, 100.0), "lambda_c": (0.0, 0.025)},
        needs=("strong views",),
        differs=(
            "both networks take each step together, from one split before each epoch, and guessing leaves BatchNorm's "
            "averages alone; no row is repeated in the trusted part; batches hold trusted and other rows in their "
            "shares of an epoch; the learning rate does not rise again after 280 epochs"
        ),
    ),
)
