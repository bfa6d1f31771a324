"""Tensors and their position in one safetensors file: weights, averages, optimiser, row state, and two integers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn, optim

from pars.engine.folder import write_atomically
from pars.errors import UserError


def save_tensors(path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> None:
    """Write tensors with a JSON note in the header, whole or not at all."""
    # Cloned where storage is shared: safetensors refuses aliases.
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}

    def write(beside: Path) -> None:
        try:
            save_file(plain, str(beside), metadata={"pars": json.dumps(note)})
        except SafetensorError as error:
            # safetensors reports a full disk as text; give it back its errno.
            if "No space left" in str(error) or "StorageFull" in str(error):
                raise OSError(28, "No space left on device", str(path)) from error
            raise

    write_atomically(path, write)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the note of a file written by `save_tensors`."""
    try:
        with safe_open(str(path), framework="pt") as file:
            note = json.loads((file.metadata() or {})["pars"])
            return {name: file.get_tensor(name) for name in file.keys()}, note  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"{path} is missing") from None
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is not a file written by pars, or is damaged: {error}") from error


def module_tensors(prefix: str, module: nn.Module) -> dict[str, Tensor]:
    return {f"{prefix}{name}": tensor for name, tensor in module.state_dict().items()}


def load_module(prefix: str, module: nn.Module, tensors: Mapping[str, Tensor], where: Path) -> None:
    own = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
    try:
        module.load_state_dict(own)
    except RuntimeError as error:
        raise UserError(f"{where} does not fit the network of its configuration: {error}") from error


def optimiser_tensors(prefix: str, optimiser: optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{prefix}{index}.{name}": value
        for index, state in optimiser.state_dict()["state"].items()
        for name, value in state.items()
        if isinstance(value, Tensor)
    }


def load_optimiser(prefix: str, optimiser: optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith(prefix):
            index, name = key.removeprefix(prefix).split(".", 1)
            state.setdefault(int(index), {})[name] = tensor
    whole = optimiser.state_dict()
    optimiser.load_state_dict({"state": state, "param_groups": whole["param_groups"]})


def same_tensors(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    """Bit for bit equal, names and all."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
