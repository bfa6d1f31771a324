"""A method's stages in a run: the epochs of each, and one epoch or step of it on networks that are given.

Two classes use it: `Trainer`, which updates the weights after each step, and `CostProbe`, which only counts rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from pars import seeds
from pars.engine.batches import LABELED, Batches, Feed, Layout, Order, Rows
from pars.engine.device import seed_generators
from pars.errors import UserError
from pars.method_api import Draw, Epoch, Losses, Method, Network, RowParameter, Stage, State, Step, Task


@dataclass(frozen=True, eq=False)
class ScheduledStage:
    """A stage, the epoch it begins with, and where its rows come from."""

    stage: Stage
    first_epoch: int
    layout: Layout

    @property
    def end(self) -> int:
        """The epoch after its last."""
        return self.first_epoch + self.stage.epochs

    @property
    def draws(self) -> dict[str, Draw]:
        return {"labeled": LABELED, **self.stage.draws}

    def orders(self, state: State) -> dict[str, Order]:
        """The order of rows for each draw, in an epoch that begins, or is under way, with this state."""
        return {name: self.layout.order(name, draw, state) for name, draw in self.draws.items()}


def schedule(stages: Sequence[Stage], layout: Layout, epochs: int) -> list[ScheduledStage]:
    """The stages one after the other; a stage of no epochs is left out."""
    if sum(stage.epochs for stage in stages) != epochs:
        raise UserError(f"the stages have {[s.epochs for s in stages]} epochs, the run {epochs}")
    out, first = [], 0
    for stage in stages:
        if stage.epochs:
            out.append(ScheduledStage(stage, first, layout))
        first += stage.epochs
    return out


class StageRunner:
    """Runs the stages of a method: forward and backward of each step, on networks that are given; no optimizer.

    state: what the method keeps between steps. schedule: its stages. steps: of an epoch. total_steps: of the run.
    """

    def __init__(self, method: Method, feed: Feed, layout: Layout, *, epochs: int, n_classes: int, seed: int) -> None:
        self._feed, self._layout, self._n_classes, self._seed = feed, layout, n_classes, seed
        task = Task(len(feed.labels), n_classes, feed.labels, epochs)
        self.state: State = {name: tensor.to(feed.device) for name, tensor in method.initial_state(task).items()}
        self.schedule = schedule(method.stages(task), layout, epochs)
        self.steps, self.total_steps = layout.steps, layout.steps * epochs

    def stage_of(self, epoch: int) -> ScheduledStage:
        """The stage of an epoch (from 0)."""
        return next(scheduled for scheduled in reversed(self.schedule) if scheduled.first_epoch <= epoch)

    def before_stage(self, scheduled: ScheduledStage, nets: tuple[Network, ...]) -> dict[str, float]:
        """Let the method do what it does before a stage, with the networks of the one before; returns its notes."""
        return self._between(scheduled.stage.before_stage, scheduled, nets, scheduled.first_epoch, "method/stage")

    def before_epoch(self, scheduled: ScheduledStage, nets: tuple[Network, ...], epoch: int) -> dict[str, float]:
        """Let the method do what it does before an epoch; returns its notes for the log."""
        return self._between(scheduled.stage.before_epoch, scheduled, nets, epoch, "method/epoch")

    def _between(
        self,
        hook: Callable[[Epoch], None] | None,
        scheduled: ScheduledStage,
        nets: tuple[Network, ...],
        epoch: int,
        stream: str,
    ) -> dict[str, float]:
        if hook is None:
            return {}
        before = Epoch(
            nets=nets,
            index=epoch - scheduled.first_epoch,
            epochs=scheduled.stage.epochs,
            rows=torch.from_numpy(self._layout.every).to(self._feed.device),
            given=self._feed.labels,
            n_classes=self._n_classes,
            state=self.state,
            rng=seeds.generator(self._seed, stream, epoch),
            run_pass=self._feed.passes(epoch),
        )
        hook(before)
        return before.notes

    def batches(self, scheduled: ScheduledStage, epoch: int) -> dict[str, Batches]:
        """The row numbers of each step of an epoch, by draw."""
        return {name: order.epoch(epoch) for name, order in scheduled.orders(self.state).items()}

    def run_step(
        self, scheduled: ScheduledStage, nets: tuple[Network, ...], rows: Mapping[str, Rows], *, epoch: int, step: int
    ) -> tuple[Losses, Step]:
        """Compute the losses of a step and their gradients; returns the losses, and the step with what it selected.

        rows: row numbers [B] of each draw. The gradients of the networks are left for an optimizer; values per row that
        the step learns are updated here.
        """
        device, global_step = self._feed.device, epoch * self.steps + step
        in_stage = global_step - scheduled.first_epoch * self.steps
        at = Step(
            nets=nets,
            batches={name: self._feed.batch(name, which, epoch, step) for name, which in rows.items()},
            state=self.state,
            rng=seeds.generator(self._seed, "method", epoch, step),
            epoch=epoch - scheduled.first_epoch,
            progress=global_step / self.total_steps,
            stage_progress=in_stage / (scheduled.stage.epochs * self.steps),
        )
        # Dropout inside a network draws from torch's own generator: place it by address too.
        seed_generators(device, seeds.torch_seed(self._seed, "torch", epoch, step))
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            losses = scheduled.stage.step(at)
        torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
        _learn_rows(self.state, at.row_parameters)
        return losses, at


@torch.no_grad()
def _learn_rows(state: State, learned: Sequence[RowParameter]) -> None:
    """Update the values per row that a step learned, by plain gradient descent."""
    for parameter in learned:
        if parameter.values.grad is not None:
            state[parameter.name].index_add_(0, parameter.rows, -parameter.lr * parameter.values.grad)
