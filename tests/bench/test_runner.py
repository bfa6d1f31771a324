"""`pars bench TABLE` at the smoke scale: resumable, idempotent, stopped and killed without harm."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.helpers import start, without_times

TABLE = ("figure3", "--scale", "smoke", "--seeds", "1")
CELLS = 2


def wait_until(true: Callable[[], object], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(text) for text in file.read_text().split()]
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the table was run without interruption."""
    folder = tmp_path_factory.mktemp("undisturbed")
    process = start(folder, *TABLE)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return folder


def test_a_line_has_the_three_numbers_the_cost_and_its_origin(undisturbed: Path) -> None:
    lines = [json.loads(text) for text in (undisturbed / "results/ledger.jsonl").read_text().splitlines()]
    assert [line["row"] for line in lines] == ["pars", "pars-without-negative"]
    for line in lines:
        tests = [point[2] for point in line["curve"]]
        assert line["best"]["accuracy"] == pytest.approx(max(tests), abs=0.01)
        assert line["last"]["accuracy"] == pytest.approx(tests[-1], abs=0.01)
        held = {point[0]: point[3] for point in line["curve"]}
        assert held[line["selected"]["epoch"]] == max(held.values())
        assert 0 < line["flop"] <= line["budget_flop"]
        assert line["last"]["worst_class"] <= line["last"]["balanced"]
        assert line["environment"]["threads"] == "1"
        assert line["command"].startswith("pars bench cell --scale smoke --column cifar10-asym-40 --row pars")
        assert str(undisturbed) not in json.dumps(line)


def test_a_table_that_is_done_is_not_run_again(undisturbed: Path) -> None:
    before = (undisturbed / "results/ledger.jsonl").read_bytes()
    process = start(undisturbed, *TABLE)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0
    assert f"{CELLS} of {CELLS} cells are in the ledger" in err
    assert (undisturbed / "results/ledger.jsonl").read_bytes() == before


@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the runner's cells in /proc")
def test_a_table_that_is_killed_twice_ends_in_the_same_ledger(undisturbed: Path, tmp_path: Path) -> None:
    runner = start(tmp_path, *TABLE)
    wait_until(lambda: bool(list((tmp_path / "runs").rglob("metrics.jsonl"))))
    for pid in (*children(runner.pid), runner.pid):  # as when the machine goes down
        os.kill(pid, signal.SIGKILL)
    runner.wait(60)
    runner = start(tmp_path, *TABLE)
    wait_until(lambda: bool(list((tmp_path / "runs").rglob(".lock"))))
    os.kill(runner.pid, signal.SIGKILL)  # its cell lives on, and the next runner waits for it
    runner.wait(60)
    runner = start(tmp_path, *TABLE)
    _, err = runner.communicate(timeout=600)
    assert runner.returncode == 0, err
    assert without_times(tmp_path / "results/ledger.jsonl") == without_times(undisturbed / "results/ledger.jsonl")


def test_ctrl_c_saves_and_the_same_command_resumes(undisturbed: Path, tmp_path: Path) -> None:
    runner = start(tmp_path, *TABLE)
    wait_until(lambda: list((tmp_path / "runs").rglob("metrics.jsonl")))
    os.kill(runner.pid, signal.SIGINT)
    _, err = runner.communicate(timeout=600)
    assert runner.returncode == 130
    assert "Run the same command again to resume" in err
    assert "failed" not in err
    runner = start(tmp_path, *TABLE)
    _, err = runner.communicate(timeout=600)
    assert runner.returncode == 0, err
    assert without_times(tmp_path / "results/ledger.jsonl") == without_times(undisturbed / "results/ledger.jsonl")


def test_a_failed_cell_is_recorded_and_does_not_stop_the_rest(tmp_path: Path) -> None:
    tuned = tmp_path / "tuned.toml"
    tuned.write_text("[smoke.cifar10.pars]\nlength = 0.001\n")  # too short for two stages
    arguments = ("table3", "--scale", "smoke", "--seeds", "1", "--cols", "cifar10-4000-sym-50", "--tuned", str(tuned))
    runner = start(tmp_path, *arguments, "--rows", "pars,logistic-regression")
    _, err = runner.communicate(timeout=600)
    assert runner.returncode == 1
    lines = {
        line["row"]: line for line in map(json.loads, (tmp_path / "results/ledger.jsonl").read_text().splitlines())
    }
    assert lines["pars"]["status"] == "failed"
    assert "needs at least" in lines["pars"]["error"]
    assert lines["logistic-regression"]["status"] == "ok"
    runner = start(tmp_path, *arguments, "--rows", "pars")  # it is not tried again, unless --retry
    _, err = runner.communicate(timeout=600)
    assert "1 of 1 cells are in the ledger" in err


def test_a_run_that_was_killed_before_it_had_begun_is_begun_anew(undisturbed: Path, tmp_path: Path) -> None:
    line = json.loads((undisturbed / "results/ledger.jsonl").read_text().splitlines()[0])
    half = tmp_path / "runs/bench" / line["cell"] / line["config"] / "run"
    half.mkdir(parents=True)
    (half / "inputs.json").write_text("{}")
    runner = start(tmp_path, *TABLE, "--rows", line["row"])
    _, err = runner.communicate(timeout=600)
    assert runner.returncode == 0, err
    found = without_times(tmp_path / "results/ledger.jsonl")[line["cell"]]
    assert found == without_times(undisturbed / "results/ledger.jsonl")[line["cell"]]
