"""The loop: stages, batches, optimiser, averaging, evaluation, checkpoints. It does not know which method runs."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn, optim

from pars import seeds
from pars.augment import Views
from pars.data import Dataset
from pars.engine import checkpoint as ck
from pars.engine.config import TrainConfig
from pars.engine.ema import decay_at, make_average, update_average
from pars.engine.flops import row_cost
from pars.engine.folder import RunFolder
from pars.engine.meters import EpochMeter
from pars.engine.order import Order, steps_in_epoch
from pars.engine.predict import accuracy, predict_proba
from pars.engine.progress import Quiet, Watcher
from pars.engine.schedule import learning_rate
from pars.errors import UserError
from pars.methods import Batch, Method, Network, Stage, Step, Task


class Interrupted(Exception):
    """Ctrl-C; the run is saved and can be resumed."""


@dataclass(frozen=True)
class Scheduled:
    """A stage with the epochs it covers and its batches."""

    stage: Stage
    first_epoch: int
    labelled: Order
    more: Order | None


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
        held_out: np.ndarray[Any, np.dtype[np.bool_]] | None = None,
        folder: RunFolder | None = None,
        watcher: Watcher | None = None,
        title: str = "train",
    ) -> None:
        if len(networks) != method.networks:
            raise UserError(f"{type(method).__name__} trains {method.networks} network(s), {len(networks)} were given")
        self.method, self.data, self.views, self.config = method, data, views, config
        self.seed, self.device, self.folder, self.title = seed, device, folder, title
        self.watcher = watcher or Quiet()
        self.inputs = torch.from_numpy(data.train.inputs).to(device)
        self.labels = torch.from_numpy(data.train.labels).to(device)
        true = data.train.true_labels
        self.true_labels = None if true is None else torch.from_numpy(true).to(device)
        self.held_out = np.zeros(len(data.train), dtype=bool) if held_out is None else held_out

        self.nets = tuple(Network(module.to(device).train(), make_average(module)) for module in networks)
        self.optimisers = [
            optim.SGD(
                net.module.parameters(),
                lr=config.lr,
                momentum=config.momentum,
                weight_decay=config.weight_decay,
                nesterov=config.nesterov,
                foreach=True,
            )
            for net in self.nets
        ]
        example = views.finish(
            self.inputs[:2] if len(self.inputs) > 1 else self.inputs.repeat(2, *[1] * (self.inputs.ndim - 1))
        )
        self.costs = [row_cost(net.module, example) for net in self.nets]
        task = Task(len(data.train), data.n_classes, self.labels, config.epochs)
        self.state = {name: tensor.to(device) for name, tensor in method.initial_state(task).items()}
        self.schedule = self._schedule(method.stages(task))
        self.steps = self.schedule[0].labelled.steps
        self.total_steps = self.steps * config.epochs
        self.epoch, self.step = 0, 0  # finished epochs; finished steps of the epoch under way
        self.meter = EpochMeter(self.true_labels)
        self._interrupted = False

    def _schedule(self, stages: Sequence[Stage]) -> list[Scheduled]:
        kept = ~self.held_out
        pools = {
            "labelled": np.flatnonzero((self.data.train.labels >= 0) & kept),
            "all": np.flatnonzero(kept),
        }
        if not len(pools["labelled"]):
            raise UserError("no labelled rows to train on: every label is -1 or held out")
        size = min(self.config.batch_size, len(pools["labelled"]))
        steps = steps_in_epoch(len(pools["labelled"]), size, self.config.steps_per_epoch)
        per_epoch = len(pools["labelled"]) if self.config.steps_per_epoch is None else steps * size
        scheduled, first = [], 0
        for stage in stages:
            labelled = Order(pools["labelled"], self.seed, "labelled", per_epoch, steps)
            more = None
            if stage.more is not None:
                pool = pools[stage.more.pool]
                more = Order(pool, self.seed, "more", max(steps, round(stage.more.ratio * per_epoch)), steps)
            if stage.epochs:
                scheduled.append(Scheduled(stage, first, labelled, more))
            first += stage.epochs
        if first != self.config.epochs:
            raise UserError(f"the stages have {first} epochs, the run {self.config.epochs}")
        return scheduled

    def run(self) -> None:
        """Train to the end from wherever this trainer stands."""
        done = self.epoch * self.steps + self.step
        self.watcher.start(self.total_steps, done, self.title)
        self._saved_at = time.monotonic()
        try:
            with self._catch_interrupt():
                while self.epoch < self.config.epochs:
                    self._run_epoch()
        finally:
            self.watcher.stop()
        if self.folder is not None:
            self._save_model(self.folder)

    def _run_epoch(self) -> None:
        now = self.current()
        labelled = now.labelled.epoch(self.epoch)
        more = now.more.epoch(self.epoch) if now.more else None
        while self.step < self.steps:
            self._run_step(now, labelled[self.step], more[self.step] if more else None)
            self.step += 1
            if self._interrupted or time.monotonic() - self._saved_at > self.config.checkpoint_seconds:
                self.save()
            if self._interrupted:
                raise Interrupted
        line = self._finish_epoch(now)
        self.watcher.epoch(line)

    def current(self) -> Scheduled:
        return next(s for s in reversed(self.schedule) if s.first_epoch <= self.epoch)

    def _run_step(self, now: Scheduled, rows: np.ndarray[Any, Any], more: np.ndarray[Any, Any] | None) -> None:
        global_step = self.epoch * self.steps + self.step
        stage_steps = now.stage.epochs * self.steps
        at = Step(
            nets=self.nets,
            batch=self._batch("labelled", rows),
            extra=None if more is None else self._batch("more", more),
            state=self.state,
            rng=seeds.generator(self.seed, "method", self.epoch, self.step),
            progress=global_step / self.total_steps,
            stage_progress=(global_step - now.first_epoch * self.steps) / stage_steps,
        )
        # Dropout inside a network draws from torch's own generator: place it by address too.
        torch.manual_seed(seeds.torch_seed(self.seed, "torch", self.epoch, self.step))
        rate = learning_rate(self.config.schedule, peak=self.config.lr, step=global_step, total=self.total_steps)
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.device == "cuda"):
            losses = now.stage.step(at)
        torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
        decay = decay_at(global_step, decay=self.config.ema, ramp=self.config.ema_ramp)
        for net, optimiser in zip(self.nets, self.optimisers, strict=True):
            if self.config.grad_clip is not None:
                nn.utils.clip_grad_norm_(net.module.parameters(), self.config.grad_clip)
            optimiser.param_groups[0]["lr"] = rate
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            update_average(net.average, net.module, decay)
        self.meter.add_losses(losses)
        self.meter.add_selections(at.selections)
        self.watcher.step(len(rows) + (0 if more is None else len(more)))

    def _batch(self, draw: str, rows: np.ndarray[Any, Any]) -> Batch:
        index = torch.from_numpy(rows).to(self.device)
        epoch, step = self.epoch, self.step

        def make_view(name: str, number: int) -> Tensor:
            view = self.views.weak if name == "weak" else self.views.strong
            rng = seeds.generator(self.seed, f"view/{draw}/{name}/{number}", epoch, step)
            params = view.draw(rng, len(rows), tuple(self.inputs.shape[1:]))
            return self.views.finish(view.apply(self.inputs[index], params))

        return Batch(index, self.labels[index], make_view)

    def _finish_epoch(self, now: Scheduled) -> dict[str, Any]:
        """Evaluate, log, move on, save: in this order, so that a kill in between repeats the epoch, never skips it."""
        losses = self.meter.losses()
        if not all(np.isfinite(value) for value in losses.values()):
            raise UserError(f"a loss is not finite in epoch {self.epoch + 1}: {losses}; a smaller train.lr may help")
        self.epoch, self.step = self.epoch + 1, 0
        line: dict[str, Any] = {
            "epoch": self.epoch,
            "stage": now.stage.name,
            "steps": self.epoch * self.steps,
            "images": sum(net.backwards for net in self.nets),
            "flop": self.flop(),
            "losses": losses,
            "selection": self.meter.selections(),
        }
        last_of_stage = self.epoch == now.first_epoch + now.stage.epochs
        if self.epoch % self.config.evaluate_every == 0 or last_of_stage:
            line |= self._evaluate()
        self.meter = EpochMeter(self.true_labels)
        if self.folder is not None:
            if last_of_stage:
                self._save_rows(self.folder, now.stage.name)
            self.folder.append_metrics(line)
            if self.epoch % self.config.checkpoint_every == 0 or self.epoch == self.config.epochs:
                self.save()
        return line

    def flop(self) -> float:
        """Floating-point operations of training so far: forward and backward passes, without evaluation."""
        return sum(
            net.forwards * cost.forward + net.backwards * cost.training
            for net, cost in zip(self.nets, self.costs, strict=True)
        )

    def predict_proba(self, inputs: Tensor, *, average: bool = True) -> Tensor:
        """Class probabilities [n, K], the mean over networks."""
        modules = [net.average if average else net.module for net in self.nets]
        each = [predict_proba(module, inputs, self.views.finish, self.device) for module in modules]
        return torch.stack(each).mean(dim=0)

    def _evaluate(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if self.data.test is not None:
            inputs, labels = torch.from_numpy(self.data.test.inputs), torch.from_numpy(self.data.test.labels)
            out["test"] = self._accuracies(inputs, labels)
        if self.held_out.any():
            rows = torch.from_numpy(np.flatnonzero(self.held_out))
            out["holdout"] = self._accuracies(self.inputs[rows], self.labels[rows].cpu())
        return out

    def _accuracies(self, inputs: Tensor, labels: Tensor) -> dict[str, float]:
        return {
            name: accuracy(self.predict_proba(inputs, average=average), labels)
            for name, average in (("raw", False), ("ema", True))
        }

    def _save_rows(self, folder: RunFolder, stage: str) -> None:
        """What the averaged network thinks of each training row: for plots and for the audit of labels."""
        probabilities = self.predict_proba(self.inputs)
        confidence, predicted = probabilities.max(dim=1)
        given = probabilities.gather(1, self.labels.cpu().clamp_min(0)[:, None])[:, 0]
        tensors = {"confidence": confidence, "predicted": predicted, "given_label_confidence": given}
        ck.save_tensors(folder.rows(stage), tensors, {"stage": stage, "epoch": self.epoch})

    def _save_model(self, folder: RunFolder) -> None:
        tensors: dict[str, Tensor] = {}
        for index, net in enumerate(self.nets):
            tensors |= ck.module_tensors(f"average.{index}.", net.average)
            tensors |= ck.module_tensors(f"raw.{index}.", net.module)
        note = {
            "networks": len(self.nets),
            "epochs": self.epoch,
            "classes": self.data.classes,
            "input_shape": list(self.inputs.shape[1:]),
            "mean": self.data.mean,
            "std": self.data.std,
        }
        ck.save_tensors(folder.model, tensors, note)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that training changes."""
        out = {f"state.{name}": tensor for name, tensor in self.state.items()}
        out |= {f"meter.{name}": tensor for name, tensor in self.meter.sums.items()}
        for index, (net, optimiser) in enumerate(zip(self.nets, self.optimisers, strict=True)):
            out |= ck.module_tensors(f"average.{index}.", net.average)
            out |= ck.module_tensors(f"raw.{index}.", net.module)
            out |= ck.optimiser_tensors(f"optimiser.{index}.", optimiser)
        return out

    def save(self) -> None:
        """Write the checkpoint, if this run has a folder."""
        if self.folder is not None:
            work = [[net.forwards, net.backwards] for net in self.nets]
            note = {"epoch": self.epoch, "step": self.step, "work": work}
            ck.save_tensors(self.folder.checkpoint, self.tensors(), note)
        self._saved_at = time.monotonic()

    def restore(self) -> None:
        """Stand where the folder's checkpoint stands; at the beginning where there is none yet."""
        assert self.folder is not None, "a run without a folder cannot be restored"
        if not self.folder.checkpoint.exists():
            self.folder.keep_metrics(0)
            return
        tensors, note = ck.load_tensors(self.folder.checkpoint)
        for index, (net, optimiser) in enumerate(zip(self.nets, self.optimisers, strict=True)):
            ck.load_module(f"average.{index}.", net.average, tensors, self.folder.checkpoint)
            ck.load_module(f"raw.{index}.", net.module, tensors, self.folder.checkpoint)
            ck.load_optimiser(f"optimiser.{index}.", optimiser, tensors)
            net.forwards, net.backwards = note["work"][index]
        self.state = {k.removeprefix("state."): t.to(self.device) for k, t in tensors.items() if k.startswith("state.")}
        self.meter.sums = {k.removeprefix("meter."): t for k, t in tensors.items() if k.startswith("meter.")}
        self.epoch, self.step = note["epoch"], note["step"]
        self.folder.keep_metrics(self.epoch)

    @contextmanager
    def _catch_interrupt(self) -> Iterator[None]:
        """The first Ctrl-C saves and stops after the step under way; a second one stops at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_interrupt(number: int, frame: object) -> None:
            self._interrupted = True
            signal.signal(signal.SIGINT, signal.default_int_handler)

        before = signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
