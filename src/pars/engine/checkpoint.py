"""Checkpoints: tensors with a JSON note in a safetensors file, what of a run is saved and checked, and which checkpoint
a run ends with.

A checkpoint holds weights, averages, optimizer state, the method's tensors, the sums of the current epoch, and its
position: two integers. Everything random is a function of these, so a resumed run ends in the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn, optim

from pars.engine.config import CheckpointRule
from pars.engine.evaluation import COUNTS
from pars.engine.folder import RunFolder
from pars.errors import Diverged, UserError, one_line
from pars.files import write_atomically
from pars.method_api import Network


def save_tensors(path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> None:
    """Write tensors with a JSON note in the header, whole or not at all."""
    plain: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        storage = own.untyped_storage().data_ptr()
        plain[name] = own.clone() if storage in storages else own  # tied weights: safetensors refuses aliases
        storages.add(storage)

    metadata = {"pars": json.dumps(note)}
    write_atomically(path, lambda beside: save_file(plain, str(beside), metadata=metadata))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the note of a file written by `save_tensors`."""
    try:
        path.open("rb").close()  # safetensors calls a file missing that may not be read
        with safe_open(str(path), framework="pt") as file:
            note = json.loads((file.metadata() or {})["pars"])
            if not isinstance(note, dict):
                raise TypeError(f"its note is a {type(note).__name__}")
            return {name: file.get_tensor(name) for name in file.keys()}, note  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"{path} is missing") from None
    except PermissionError:
        raise  # it may well be whole
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a file written by pars, or is damaged: {one_line(error)}") from error


def with_prefix(prefix: str, tensors: Mapping[str, Tensor], device: str) -> dict[str, Tensor]:
    """The tensors whose name begins with a prefix, under the rest of their name."""
    return {name.removeprefix(prefix): t.to(device) for name, t in tensors.items() if name.startswith(prefix)}


def load_module(prefix: str, module: nn.Module, tensors: Mapping[str, Tensor], where: Path) -> None:
    """Load the tensors under a prefix into a module; a UserError names the file `where` if they do not fit."""
    own = with_prefix(prefix, tensors, "cpu")
    try:
        module.load_state_dict(own)
    except RuntimeError as error:
        raise UserError(f"{where} does not fit the network of its configuration: {one_line(error)}") from error


