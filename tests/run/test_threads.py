"""A run keeps the number of threads it began with: sums depend on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pars import run
from pars.engine import Callback, device, use_threads
from pars.errors import UserError
from run.helpers import Killed, StopAfter, snapshot, tiny


class Threads(Callback):
    """Notes how many threads torch has in each epoch."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def epoch(self, line: dict[str, Any]) -> None:
        self.seen.add(torch.get_num_threads())


@pytest.fixture(autouse=True)
def _chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any step is large, and three of four cores are idle."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(device, "SMALL_STEP", 0.0)
    monkeypatch.setattr(device, "allowed_cores", lambda: {0, 1, 2, 3})
    monkeypatch.setattr(device, "cpu_quota", lambda: None)
    monkeypatch.setattr(device, "idle_cores", lambda cores: 3.0)


def recorded(folder: Path) -> Any:
    return json.loads((folder / "inputs.json").read_text())["threads"]


def test_a_run_records_its_threads_and_gives_them_back(tmp_path: Path) -> None:
    callback = Threads()
    with use_threads(4):
        run.train(tiny(), tmp_path / "run", callback=callback)
        assert torch.get_num_threads() == 4
    assert callback.seen == {3}
    assert recorded(tmp_path / "run") == 3


def test_a_resumed_run_keeps_its_threads_on_fewer_cores(tmp_path: Path) -> None:
    with use_threads(4):
        run.train(tiny(), tmp_path / "whole")
        with pytest.raises(Killed):
            run.train(tiny(), tmp_path / "run", callback=StopAfter(1))
    callback = Threads()
    run.resume(tmp_path / "run", callback=callback)  # torch has one thread here
    assert callback.seen == {3}
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")


def test_omp_num_threads_wins_when_a_run_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with use_threads(4), pytest.raises(Killed):
        run.train(tiny(), tmp_path / "run", callback=StopAfter(1))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    callback = Threads()
    run.resume(tmp_path / "run", callback=callback)
    assert callback.seen == {1}


@pytest.mark.parametrize("wrong", [0, "2", 1.5, True])
def test_a_damaged_number_of_threads_is_named(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(Killed):
        run.train(tiny(), tmp_path / "run", callback=StopAfter(1))
    path = tmp_path / "run" / "inputs.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"threads": wrong}))
    with pytest.raises(UserError, match=r"inputs\.json is damaged: threads is"):
        run.resume(tmp_path / "run")
