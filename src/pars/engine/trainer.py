"""The training loop: stages, steps, evaluation, checkpoints. It does not know which method runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pars import seeds
from pars.augment import TestTimeView, Views
from pars.data import Dataset, DiskImages
from pars.engine import checkpoint as ck
from pars.engine.batches import DiskRows, Feed, Rows, as_tensor, lay_out
from pars.engine.config import TrainConfig
from pars.engine.dynamics import Dynamics, spans
from pars.engine.evaluation import EpochMeter, Evaluator, predict_proba
from pars.engine.folder import RunFolder
from pars.engine.learner import Curve, Learner, attach, check_network, fits
from pars.engine.leave_one_out import leave_one_out
from pars.engine.processes import Processes
from pars.engine.stages import ScheduledStage, StageRunner
from pars.engine.terminal import Callback, Interrupted, catch_interrupt
from pars.errors import Diverged, UserError
from pars.method_api import Method

REMEDY = "a smaller train.lr or other method settings may help"


class Trainer:
    """Trains a method's networks on a data set; can be stopped and resumed at any step with the same outcome.

    After `run`: nets (the networks), history (one dict per epoch, as in metrics.jsonl), state (the method's tensors),
    selected (the checkpoint it ended with, where `config.select` chose), dynamics (per-example training dynamics).
    """

    def __init__(
        self,
        *,
        method: Method,
        data: Dataset,
        networks: Sequence[nn.Module],
        views: Views,
        config: TrainConfig,
        seed: int,
        device: str = "cpu",
        held_out: npt.NDArray[np.bool_] | None = None,
        judging: npt.NDArray[np.bool_] | None = None,
        folder: RunFolder | None = None,
        callback: Callback | None = None,
        title: str = "train",
        planned: Sequence[float] = (),
        processes: Processes | None = None,
    ) -> None:
        """Set up a run that has not begun.

        networks: as many as the method trains. held_out: [n] rows that are not trained on. judging: [n] those of them
        that the run does not look at either. folder: where to save; none = nowhere. planned: the expected FLOP of each
        epoch; with it the run stops before it exceeds `config.budget`.
        processes: those that train together, all with the same arguments; the first of them writes into the folder.
        """
        self.processes = processes or Processes()
        if self.processes.size > 1 and device == "cuda" and method.one_gpu:
            raise UserError(f"{type(method).__name__} trains on one GPU only: {method.one_gpu}")
        if len(networks) != method.networks:
            raise UserError(f"{type(method).__name__} trains {method.networks} network(s), {len(networks)} were given")
        self.method, self.data, self.views, self.config = method, data, views, config
        self.seed, self.device, self.folder, self.title = seed, device, folder, title
        self.planned, self.callback = planned, callback or Callback()
        self.held_out = np.zeros(len(data.train), dtype=bool) if held_out is None else held_out
        if config.select != "last" and not self.held_out.any():
            raise UserError(
                f"train.select is {config.select!r}, which needs held-out rows to compare by: data.holdout above 0"
            )
        self.labels = torch.from_numpy(data.train.labels).to(device)
        given = self.labels.masked_fill(torch.from_numpy(self.held_out).to(device), -1)  # what a method may know
        cached = None if data.train.cached is None else as_tensor(data.train.cached)
        source = data.train.inputs
        rows = DiskRows(source, device) if isinstance(source, DiskImages) else as_tensor(source)
        self.feed = Feed(rows, given, views, seed=seed, device=device, cached=cached)
        self.inputs = self.feed.inputs
        self.evaluator = Evaluator(data, self.feed, self.labels, self.held_out, judging)
        self.selected: ck.SelectedCheckpoint | None = None
        true = data.train.true_labels
        self.true_labels = None if true is None else torch.from_numpy(true).to(device)

        usable = np.flatnonzero(~self.held_out)
        layout = lay_out(usable[data.train.labels[usable] >= 0], usable, config, seed, data.train.labels)
        self.runner = StageRunner(
            method,
            self.feed,
            layout,
            epochs=config.epochs,
            n_classes=data.n_classes,
            seed=seed,
            rank=self.processes.rank,
        )
        self.steps, self.state = layout.steps, self.runner.state  # of an epoch; what the method keeps between steps
        pair = torch.zeros(2, dtype=torch.int64, device=device)  # two rows: BatchNorm needs more than one
        example = views.plain(self.inputs[pair])
        smallest = layout.per_epoch // layout.steps  # rows of the smallest batch
        for index, module in enumerate(networks):
            check_network(module, example, data.n_classes, smallest, f"networks[{index}]")
        self.learners = [
            Learner(
                module.to(device),
                config,
                example,
                attach(method, module, example, data.n_classes, seed + index),
                self.processes,
            )
            for index, module in enumerate(networks)
        ]
        self.nets = tuple(learner.net for learner in self.learners)
        self.step_flop = config.batch_size * sum(learner.cost.training for learner in self.learners)  # of one pass
        self.epoch, self.step = 0, 0  # finished epochs; finished steps of the current epoch
        self.spent: dict[str, float] = {}  # FLOP of each stage after the last finished epoch
        self.history: list[dict[str, Any]] = []  # what metrics.jsonl has of each finished epoch
        self.meter = EpochMeter(self.true_labels)
        self.dynamics: Dynamics | None = None
        if config.dynamics_every:
            when = spans([scheduled.stage.epochs for scheduled in self.runner.schedule])
            self.dynamics = Dynamics(len(data.train), data.n_classes, when, config.dynamics_every)
        self._saved_at = time.monotonic()

    def run(self) -> None:
        """Train to the end from the current position. A signal saves and raises `Interrupted`."""
        self.callback.start(self.runner.total_steps, self.epoch * self.steps + self.step, self.title)
        try:
            with catch_interrupt() as interrupted:
                while not self.is_over:
                    self._run_epoch(interrupted)
        finally:
            self.callback.stop()
        if self.selected is not None:
            for net, weights in zip(self.nets, self.selected.weights, strict=True):
                net.average.load_state_dict(weights)
        if self.folder is not None and self.processes.rank == 0:
            self._save_outcome(self.folder)

    def _save_outcome(self, folder: RunFolder) -> None:
        """Write the training dynamics, the final weights, and how to read inputs for them."""
        when = None if self.dynamics is None else self.dynamics.spans
        if when is not None and self.epoch > when.late.start:  # a budget may end a run before its late epochs
            spans_ = {"early": [when.early.start, when.early.stop], "late": [when.late.start, when.late.stop]}
            ck.save_tensors(folder.dynamics, self.recorded(), {"epochs": self.epoch, "first": when.first, **spans_})
        note = {
            "networks": len(self.nets),
            "epochs": self.epoch,
            "classes": self.data.classes,
            "input_shape": list(self.data.train.inputs.shape[1:]),
            "mean": self.data.mean,
            "std": self.data.std,
        }
        if self.selected is not None:
            note["selected"] = self.selected.note()
        weights = {name: t for index, learner in enumerate(self.learners) for name, t in learner.weights(index).items()}
        ck.save_tensors(folder.model, weights, note)

    def recorded(self) -> dict[str, Tensor]:
        """Per-example training dynamics, tensors [n] or [n, K] by name: what `pars.audit.from_dynamics` reads."""
        assert self.dynamics is not None
        rows = self.dynamics.rows(self.labels, self.held_out)
        inputs = self.inputs
        linear = None if isinstance(inputs, DiskRows) else leave_one_out(inputs, self.labels, self.data.n_classes)
        return rows if linear is None else rows | {"linear": linear}

    @property
    def flop(self) -> float:
        """FLOP of training so far, evaluation not counted."""
        total = 0.0
        for learner in self.learners:
            net, cost = learner.net, learner.cost
            total += net.forwards * cost.forward + net.backwards * cost.training + learner.updating
        return total

    @property
    def is_over(self) -> bool:
        """Whether all epochs are done, or the next would exceed the budget; within an epoch it is not."""
        if self.step or self.epoch >= self.config.epochs:
            return not self.step
        return bool(self.planned) and not fits(self.flop + self.planned[self.epoch], self.config.budget)

    def _run_epoch(self, interrupted: list[bool]) -> None:
        scheduled = self.runner.stage_of(self.epoch)
        if self.step == 0:  # between epochs; repeated by a run that is resumed before the first step
            notes: dict[str, float] = {}
            if self.epoch == scheduled.first_epoch:
                notes = self.runner.before_epoch(scheduled, self.nets, self.epoch, of_stage=True)
                for index, learner in enumerate(self.learners):
                    learner.enter(scheduled.stage, seed=seeds.torch_seed(self.seed + index, "restart", self.epoch))
            notes |= self.runner.before_epoch(scheduled, self.nets, self.epoch)
            self.meter.sums |= {f"note/{name}": torch.tensor(v, dtype=torch.float64) for name, v in notes.items()}
        orders = self.runner.layout.orders(scheduled.stage.draws, self.state)
        while self.step < self.steps:
            rows = {name: order.batch(self.epoch, self.step) for name, order in orders.items()}
            if isinstance(self.inputs, DiskRows) and self.step + 1 < self.steps:
                for order in orders.values():
                    self.inputs.prefetch(order.batch(self.epoch, self.step + 1))
            self._run_step(scheduled, rows)
            self.step += 1
            stop = bool(interrupted)
            if self.processes.size > 1:
                stop = self.processes.any(stop)  # all stop at the same step
            if stop or time.monotonic() - self._saved_at > self.config.checkpoint_seconds:
                self.save()
            if stop:
                raise Interrupted
        line = self._finish_epoch(scheduled)
        self.history.append(line)
        self.callback.epoch(line)

    def _run_step(self, scheduled: ScheduledStage, rows: Mapping[str, Rows]) -> None:
        """One step on row numbers [B] of each draw: gradients, update of weights and averages, sums for the log."""
        losses, step = self.runner.run_step(scheduled, self.nets, rows, epoch=self.epoch, step=self.step)
        # The learning rate runs over the stage's own steps, or over the whole run's.
        stage, first = scheduled.stage, scheduled.first_epoch * self.steps
        averaged_from = first if stage.restart == "all" else 0
        if stage.own_curve or stage.train:
            curve = Curve(first, stage.epochs * self.steps, averaged_from, self.runner.total_steps)
        else:
            curve = Curve(0, self.runner.total_steps, averaged_from, self.runner.total_steps)
        for learner in self.learners:
            learner.update(self.epoch * self.steps + self.step, curve)
        self.meter.add_step(losses, step.selections)
        self.callback.step(sum(map(len, rows.values())))

    def _finish_epoch(self, scheduled: ScheduledStage) -> dict[str, Any]:
        """Evaluate, log, save: in this order, so that a kill in between repeats the epoch, never skips it."""
        stage, measured, flop = scheduled.stage.name, self.meter.read(), self.flop
        losses = measured["losses"]
        if not all(np.isfinite(value) for value in losses.values()):
            epoch = self.epoch + 1
            raise Diverged(f"a loss is not finite in epoch {epoch}: {losses}; {REMEDY}", epoch=epoch)
        self.epoch, self.step = self.epoch + 1, 0
        self.spent[stage] = flop - sum(spent for name, spent in self.spent.items() if name != stage)
        line: dict[str, Any] = {
            "epoch": self.epoch,
            "stage": stage,
            "steps": self.epoch * self.steps,
            "images": sum(net.backwards for net in self.nets),
            "flop": flop,
            "flop_by_stage": dict(self.spent),
            **measured,
        }
        if self.is_over and self.epoch < self.config.epochs:
            line["stopped"] = "budget"
        ends_stage = self.is_over or self.epoch == scheduled.first_epoch + scheduled.stage.epochs
        line |= self._evaluate(stage, ends_stage=ends_stage)
        weights = (tensor for learner in self.learners for tensor in learner.weights(0).values())
        if not all(bool(tensor.isfinite().all()) for tensor in weights):
            raise Diverged(f"a weight is not finite after epoch {self.epoch}; {REMEDY}", epoch=self.epoch)
        if self.processes.size > 1:
            self.processes.check_equal(tensor for learner in self.learners for tensor in learner.weights(0).values())
        self.meter = EpochMeter(self.true_labels)
        if self.folder is not None:
            if ends_stage:
                # Without test-time augmentation: these predictions are there to be counted.
                probabilities = self.predict_proba(self.inputs, test_time_views=[self.views.plain])
                evidence = self.method.evidence(self.state)
                if self.processes.rank == 0:
                    ck.save_rows(self.folder, stage, self.epoch, probabilities, self.labels, evidence)
            if self.processes.rank == 0:
                self.folder.append_metrics(line)
            if self.epoch % self.config.checkpoint_every == 0 or self.is_over:
                self.save()
        return line

    def _evaluate(self, stage: str, *, ends_stage: bool) -> dict[str, Any]:
        """Where due: accuracies, the selection of a checkpoint, training dynamics. Returns what the log has of it."""
        evaluates = self.epoch % self.config.evaluate_every == 0 or ends_stage
        records = self.dynamics is not None and (self.is_over or self.dynamics.is_due(self.epoch - 1))
        if evaluates or records:
            self.evaluator.calibrate(self.nets)
        line: dict[str, Any] = {}
        if evaluates:
            line, correct = self.evaluator.evaluate(self.nets)
            rule = self.config.select
            if correct is not None and {"best-stage": ends_stage, "best-epoch": True}.get(rule, False):
                if self.selected is None or not ck.prefers_earlier(self.selected.correct, correct, rule):
                    states = (net.average.state_dict() for net in self.nets)
                    weights = tuple({name: tensor.clone() for name, tensor in state.items()} for state in states)
                    self.selected = ck.SelectedCheckpoint(self.epoch, stage, correct, weights)
                line["selected"] = self.selected.epoch
        if self.dynamics is not None and records:
            self.dynamics.record(
                [net.average for net in self.nets], self.feed, self.labels, self.epoch - 1, self.nets[0].apply
            )
        return line

    def predict_proba(
        self, inputs: Tensor | DiskRows, *, average: bool = True, test_time_views: Sequence[TestTimeView] | None = None
    ) -> Tensor:
        """Class probabilities [n, K], the mean over networks and test-time views (default: all of `views`).

        inputs: [n, ...] as the training rows are stored. average: of the averaged weights, else of the raw ones.
        """
        modules = [net.average if average else net.module for net in self.nets]
        views = test_time_views or self.views.test_time_views
        return predict_proba(modules, inputs, views, self.device, self.nets[0].apply)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that training changes, by the names of a checkpoint."""
        out = {f"state.{name}": tensor for name, tensor in self.state.items()}
        out |= {f"meter.{name}": tensor for name, tensor in self.meter.sums.items()}
        if self.dynamics is not None:
            out |= {f"dynamics.{name}": tensor for name, tensor in self.dynamics.tensors.items()}
        for index, learner in enumerate(self.learners):
            out |= learner.tensors(index)
        if self.selected is not None:
            out["selected.correct"] = self.selected.correct
            for index, weights in enumerate(self.selected.weights):
                out |= {f"selected.average.{index}.{name}": tensor for name, tensor in weights.items()}
        return out

    def save(self) -> None:
        """Write the checkpoint, if this run has a folder."""
        if self.folder is not None and self.processes.rank == 0:
            work = [(learner.net.forwards, learner.net.backwards, learner.updating) for learner in self.learners]
            # safetensors sorts by name; the order of the losses is theirs in the log.
            note = {"epoch": self.epoch, "step": self.step, "work": work, "meter": list(self.meter.sums)}
            note["spent"] = self.spent
            if self.selected is not None:
                note["selected"] = self.selected.note()
            ck.save_tensors(self.folder.checkpoint, self.tensors(), note)
        self._saved_at = time.monotonic()

    def restore(self) -> None:
        """Continue from the folder's checkpoint; from the beginning where there is none yet."""
        assert self.folder is not None, "a run without a folder cannot be restored"
        path = self.folder.checkpoint
        if not path.exists():
            self.folder.check_never_saved(min(self.config.checkpoint_every, self.config.epochs))
            self._truncate_metrics(self.folder, 0)
            return
        tensors, note = ck.load_tensors(path)
        sums, state = ck.with_prefix("meter.", tensors, self.device), ck.with_prefix("state.", tensors, self.device)
        at = ck.read_position(
            note, sums, path, epochs=self.config.epochs, steps=self.steps, networks=len(self.learners)
        )
        ck.check_state(state, self.state, path)
        rows = self.evaluator.held_out_rows
        selected = ck.read_selected(note, tensors, path, epoch=at.epoch, rows=rows, nets=self.nets)
        if self.dynamics is not None:
            self.dynamics.load(ck.with_prefix("dynamics.", tensors, "cpu"), path)
        stage = self.runner.stage_of(at.epoch if at.step else max(0, at.epoch - 1)).stage  # the one that left it
        for index, (learner, work) in enumerate(zip(self.learners, at.work, strict=True)):
            learner.enter(stage, seed=None)
            learner.load(index, tensors, work, path)
        self.state.clear()
        self.state.update(state)
        self.meter.sums, self.epoch, self.step = at.meter, at.epoch, at.step
        self.selected, self.spent = selected, at.spent
        self._truncate_metrics(self.folder, self.epoch)
        self.history = self.folder.read_metrics()

    def _truncate_metrics(self, folder: RunFolder, epochs: int) -> None:
        """In the first process, while the others wait: they read the log next."""
        self.processes.in_first(lambda: folder.truncate_metrics(epochs))
