"""SELFIE (Song et al. 2019): small-loss rows, and rows whose label is refurbished as all recent predictions say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Self

from pars.lazy import torch
from pars.losses import cross_entropy, reduce
from pars.method_api import (
    Entry,
    Epoch,
    EpochConstant,
    Length,
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
    epochs_of,
    readme,
)
from pars.methods.parts.small_loss import (
    ROUNDING,
    VALID_NOISE_RATE,
    estimate_noise_rate,
    estimation_epoch,
    initial_noise_rate,
    is_noise_rate,
    published_noise_rate,
    small_loss_mask,
)

if TYPE_CHECKING:
    from torch import Tensor

NONE = -1  # no label corrected, no prediction made


@dataclass(frozen=True, kw_only=True)
class SELFIE(Method):
    """Several runs, each from fresh weights: a warm-up on all rows, then on clean and refurbishable ones.

    What has been corrected stays corrected over the runs, and so fewer rows are dropped in the next.
    """

    lengths_in_epochs: ClassVar[tuple[Length, ...]] = (Length("warm_up", "warm_up_share"),)  # of each run, not a stage
    epoch_constants: ClassVar[Mapping[str, EpochConstant]] = {"q": "length"}

    noise_rate: float | None = None  # τ; none = estimated early in the first run
    q: int = 15  # so many predictions in a row must agree
    restarts: int = 2
    warm_up: int | None = None  # epochs of each run on all rows; none = `warm_up_share` of it
    warm_up_share: float = 0.25
    reference_epochs: int | None = None  # epochs of all runs together that q is meant for; none = any

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_reference()
        self.require(is_noise_rate(self.noise_rate), "noise_rate", VALID_NOISE_RATE)
        self.require(1 <= self.q <= 1000, "q", "a whole number from 1 to 1000")
        self.require(0 <= self.restarts <= 1000, "restarts", "a whole number from 0 to 1000")
        self.require_shares("warm_up_share")

    def stages(self, task: Task) -> tuple[Stage, ...]:
        runs = self.restarts + 1
        ends = [-(-task.epochs * run // runs) for run in range(runs + 1)]
        lengths = [end - begin for begin, end in pairwise(ends)]
        learns = next((index for index, epochs in enumerate(lengths) if epochs > 1), None)  # enough to estimate by
        return tuple(self.run(task, index, epochs, first=index == learns) for index, epochs in enumerate(lengths))

    def run(self, task: Task, index: int, epochs: int, *, first: bool) -> Stage:
        warm_up = epochs_of(self.warm_up_share, epochs, self.warm_up) if epochs else 0
        estimate = min(estimation_epoch(task.epochs), epochs - 1) if self.noise_rate is None and first else None
        return Stage(
            f"run-{index + 1}",
            epochs,
            partial(self.step, warm_up=warm_up),
            before_epoch=partial(self.before_epoch, estimate_at=estimate),
            restart="all" if index else "none",
            own_curve=True,
        )

    def in_shares(self, epochs: int) -> Self:
        return super().in_shares(max(1, epochs // (self.restarts + 1)))  # of each run

    def initial_state(self, task: Task) -> State:
        q = self.at_length(task.epochs).q
        return initial_noise_rate(self.noise_rate) | {
            "predictions": torch.full((task.n_rows, q), NONE),  # each row's last q, the latest last
            "corrected": torch.full((task.n_rows,), NONE),
        }

    def before_epoch(self, epoch: Epoch, *, estimate_at: int | None = None) -> None:
        state, corrected = epoch.state, epoch.state["corrected"][epoch.labeled] != NONE
        if epoch.index == 0:  # a run begins: fresh weights have predicted nothing yet
            state["predictions"].fill_(NONE)
            state["noise_rate"] = torch.minimum(state["noise_rate"], 1 - corrected.double().mean())
        if epoch.index == estimate_at:
            estimate_noise_rate(epoch)
        epoch.note(noise_rate=float(state["noise_rate"]), corrected=float(corrected.double().mean()))

    def step(self, step: Step, *, warm_up: int) -> Losses:
        rows, given = step.batch.rows, step.batch.labels
        logits = step.net(step.batch.weak)
        ce = cross_entropy(logits, given)
        corrected, used = step.state["corrected"][rows], torch.ones_like(given, dtype=torch.bool)
        if step.epoch >= warm_up:
            clean = small_loss_mask(ce, ((1 - step.state["noise_rate"]) * len(rows) - ROUNDING).ceil())
            step.record_selection("clean", step.batch, logits, clean)
            corrected = refurbished(step.state["predictions"][rows], corrected)
            step.state["corrected"][rows] = corrected
            used = clean | (corrected != NONE)
        labels = torch.where(corrected != NONE, corrected, given)
        step.selections["used"] = Selection(step.batch, labels, used)
        remember(step.state["predictions"], rows, logits.detach().argmax(dim=1))
        return {"ce": reduce.mean(cross_entropy(logits, labels), used)}

    def evidence(self, state: State) -> Mapping[str, Tensor]:
        return {"corrected": state["corrected"]}


def refurbished(predictions: Tensor, corrected: Tensor) -> Tensor:
    """The class that all q predictions of a row agree on; else what it was corrected to. Shapes: [B, q], [B] -> [B].

    The paper asks for an entropy of at most 0.05 log K: of 15 predictions not one may differ, with 10 classes or 100.
    """
    agreed = (predictions == predictions[:, :1]).all(dim=1) & (predictions[:, 0] != NONE)
    return torch.where(agreed, predictions[:, 0], corrected)


def remember(predictions: Tensor, rows: Tensor, predicted: Tensor) -> None:
    """Put the newest prediction last and drop the oldest. Shapes: [n, q], [B], [B]."""
    # A row that is in the batch twice writes its first prediction from both places: no order of writing matters.
    first = (rows[:, None] == rows).int().argmax(dim=1)
    predictions[rows] = torch.cat([predictions[rows, 1:], predicted[first][:, None]], dim=1)


def published(setting: Setting) -> Recipe:
    if setting.data == "small":
        return Recipe(SELFIE, method={"q": code(15), "reference_epochs": code(300)})
    return Recipe(
        SELFIE,
        method=published_noise_rate(setting)
        | {"q": code(15), "warm_up": code(25), "restarts": readme(2), "reference_epochs": code(300)},
        train={
            "epochs": code(300),  # 100 each run
            "batch_size": code(128),
            "lr": code(0.1),
            "momentum": code(0.9),
            "schedule": code("steps"),
            "gamma": code(0.2),
            "milestones": code((0.5, 0.75)),
        },
    )


ENTRIES = (
    Entry(
        name="selfie",
        title="SELFIE",
        authors="Song et al.",
        year=2019,
        link="https://proceedings.mlr.press/v97/song19b.html",
        summary="small-loss rows and rows relabeled by unanimous predictions, over several runs from fresh weights",
        cost=1.0,
        recipe=published,
        needs=("noise rate (estimated if not given)",),
        differs="one forward a step, which selects and trains; a row is corrected only after q predictions of its own",
    ),
)
