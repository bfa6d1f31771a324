"""The training loop and what it leaves on disk."""

from pars.engine.checkpoint import load_module, load_tensors
from pars.engine.config import TrainConfig
from pars.engine.device import DeviceName, resolve_device
from pars.engine.feed import as_tensor
from pars.engine.flops import NetworkCost, network_cost
from pars.engine.folder import RunFolder, write_json
from pars.engine.interrupt import Interrupted, catch_interrupt
from pars.engine.keep import Keep
from pars.engine.lock import locked
from pars.engine.memory import keep_freed_memory
from pars.engine.miniature import RowCounts, epoch_costs
from pars.engine.plan import Plan, plan
from pars.engine.predict import accuracy, predict_proba
from pars.engine.progress import Callback, show_progress
from pars.engine.threads import choose_threads, recorded_threads, use_threads
from pars.engine.trainer import Trainer
from pars.files import write_atomically, write_text

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
