"""Tensors and their position in one safetensors file: weights, averages, optimizer, row state, and two integers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn, optim

from pars.engine.probe import one_line
from pars.errors import UserError
from pars.files import write_atomically


def save_tensors(path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> None:
    """Write tensors with a JSON note in the header, whole or not at all."""
    plain: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        storage = own.untyped_storage().data_ptr()
        plain[name] = own.clone() if storage in storages else own  # tied weights: safetensors refuses aliases
        storages.add(storage)

    def write(beside: Path) -> None:
        try:
            save_file(plain, str(beside), metadata={"pars": json.dumps(note)})
        except SafetensorError as error:
            # safetensors reports a full disk, a quota or a limit as text; give it back its errno.
            if code := re.search(r"os error (\d+)", str(error)):
                raise OSError(int(code[1]), str(error), str(path)) from error
            raise

    write_atomically(path, write)


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


def module_tensors(prefix: str, module: nn.Module) -> dict[str, Tensor]:
    return {f"{prefix}{name}": tensor for name, tensor in module.state_dict().items()}


def load_module(prefix: str, module: nn.Module, tensors: Mapping[str, Tensor], where: Path) -> None:
    own = with_prefix(prefix, tensors, "cpu")
    try:
        module.load_state_dict(own)
    except RuntimeError as error:
        raise UserError(f"{where} does not fit the network of its configuration: {one_line(error)}") from error


def optimizer_tensors(prefix: str, optimizer: optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{prefix}{index}.{name}": value
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
        if isinstance(value, Tensor)
    }


def load_optimizer(prefix: str, optimizer: optim.Optimizer, tensors: Mapping[str, Tensor], where: Path) -> None:
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


def with_prefix(prefix: str, tensors: Mapping[str, Tensor], device: str) -> dict[str, Tensor]:
    """The tensors whose name begins so, under the rest of their name."""
    return {name.removeprefix(prefix): t.to(device) for name, t in tensors.items() if name.startswith(prefix)}
