"""The runner on a real Dask cluster of two workers, one of them killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.helpers import start, without_times

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")

TABLE = ("table1", "--scale", "smoke", "--seeds", "1", "--cols", "cifar10-sym-50", "--rows", "ce,pars")


def test_a_killed_worker_and_a_killed_runner_leave_the_ledger_of_an_undisturbed_run(tmp_path: Path) -> None:
    alone, clustered = tmp_path / "alone", tmp_path / "clustered"
    for folder in (alone, clustered):
        folder.mkdir()
    process = start(alone, *TABLE)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        arguments = (*TABLE, "--cluster", cluster.scheduler_address)
        runner = start(clustered, *arguments)
        wait_until(lambda: len(list((clustered / "runs").rglob("run/metrics.jsonl"))) >= 1)
        worker = next(iter(cluster.workers.values())).pid
        os.kill(worker, signal.SIGKILL)  # the scheduler gives its cell to the other one
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait(60)
        runner = start(clustered, *arguments)
        _, err = runner.communicate(timeout=600)
        assert runner.returncode == 0, err
    assert without_times(clustered / "results/ledger.jsonl") == without_times(alone / "results/ledger.jsonl")


def wait_until(true: Callable[[], object], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_address_where_no_scheduler_answers_is_named(tmp_path: Path) -> None:
    process = start(tmp_path, *TABLE, "--cluster", "tcp://127.0.0.1:9")
    _, err = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "no Dask scheduler answers there" in err
