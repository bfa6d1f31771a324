"""The number of threads follows from the environment, the cores allowed and the cores idle, in this order."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pars.engine import choose_threads, device, use_threads
from pars.engine.device import LoadReading, unused_cores

LARGE = 1e12  # FLOP of a step


@pytest.fixture(autouse=True)
def _four_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a machine with four cores, all of them idle."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(device, "allowed_cores", lambda: {0, 1, 2, 3})
    monkeypatch.setattr(device, "cpu_quota", lambda: None)
    monkeypatch.setattr(device, "idle_cores", lambda cores: float(len(cores)))
    with use_threads(4):
        yield


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def stat(path: Path, *idle_and_user: tuple[int, int]) -> None:
    cores = [f"cpu{core} {user} 0 0 {idle} 0 0 0 0 0 0" for core, (idle, user) in enumerate(idle_and_user)]
    write(path / "proc/stat", "\n".join(["cpu  1 2 3 4 5 6 7 8 9 10", *cores, "intr 12", "ctxt 3"]))


def test_an_idle_machine_gives_all_its_threads() -> None:
    assert choose_threads(LARGE) == 4


def test_a_small_step_has_one_thread() -> None:
    assert choose_threads(1e6) == 1


def test_omp_num_threads_is_respected_whatever_else_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setattr(device, "idle_cores", lambda cores: 0.0)
    monkeypatch.setattr(device, "cpu_quota", lambda: 1)
    assert choose_threads(LARGE) == choose_threads(1.0) == 4


def test_what_the_program_has_set_is_not_exceeded() -> None:
    with use_threads(3):
        assert choose_threads(LARGE) == 3
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize(("idle", "expected"), [(4.0, 4), (3.9, 4), (2.1, 2), (0.6, 1), (0.0, 1)])
def test_busy_cores_get_no_thread(monkeypatch: pytest.MonkeyPatch, idle: float, expected: int) -> None:
    monkeypatch.setattr(device, "idle_cores", lambda cores: idle)
    assert choose_threads(LARGE) == expected


def test_affinity_and_quota_limit_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "cpu_quota", lambda: 3)
    assert choose_threads(LARGE) == 3
    monkeypatch.setattr(device, "allowed_cores", lambda: {0, 2})
    assert choose_threads(LARGE) == 2


def reading(folder: Path, *cores: tuple[int, int], own: float, at: float) -> LoadReading:
    stat(folder, *cores)
    return replace(LoadReading.now(folder), own_seconds=own, at=at)


def test_only_the_cores_asked_about_and_only_other_processes_count_as_load(tmp_path: Path) -> None:
    before = reading(tmp_path, (100, 0), (100, 0), (100, 0), own=5.0, at=1.0)
    after = reading(tmp_path, (120, 0), (105, 15), (100, 20), own=5.0, at=1.2)
    assert unused_cores({0, 1}, before, after) == pytest.approx(1.25)
    assert unused_cores({2}, before, after) == pytest.approx(0.0)
    assert unused_cores({2}, after, after) == pytest.approx(1.0)  # nothing passed since
    ours = replace(after, own_seconds=5.15)  # three quarters of a core: the load of core 1 is our own
    assert unused_cores({0, 1}, before, ours) == pytest.approx(2.0)


def test_cores_that_the_system_does_not_report_are_taken_to_be_idle(tmp_path: Path) -> None:
    silent = LoadReading.now(tmp_path)
    assert unused_cores({0, 1}, silent, silent) == 2.0


def test_an_outdated_reading_is_taken_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    for age, expected in ((device.RECENT + 1, 1), (1.0, 0), (0.0, 1)):
        slept.clear()
        monkeypatch.setattr(device, "_begun", replace(LoadReading.now(), at=time.monotonic() - age))
        assert 0 <= device.idle_cores(device.allowed_cores()) <= len(device.allowed_cores())
        assert len(slept) == expected


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, 1),
        ("0::/a\n", {"cpu.max": "what is this"}, None),
        ("1:cpu,cpuacct:/x\n", {"cpu/x/cpu.cfs_quota_us": "300000", "cpu/x/cpu.cfs_period_us": "100000"}, 3),
        ("1:cpu:/\n0::/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("1:cpuset:/\n", {"cpu/cpu.cfs_quota_us": "1", "cpu/cpu.cfs_period_us": "1"}, None),
    ],
)
def test_the_lowest_quota_of_all_groups_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str, files: dict[str, str], expected: int | None
) -> None:
    monkeypatch.undo()
    write(tmp_path / "proc/self/cgroup", groups)
    for name, text in files.items():
        write(tmp_path / "sys/fs/cgroup" / name, text)
    assert device.cpu_quota(tmp_path) == expected


def test_a_system_without_cgroups_has_no_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert device.cpu_quota(tmp_path) is None


@pytest.mark.parametrize(("given", "expected"), [({}, "spins briefly"), ({"OMP_WAIT_POLICY": "active"}, "as set")])
def test_waiting_threads_spin_briefly_unless_the_user_says_how(given: dict[str, str], expected: str) -> None:
    env = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    code = "import os, pars; print('spins briefly' if 'GOMP_SPINCOUNT' in os.environ else 'as set')"
    done = subprocess.run([sys.executable, "-c", code], env=env | given, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
