"""A process killed at any moment, resumed, killed again: the model file has the bytes of an undisturbed run."""

from __future__ import annotations

import json
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from kills import Killer

from pars.data import DataConfig
from pars.engine import Callback, RunFolder, TrainConfig
from pars.methods import PARS
from pars.models import ModelConfig
from pars.noise import NoiseConfig
from pars.run import RunConfig, resume, train

CONFIG = RunConfig(
    data=DataConfig(name="digits", limit=256),
    noise=NoiseConfig(kind="symmetric", rate=0.5),
    model=ModelConfig(name="small_cnn", width=8),
    method=PARS(warm_up=2, tau=0.5),
    # Saving after every step makes it likely that a kill falls into the writing of a file.
    train=TrainConfig(epochs=12, batch_size=64, lr=0.05, ema=0.9, checkpoint_seconds=0.0),
    device="cpu",
)
KILLS = 5


class Tell(Callback):
    """Tells the other end of every finished step."""

    def __init__(self, to: Connection) -> None:
        self.to = to

    def step(self, rows: int) -> None:
        self.to.send_bytes(b".")


def work(out: str, to: Connection) -> None:
    """Start the run, or go on with it: what a person would do."""
    torch.set_num_threads(1)
    if RunFolder(Path(out)).config.exists():
        resume(Path(out), callback=Tell(to))
    else:
        train(CONFIG, Path(out), callback=Tell(to))


def outcome(path: Path) -> dict[str, Any]:
    folder = RunFolder(path)
    return {
        "files": [p.read_bytes() for p in (folder.model, folder.rows("warm-up"), folder.rows("main"), folder.labels)],
        "metrics": folder.read_metrics(),
        "result": json.loads(folder.result.read_text()),
    }


def test_a_run_killed_five_times_ends_as_one_that_never_was(tmp_path: Path) -> None:
    killer = Killer(work, ["pars.run", "sklearn.datasets", "torch._dynamo"])
    rng = np.random.default_rng(2022)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert killer.run(whole) == 0
    for _ in range(KILLS):
        assert killer.run(killed, int(rng.integers(0, 5)), float(rng.uniform(0, 0.02))) == -9
        assert not RunFolder(killed).result.exists()
    assert killer.run(killed) == 0
    assert outcome(killed) == outcome(whole)
