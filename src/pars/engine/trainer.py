"""The loop: stages, batches, steps, evaluation, checkpoints. It does not know which method runs."""

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
from pars.data import Dataset
from pars.engine import checkpoint as ck
from pars.engine.config import TrainConfig
from pars.engine.device import seed_generators
from pars.engine.dynamics import Dynamics, spans
from pars.engine.examine import Examiner
from pars.engine.feed import Feed, as_tensor
from pars.engine.flops import fits
from pars.engine.folder import RunFolder
from pars.engine.interrupt import Interrupted, catch_interrupt
from pars.engine.keep import Kept, better, put_back, read_kept
from pars.engine.learner import Curve, Learner, attach, learn_rows
from pars.engine.leave_one_out import linear_view
from pars.engine.meters import EpochMeter
from pars.engine.order import LABELED, Rows, Scheduled, lay_out, schedule
from pars.engine.outcome import save_model, save_rows
from pars.engine.position import check_state, read_position
from pars.engine.predict import predict_proba
from pars.engine.probe import check_network
from pars.engine.progress import Callback
from pars.engine.threads import choose_threads
from pars.errors import Diverged, UserError
from pars.method_api import Epoch, Method, Step, Task

REMEDY = "a smaller train.lr or other method settings may help"


class Trainer:
    """Trains a method's networks on a data set, and can be stopped and resumed at any step with the same outcome."""

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
        folder: RunFolder | None = None,
        callback: Callback | None = None,
        title: str = "train",
        planned: Sequence[float] = (),
    ) -> None:
        """`planned` is what each epoch is expected to cost (FLOP): with it the run keeps to `config.budget`."""
        if len(networks) != method.networks:
            raise UserError(f"{type(method).__name__} trains {method.networks} network(s), {len(networks)} were given")
        self.method, self.data, self.views, self.config = method, data, views, config
        self.seed, self.device, self.folder, self.title = seed, device, folder, title
        self.planned, self.callback = planned, callback or Callback()
        self.held_out = np.zeros(len(data.train), dtype=bool) if held_out is None else held_out
        if config.keep != "last" and not self.held_out.any():
            raise UserError(
                f"train.keep is {config.keep!r}, which needs held-out rows to judge by: data.holdout above 0"
            )
        self.labels = torch.from_numpy(data.train.labels).to(device)
        given = self.labels.masked_fill(torch.from_numpy(self.held_out).to(device), -1)  # what a method may know
        cached = None if data.train.cached is None else as_tensor(data.train.cached)
        self.feed = Feed(as_tensor(data.train.inputs), given, views, seed=seed, device=device, cached=cached)
        self.inputs = self.feed.inputs
        self.examiner = Examiner(data, self.feed, self.labels, self.held_out)
        self.kept: Kept | None = None  # the averaged weights to end with, where that may be earlier ones
        true = data.train.true_labels
        self.true_labels = None if true is None else torch.from_numpy(true).to(device)

        task = Task(len(data.train), data.n_classes, given, config.epochs)
        self.state = {name: tensor.to(device) for name, tensor in method.initial_state(task).items()}
        usable = np.flatnonzero(~self.held_out)
        layout = lay_out(usable[data.train.labels[usable] >= 0], usable, config, seed)
        self.schedule = schedule(method.stages(task), layout, config.epochs)
        pair = torch.zeros(2, dtype=torch.int64, device=device)  # two rows: BatchNorm needs more than one
        example = views.plain(self.inputs[pair])
        smallest = layout.order("labeled", LABELED, {}).smallest
        for index, module in enumerate(networks):
            check_network(module, example, data.n_classes, smallest, f"networks[{index}]")
        self.learners = [
            Learner(module.to(device), config, example, attach(method, module, example, data.n_classes, seed + index))
            for index, module in enumerate(networks)
        ]
        self.nets = tuple(learner.net for learner in self.learners)
        self.steps = layout.steps
        self.total_steps = self.steps * config.epochs
        self.epoch, self.step = 0, 0  # finished epochs; finished steps of the epoch under way
        self.spent: dict[str, float] = {}  # FLOP of each stage after the last finished epoch
        self.history: list[dict[str, Any]] = []  # what metrics.jsonl has of each finished epoch
        self.meter = EpochMeter(self.true_labels)
        self.dynamics: Dynamics | None = None
        if config.dynamics_every:
            when = spans([scheduled.stage.epochs for scheduled in self.schedule])
            self.dynamics = Dynamics(len(data.train), data.n_classes, when, config.dynamics_every)
        self._saved_at = time.monotonic()

    def run(self) -> None:
        """Train to the end from wherever this trainer stands."""
        self.callback.start(self.total_steps, self.epoch * self.steps + self.step, self.title)
        try:
            with catch_interrupt() as interrupted:
                while not self.is_over:
                    self._run_epoch(interrupted)
        finally:
            self.callback.stop()
        if self.kept is not None:
            put_back(self.kept, self.nets)
        if self.folder is not None:
            if self.dynamics is not None and self.dynamics.is_complete:
                note = {"epochs": self.epoch, **self.dynamics.note()}
                ck.save_tensors(self.folder.dynamics, self.recorded(), note)
            save_model(self.folder, self.learners, self.data, self.epoch, self.kept)

    def recorded(self) -> dict[str, Tensor]:
        """What there is to know of each row's label, [n] or [n, K]: what `pars.audit.from_dynamics` reads."""
        assert self.dynamics is not None
        rows = self.dynamics.rows(self.labels, self.held_out)
        return rows | linear_view(self.inputs, self.labels, self.data.n_classes)

    def _run_epoch(self, interrupted: list[bool]) -> None:
        now = self._scheduled(self.epoch)
        if self.step == 0:
            self._begin_epoch(now)
        orders = {name: order.epoch(self.epoch) for name, order in now.orders(self.state).items()}
        while self.step < self.steps:
            self._run_step(now, {name: batches[self.step] for name, batches in orders.items()})
            self.step += 1
            if interrupted or time.monotonic() - self._saved_at > self.config.checkpoint_seconds:
                self.save()
            if interrupted:
                raise Interrupted
        line = self._finish_epoch(now)
        self.history.append(line)
        self.callback.epoch(line)

    def _scheduled(self, epoch: int) -> Scheduled:
        """The stage of an epoch."""
        return next(s for s in reversed(self.schedule) if s.first_epoch <= epoch)

    def suitable_threads(self) -> int | None:
        """The number of threads that suits this training here and now; none on CUDA, where it does not matter."""
        if self.device != "cpu":
            return None
        return choose_threads(self.config.batch_size * sum(learner.cost.training for learner in self.learners))

    @property
    def flop(self) -> float:
        """Floating-point operations of training so far."""
        return sum(learner.flop for learner in self.learners)

    @property
    def is_over(self) -> bool:
        """Whether all epochs are done, or the next would exceed the budget; within an epoch it is not."""
        if self.step or self.epoch >= self.config.epochs:
            return not self.step
        return bool(self.planned) and not fits(self.flop + self.planned[self.epoch], self.config.budget)

    def _begin_epoch(self, now: Scheduled) -> None:
        """What happens between epochs; repeated by a run that is resumed before the first step."""
        if self.epoch == now.first_epoch:
            self._enter(now)
        if now.stage.before_epoch is not None:
            before = Epoch(
                nets=self.nets,
                index=self.epoch - now.first_epoch,
                epochs=now.stage.epochs,
                rows=torch.from_numpy(np.flatnonzero(~self.held_out)).to(self.device),
                given=self.feed.labels,
                n_classes=self.data.n_classes,
                state=self.state,
                rng=seeds.generator(self.seed, "method/epoch", self.epoch),
                run_pass=self.feed.passes(self.epoch),
            )
            now.stage.before_epoch(before)
            self.meter.add_notes(before.notes)

    def _enter(self, now: Scheduled) -> None:
        """Begin a stage."""
        for index, learner in enumerate(self.learners):
            learner.enter(now.stage, seed=seeds.torch_seed(self.seed + index, "restart", self.epoch))

    def _run_step(self, now: Scheduled, rows: Mapping[str, Rows]) -> None:
        global_step = self.epoch * self.steps + self.step
        first, stage_steps = now.first_epoch * self.steps, now.stage.epochs * self.steps
        at = Step(
            nets=self.nets,
            batches={name: self.feed.batch(name, which, self.epoch, self.step) for name, which in rows.items()},
            state=self.state,
            rng=seeds.generator(self.seed, "method", self.epoch, self.step),
            epoch=self.epoch - now.first_epoch,
            progress=global_step / self.total_steps,
            stage_progress=(global_step - first) / stage_steps,
        )
        # Dropout inside a network draws from torch's own generator: place it by address too.
        seed_generators(self.device, seeds.torch_seed(self.seed, "torch", self.epoch, self.step))
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.device == "cuda"):
            losses = now.stage.step(at)
        torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
        own = now.stage.has_own_curve
        begun = first if now.stage.restart == "all" else 0
        curve = Curve(first if own else 0, stage_steps if own else self.total_steps, begun)
        for learner in self.learners:
            learner.update(global_step, curve)
        learn_rows(self.state, at.row_parameters)
        self.meter.add_losses(losses)
        self.meter.add_selections(at.selections)
        self.callback.step(sum(map(len, rows.values())))

    def _finish_epoch(self, now: Scheduled) -> dict[str, Any]:
        """Evaluate, log, save: in this order, so that a kill in between repeats the epoch, never skips it."""
        losses = self.meter.losses()
        if not all(np.isfinite(value) for value in losses.values()):
            raise Diverged(f"a loss is not finite in epoch {self.epoch + 1}: {losses}; {REMEDY}")
        self.epoch, self.step = self.epoch + 1, 0
        name, flop = now.stage.name, self.flop
        self.spent[name] = flop - sum(spent for stage, spent in self.spent.items() if stage != name)
        line: dict[str, Any] = {
            "epoch": self.epoch,
            "stage": name,
            "steps": self.epoch * self.steps,
            "images": sum(net.backwards for net in self.nets),
            "flop": flop,
            "flop_by_stage": dict(self.spent),
            "losses": losses,
            "selection": self.meter.selections(),
        }
        if notes := self.meter.notes():
            line["notes"] = notes
        if self.is_over and self.epoch < self.config.epochs:
            line["stopped"] = "budget"
        last_of_stage = self.is_over or self.epoch == now.first_epoch + now.stage.epochs
        evaluates = self.epoch % self.config.evaluate_every == 0 or last_of_stage
        looks = self.dynamics is not None and (self.is_over or self.dynamics.is_due(self.epoch - 1))
        if evaluates or looks:
            self.examiner.calibrate(self.nets)
        if evaluates:
            found, right = self.examiner.examine(self.nets)
            line |= found
            if right is not None and {"best-stage": last_of_stage, "best-epoch": True}.get(self.config.keep, False):
                self.kept = better(self.kept, self.config.keep, self.epoch, name, right, self.nets)
                line["kept"] = self.kept.epoch
        if self.dynamics is not None and looks:
            self.dynamics.look([net.average for net in self.nets], self.feed, self.labels, self.epoch - 1)
        if not all(learner.is_finite for learner in self.learners):
            raise Diverged(f"a weight is not finite after epoch {self.epoch}; {REMEDY}")
        self.meter = EpochMeter(self.true_labels)
        if self.folder is not None:
            if last_of_stage:
                # One look at each of so many rows is enough: they are there to be counted.
                said = self.predict_proba(self.inputs, looks=[self.views.plain])
                save_rows(self.folder, name, self.epoch, said, self.labels, self.method.evidence(self.state))
            self.folder.append_metrics(line)
            if self.epoch % self.config.checkpoint_every == 0 or self.is_over:
                self.save()
        return line

    def predict_proba(
        self, inputs: Tensor, *, average: bool = True, looks: Sequence[TestTimeView] | None = None
    ) -> Tensor:
        """Class probabilities [n, K], the mean over networks and looks (by default all that a prediction takes)."""
        modules = [net.average if average else net.module for net in self.nets]
        return predict_proba(modules, inputs, looks or self.views.test_time_views, self.device)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that training changes."""
        out = {f"state.{name}": tensor for name, tensor in self.state.items()}
        out |= {f"meter.{name}": tensor for name, tensor in self.meter.sums.items()}
        if self.dynamics is not None:
            out |= {f"dynamics.{name}": tensor for name, tensor in self.dynamics.tensors.items()}
        for index, learner in enumerate(self.learners):
            out |= learner.tensors(index)
        return out if self.kept is None else out | self.kept.tensors()

    def save(self) -> None:
        """Write the checkpoint, if this run has a folder."""
        if self.folder is not None:
            work = [learner.work for learner in self.learners]
            # safetensors sorts by name; the order of the losses is theirs in the log.
            note = {"epoch": self.epoch, "step": self.step, "work": work, "meter": list(self.meter.sums)}
            note["spent"] = self.spent
            if self.kept is not None:
                note["kept"] = self.kept.note()
            ck.save_tensors(self.folder.checkpoint, self.tensors(), note)
        self._saved_at = time.monotonic()

    def restore(self) -> None:
        """Stand where the folder's checkpoint stands; at the beginning where there is none yet."""
        assert self.folder is not None, "a run without a folder cannot be restored"
        path = self.folder.checkpoint
        if not path.exists():
            self.folder.check_never_saved(min(self.config.checkpoint_every, self.config.epochs))
            self.folder.keep_metrics(0)
            return
        tensors, note = ck.load_tensors(path)
        sums, state = ck.with_prefix("meter.", tensors, self.device), ck.with_prefix("state.", tensors, self.device)
        at = read_position(note, sums, path, epochs=self.config.epochs, steps=self.steps, networks=len(self.learners))
        check_state(state, self.state, path)
        rows = self.examiner.held_out_rows
        kept = read_kept(note, tensors, path, epoch=at.epoch, rows=rows, nets=self.nets)
        if self.dynamics is not None:
            self.dynamics.load(ck.with_prefix("dynamics.", tensors, "cpu"), path)
        stage = self._scheduled(at.epoch if at.step else max(0, at.epoch - 1)).stage  # the one that left it
        for index, (learner, work) in enumerate(zip(self.learners, at.work, strict=True)):
            learner.enter(stage, seed=None)
            learner.load(index, tensors, work, path)
        self.state, self.meter.sums, self.epoch, self.step = state, at.meter, at.epoch, at.step
        self.kept, self.spent = kept, at.spent
        self.folder.keep_metrics(self.epoch)
        self.history = self.folder.read_metrics()
