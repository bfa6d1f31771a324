"""The training loop and what it leaves on disk."""

from typing import TYPE_CHECKING

from pars.engine.config import TrainConfig
from pars.engine.folder import RunFolder, write_json
from pars.engine.interrupt import Interrupted, catch_interrupt
from pars.engine.lock import locked
from pars.engine.memory import keep_freed_memory
from pars.engine.progress import Callback, show_progress
from pars.files import write_atomically, write_text
from pars.lazy_package import import_lazily

if TYPE_CHECKING:
    from pars.engine.checkpoint import load_module, load_tensors
    from pars.engine.device import DeviceName, resolve_device
    from pars.engine.feed import as_tensor
    from pars.engine.flops import NetworkCost, network_cost
    from pars.engine.keep import Keep
    from pars.engine.miniature import RowCounts, epoch_costs
    from pars.engine.plan import Plan, plan
    from pars.engine.predict import accuracy, predict_proba
    from pars.engine.threads import choose_threads, recorded_threads, use_threads
    from pars.engine.trainer import Trainer

__all__ = [
    "Callback",
    "DeviceName",
    "Interrupted",
    "Keep",
    "NetworkCost",
    "Plan",
    "RowCounts",
    "RunFolder",
    "TrainConfig",
    "Trainer",
    "accuracy",
    "as_tensor",
    "catch_interrupt",
    "choose_threads",
    "epoch_costs",
    "keep_freed_memory",
    "load_module",
    "load_tensors",
    "locked",
    "network_cost",
    "plan",
    "predict_proba",
    "recorded_threads",
    "resolve_device",
    "show_progress",
    "use_threads",
    "write_atomically",
    "write_json",
    "write_text",
]

import_lazily(
    __name__,
    {
        "pars.engine.checkpoint": "load_module, load_tensors",
        "pars.engine.device": "DeviceName, resolve_device",
        "pars.engine.feed": "as_tensor",
        "pars.engine.flops": "NetworkCost, network_cost",
        "pars.engine.keep": "Keep",
        "pars.engine.miniature": "RowCounts, epoch_costs",
        "pars.engine.plan": "Plan, plan",
        "pars.engine.predict": "accuracy, predict_proba",
        "pars.engine.threads": "choose_threads, recorded_threads, use_threads",
        "pars.engine.trainer": "Trainer",
    },
)
