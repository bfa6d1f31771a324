"""The training loop and what it leaves on disk."""

from typing import TYPE_CHECKING

from pars.engine.config import CheckpointRule, TrainConfig
from pars.engine.folder import RunFolder, locked
from pars.engine.terminal import Callback, Interrupted, catch_interrupt, resend_interrupt, show_progress
from pars.files import write_atomically, write_text
from pars.lazy_package import import_lazily

if TYPE_CHECKING:
    from pars.engine.batches import as_tensor
    from pars.engine.checkpoint import SelectedCheckpoint, load_module, load_tensors, prefers_earlier
    from pars.engine.cost_probe import RowCounts, epoch_costs
    from pars.engine.device import (
        DeviceName,
        choose_threads,
        keep_freed_memory,
        recorded_threads,
        resolve_device,
        use_threads,
    )
    from pars.engine.evaluation import accuracy, predict_proba, recalls
    from pars.engine.learner import NetworkCost, network_cost
    from pars.engine.plan import Plan, plan
    from pars.engine.processes import Processes, joined
    from pars.engine.row_state import check_row_state
    from pars.engine.trainer import Trainer

__all__ = [
    "Callback",
    "CheckpointRule",
    "DeviceName",
    "Interrupted",
    "NetworkCost",
    "Plan",
    "Processes",
    "RowCounts",
    "RunFolder",
    "SelectedCheckpoint",
    "TrainConfig",
    "Trainer",
    "accuracy",
    "as_tensor",
    "catch_interrupt",
    "check_row_state",
    "choose_threads",
    "epoch_costs",
    "joined",
    "keep_freed_memory",
    "load_module",
    "load_tensors",
    "locked",
    "network_cost",
    "plan",
    "predict_proba",
    "prefers_earlier",
    "recalls",
    "recorded_threads",
    "resend_interrupt",
    "resolve_device",
    "show_progress",
    "use_threads",
    "write_atomically",
    "write_text",
]

import_lazily(
    __name__,
    {
        "pars.engine.batches": "as_tensor",
        "pars.engine.checkpoint": "SelectedCheckpoint, load_module, load_tensors, prefers_earlier",
        "pars.engine.cost_probe": "RowCounts, epoch_costs",
        "pars.engine.device": (
            "DeviceName, choose_threads, keep_freed_memory, recorded_threads, resolve_device, use_threads"
        ),
        "pars.engine.evaluation": "accuracy, predict_proba, recalls",
        "pars.engine.learner": "NetworkCost, network_cost",
        "pars.engine.plan": "Plan, plan",
        "pars.engine.processes": "Processes, joined",
        "pars.engine.row_state": "check_row_state",
        "pars.engine.trainer": "Trainer",
    },
)