def load_optimizer(prefix: str, optimizer: optim.Optimizer, tensors: Mapping[str, Tensor], where: Path) -> None:
    """Load the tensors under a prefix into an optimizer; a UserError names the file `where` if they do not fit.

    Their names are those of `Learner.tensors`.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    of_shape = {"exp_avg", "exp_avg_sq"} if isinstance(optimizer, optim.Adam) else {"momentum_buffer"}
    scalars = {"step"} if isinstance(optimizer, optim.Adam) else set()
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in with_prefix(prefix, tensors, "cpu").items():
        index, _, name = key.partition(".")
        position = int(index) if index.isdecimal() else len(parameters)
        # torch would take a buffer of any shape, and fail in the first step.
        known = position < len(parameters) and name in of_shape | scalars
        if not known or tensor.shape != (() if name in scalars else parameters[position].shape):
            raise UserError(f"{where} does not fit the optimizer of its configuration: {prefix}{key} has no parameter")
        state.setdefault(position, {})[name] = tensor
    whole = optimizer.state_dict()
    optimizer.load_state_dict({"state": state, "param_groups": whole["param_groups"]})


@dataclass(frozen=True)
class Position:
    """Where a checkpoint stands in its run."""

    epoch: int  # finished epochs
    step: int  # finished steps of the current epoch
    meter: dict[str, Tensor]  # sums of the current epoch, in their order
    work: tuple[tuple[int, int, int], ...]  # of each network: `forwards`, `backwards`, FLOP of its optimizer
    spent: dict[str, float]  # FLOP of each stage after the last finished epoch


def read_position(
    note: Mapping[str, Any], meter: Mapping[str, Tensor], where: Path, *, epochs: int, steps: int, networks: int
) -> Position:
    """The position in a checkpoint's note, checked wholly before anything of a run is changed by it.

    meter: the checkpoint's sums. where: its file, for messages. epochs, steps, networks: of the run it has to fit.
    """
    if missing := {"epoch", "step", "work", "meter", "spent"} - note.keys():
        raise UserError(f"{where} is not a checkpoint of this version: no {', '.join(sorted(missing))}")
    epoch, step, work, names, spent = (note[key] for key in ("epoch", "step", "work", "meter", "spent"))

    def require(right: bool, key: str, expected: str) -> None:
        if not right:
            raise UserError(f"{where} does not fit its run: {key} is {note[key]!r}, expected {expected}")

    require(_is_count(epoch) and epoch <= epochs, "epoch", f"0 to {epochs}")
    last = 0 if epoch == epochs else steps  # `steps`: all of the epoch's, but it was not evaluated yet
    require(_is_count(step) and step <= last, "step", f"0 to {last}")
    triples = isinstance(work, list) and all(isinstance(counts, list) and len(counts) == 3 for counts in work)
    require(triples and len(work) == networks, "work", f"three counts for each of {networks} network(s)")
    require(all(_is_count(count) for counts in work for count in counts), "work", "counts of at least 0")
    flops = isinstance(spent, dict) and all(type(flop) in (int, float) and flop >= 0 for flop in spent.values())
    require(flops and bool(spent) == bool(epoch), "spent", "the FLOP of each stage so far")
    texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    require(texts and sorted(names) == sorted(meter), "meter", f"the names of its sums: {', '.join(sorted(meter))}")
    require(not step or "loss/steps" in names, "meter", "the sums of the current epoch")
    for name, total in meter.items():
        shape = [len(COUNTS)] if name.startswith("selection/") else []
        if list(total.shape) != shape:
            raise UserError(f"{where} does not fit its run: {name} has shape {list(total.shape)}, expected {shape}")
    return Position(epoch, step, {name: meter[name] for name in names}, tuple((f, b, u) for f, b, u in work), spent)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def check_state(
    found: Mapping[str, Tensor], initial: Mapping[str, Tensor], where: Path, *, kind: str = "state"
) -> None:
    """A method may add tensors while it trains; those it began with have to be there, and of their shape."""
    for name, tensor in initial.items():
        if name not in found or found[name].shape != tensor.shape or found[name].dtype != tensor.dtype:
            what = f"{list(found[name].shape)} {found[name].dtype}" if name in found else "missing"
            expected = f"{list(tensor.shape)} {tensor.dtype}"
            raise UserError(
                f"{where} does not fit its run: {kind} {name} is {what}, expected {expected}; if another version of "
                "pars began it, finish it with that one, or begin again in a new folder"
            )


@dataclass(frozen=True, eq=False)
class SelectedCheckpoint:
    """The averaged weights that are best so far, by held-out given labels (`train.select`)."""

    epoch: int
    stage: str
    correct: Tensor  # [m] bool, on the CPU: the held-out rows whose given label they predict
    weights: tuple[dict[str, Tensor], ...]  # of each network's `average`

    def note(self) -> dict[str, Any]:
        """Epoch and stage, as JSON values."""
        return {"epoch": self.epoch, "stage": self.stage}


def prefers_earlier(earlier: Tensor, later: Tensor, rule: CheckpointRule, *, sigmas: float = 1.0) -> bool:
    """Whether held-out rows prefer the earlier weights; both arguments are masks [m] of rows predicted correctly.

    best-epoch: more rows are correct; of equals the later is selected.
    best-stage: so many more that it is unlikely to be luck. A stage is there because it is expected to help, so what it
    did stays unless the rows it lost outnumber those it won by more than one, and by more than the standard deviation
    of that difference, √(lost + won), if both were equally likely (McNemar's test, continuity corrected, at one sigma
    or as many as `sigmas`).

    >>> before = torch.arange(100) < 60
    >>> prefers_earlier(before, torch.arange(100) < 56, "best-stage")       # lost 4, won 0: more than 1 + √4
    True
    >>> prefers_earlier(before, (torch.arange(100) >= 4) & (torch.arange(100) < 63), "best-stage")   # lost 4, won 3
    False
    """
    lost, won = int((earlier & ~later).sum()), int((later & ~earlier).sum())
    margin = 1 + sigmas * (lost + won) ** 0.5 if rule == "best-stage" else 0.0
    return lost - won > margin


def read_selected(
    note: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    where: Path,
    *,
    epoch: int,
    rows: int,
    nets: Sequence[Network],
) -> SelectedCheckpoint | None:
    """What a run's checkpoint holds as selected so far; none if nothing was compared yet.

    epoch: finished epochs. rows: number of held-out rows. nets: the networks that the weights have to fit.
    """
    about = note.get("selected")
    if about is None:
        return None
    correct = tensors.get("selected.correct", torch.zeros(0))
    weights = tuple(with_prefix(f"selected.average.{index}.", tensors, "cpu") for index in range(len(nets)))
    known = isinstance(about, dict) and _is_count(about.get("epoch")) and 1 <= about["epoch"] <= epoch
    expected = [{name: t.shape for name, t in net.average.state_dict().items()} for net in nets]
    same = [{name: t.shape for name, t in own.items()} for own in weights] == expected
    if not known or not isinstance(about.get("stage"), str) or not same or list(correct.shape) != [rows]:
        raise UserError(f"{where} does not fit its run: its selected checkpoint is not of this network or data")
    return SelectedCheckpoint(about["epoch"], about["stage"], correct.bool(), weights)


def save_rows(
    folder: RunFolder, stage: str, epoch: int, probabilities: Tensor, labels: Tensor, evidence: Mapping[str, Tensor]
) -> None:
    """Write the predictions of every training row at the end of a stage: for plots.

    probabilities: [n, K] of the averaged networks. labels: [n] given. evidence: [n, ...] each, of the method.
    """
    if not probabilities.isfinite().all():
        raise Diverged(f"the network has no finite answer to some rows after epoch {epoch}: it diverged", epoch=epoch)
    confidence, predicted = probabilities.max(dim=1)
    given = probabilities.gather(1, labels.cpu().clamp_min(0)[:, None])[:, 0]
    tensors = {"confidence": confidence, "predicted": predicted, "given_label_confidence": given}
    tensors |= {f"evidence.{name}": tensor for name, tensor in evidence.items()}
    save_tensors(folder.rows(stage), tensors, {"stage": stage, "epoch": epoch})
