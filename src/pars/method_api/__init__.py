"""The interface between methods and the training loop: what a method declares and what its steps are given.

A method (`pars.methods`) and the engine (`pars.engine`) both build on this module and do not know each other.
"""

from pars.method_api.catalog import (
    AUTO,
    Cited,
    Entry,
    Line,
    Recipe,
    Setting,
    Source,
    as_markdown,
    code,
    describe,
    issue,
    ours,
    paper,
    readme,
    recall,
    third_party,
    values,
)
from pars.method_api.method import LARGEST_RATIO, LARGEST_WEIGHT, Length, Method, Task, epochs_of
from pars.method_api.network import Apply, Network, apply_here, batch_statistics, features_of, head_of
from pars.method_api.run_length import EpochConstant, rescale
from pars.method_api.stage import Draw, Epoch, Losses, Pass, Stage, State, Sweep, ViewName
from pars.method_api.step import Batch, RowParameter, Selection, Step

__all__ = [
    "AUTO",
    "LARGEST_RATIO",
    "LARGEST_WEIGHT",
    "Apply",
    "Batch",
    "Cited",
    "Draw",
    "Entry",
    "Epoch",
    "EpochConstant",
    "Length",
    "Line",
    "Losses",
    "Method",
    "Network",
    "Pass",
    "Recipe",
    "RowParameter",
    "Selection",
    "Setting",
    "Source",
    "Stage",
    "State",
    "Step",
    "Sweep",
    "Task",
    "ViewName",
    "apply_here",
    "as_markdown",
    "batch_statistics",
    "code",
    "describe",
    "epochs_of",
    "features_of",
    "head_of",
    "issue",
    "ours",
    "paper",
    "readme",
    "recall",
    "rescale",
    "third_party",
    "values",
]
