"""What a run keeps in memory for every row: a method's state and the training dynamics; refused if it does not fit."""

from __future__ import annotations

from torch import Tensor

from pars.errors import UserError
from pars.machine import free_memory
from pars.method_api import Method, Task

_PROBE = 1000  # rows of which the state is made to measure it


def row_state_bytes(method: Method, labels: Tensor, n_classes: int, *, epochs: int, dynamics: bool) -> int:
    """Bytes that a run with given labels [n] keeps for its rows: the method's tensors, and 37 + 4K for dynamics."""
    n = min(_PROBE, len(labels))
    state = method.initial_state(Task(n, n_classes, labels[:n], epochs, 1)).values()
    of_method = sum(t.numel() * t.element_size() for t in state if t.ndim and len(t) == n) / n
    return round(len(labels) * (of_method + (37 + 4 * n_classes if dynamics else 0)))


def check_row_state(method: Method, labels: Tensor, n_classes: int, *, epochs: int, dynamics: bool) -> str:
    """Return a sentence with the size of the state of all rows; a UserError if it exceeds the free memory."""
    size, free = row_state_bytes(method, labels, n_classes, epochs=epochs, dynamics=dynamics), free_memory()
    found = f"{len(labels)} rows × {n_classes} classes need {size / 1e6:.1f} MB of state in memory"
    if size > free:
        raise UserError(
            f"{found}, but {free / 1e6:.1f} MB are free; a method without state per row, or "
            "--train.dynamics-every 0, needs less"
        )
    return found
