"""A method's stages in a run: the epochs of each, and one epoch or step of it on networks that are given.

Two classes use it: `Trainer`, which updates the weights after each step, and `CostProbe`, which only counts rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from pars import seeds
from pars.engine.batches import Feed, Layout, Rows
from pars.errors import UserError
from pars.method_api import Epoch, Losses, Method, Network, Stage, State, Step, Task


@dataclass(frozen=True, eq=False)
class ScheduledStage:
    """A stage, and the epoch it begins with."""

    stage: Stage
    first_epoch: int


class StageRunner:
    """Runs the stages of a method: forward and backward of each step, on networks that are given; no optimizer.

    state: what the method keeps between steps. schedule: its stages one after the other, those of no epochs left out.
    layout: the rows that their batches are drawn from. steps: of an epoch. total_steps: of the run.
    """

    def __init__(
        self, method: Method, feed: Feed, layout: Layout, *, epochs: int, n_classes: int, seed: int, rank: int = 0
    ) -> None:
        """`rank`: of this process among those that train together."""
        self._feed, self._n_classes, self._seed = feed, n_classes, seed
        self._torch_stream = "torch" if rank == 0 else f"torch/{rank}"  # each has rows of its own to drop values of
        self.layout, self.steps, self.total_steps = layout, layout.steps, layout.steps * epochs
        task = Task(len(feed.labels), n_classes, feed.labels, epochs, layout.steps)
        self.state: State = {name: tensor.to(feed.device) for name, tensor in method.initial_state(task).items()}
        stages = method.stages(task)
        if sum(stage.epochs for stage in stages) != epochs:
            raise UserError(f"the stages have {[stage.epochs for stage in stages]} epochs, the run {epochs}")
        self.schedule: list[ScheduledStage] = []
        first = 0
        for stage in stages:
            if stage.epochs:
                self.schedule.append(ScheduledStage(stage, first))
            first += stage.epochs

    def stage_of(self, epoch: int) -> ScheduledStage:
        """The stage of an epoch (from 0)."""
        return next(scheduled for scheduled in reversed(self.schedule) if scheduled.first_epoch <= epoch)

    def before_epoch(
        self, scheduled: ScheduledStage, nets: tuple[Network, ...], epoch: int, *, of_stage: bool = False
    ) -> dict[str, float]:
        """Call the method's hook before an epoch, or (`of_stage`) before its stage; returns notes for the log."""
        hook = scheduled.stage.before_stage if of_stage else scheduled.stage.before_epoch
        if hook is None:
            return {}
        before = Epoch(
            nets=nets,
            index=epoch - scheduled.first_epoch,
            epochs=scheduled.stage.epochs,
            rows=torch.from_numpy(self.layout.every).to(self._feed.device),
            given=self._feed.labels,
            n_classes=self._n_classes,
            state=self.state,
            rng=seeds.generator(self._seed, "method/stage" if of_stage else "method/epoch", epoch),
            run_pass=self._feed.passes(epoch),
        )
        hook(before)
        return before.notes

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
        # Dropout inside a network draws from torch's own generators: place them by address too. Not torch.manual_seed:
        # it seeds every kind of device that could be there, and each one that is not remembers the call with its whole
        # stack trace for a later start, at every step anew.
        torch_seed = seeds.torch_seed(self._seed, self._torch_stream, epoch, step)
        torch.default_generator.manual_seed(torch_seed)
        if device == "cuda":
            torch.cuda.manual_seed(torch_seed)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            losses = scheduled.stage.step(at)
        torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for learned in at.row_parameters:  # by plain gradient descent
                if learned.values.grad is not None:
                    self.state[learned.name].index_add_(0, learned.rows, -learned.lr * learned.values.grad)
        return losses, at
