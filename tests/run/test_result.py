"""The outcome in numbers, against a computation by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pars import run
from pars.data import DataConfig
from pars.errors import UserError
from pars.run.train import summarize
from run.helpers import tiny


def line(epoch: int, stage: str, *, test: float | None = None, holdout: float | None = None) -> dict[str, Any]:
    out: dict[str, Any] = {
        "epoch": epoch,
        "stage": stage,
        "steps": 3 * epoch,
        "images": 100 * epoch,
        "flop": 1e6 * epoch,
        "flop_by_stage": {stage: 1e6 * epoch},
        "losses": {"raw": 1.0},
        "selection": {"raw": {"rows": 10.0, "selected": float(epoch), "unselected": 10.0 - epoch}},
    }
    if test is not None:
        out["test"] = {"ema": test, "raw": test - 1}
    if holdout is not None:
        out["holdout"] = {"ema": holdout, "raw": holdout + 1}
    return out


def test_last_best_and_mean_of_the_last_ten() -> None:
    curve = [10.0, 95.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 95.0, 90.0, 85.0]
    lines = [line(e, "warm-up" if e <= 4 else "main", test=a) for e, a in enumerate(curve, start=1)]
    result = summarize(lines)
    assert result["test"]["ema"] == {"last": 85.0, "last10": 62.0, "best": 95.0, "best_epoch": 2}  # the first of equals
    assert result["test"]["raw"] == {"last": 84.0, "last10": 61.0, "best": 94.0, "best_epoch": 2}
    assert (result["epochs"], result["images"], result["flop"]) == (12, 1200, 12e6)
    assert result["selection"] == lines[-1]["selection"]
    assert "holdout" not in result
    assert result["stages"] == [
        {"stage": "warm-up", "epoch": 4, "flop": 4e6, "test": {"ema": 30.0, "raw": 29.0}},
        {"stage": "main", "epoch": 12, "flop": 12e6, "test": {"ema": 85.0, "raw": 84.0}},
    ]


def test_the_epoch_whose_weights_were_kept_is_named_with_its_accuracies() -> None:
    lines = [line(e, "warm-up" if e <= 2 else "main", test=50.0 + e, holdout=40.0 - e) for e in range(1, 5)]
    assert "selected" not in summarize(lines)
    lines[1]["selected"] = lines[3]["selected"] = 2
    selected = {"epoch": 2, "stage": "warm-up", "flop": 2e6}
    assert summarize(lines)["selected"] == selected | {"test": lines[1]["test"], "holdout": lines[1]["holdout"]}


def test_epochs_that_were_not_evaluated_do_not_count() -> None:
    lines = [line(1, "train"), line(2, "train", test=50.0, holdout=30.0), line(3, "train"), line(4, "train", test=40.0)]
    result = summarize(lines)
    assert result["test"]["ema"] == {"last": 40.0, "last10": 45.0, "best": 50.0, "best_epoch": 2}
    assert result["holdout"]["raw"] == {"last": 31.0, "last10": 31.0, "best": 31.0, "best_epoch": 2}


def test_without_a_test_set_there_is_no_accuracy() -> None:
    result = summarize([line(1, "train")])
    assert "test" not in result
    assert result["stages"] == [{"stage": "train", "epoch": 1, "flop": 1e6}]


def test_a_run_that_lost_its_metrics_says_so(tmp_path: Path) -> None:
    run.train(tiny(), tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").unlink()
    with pytest.raises(UserError, match=r"metrics.jsonl has 0 of the \d+ epochs .* it is missing or cut off"):
        run.resume(tmp_path / "run")


def test_a_real_runs_result_is_that_of_its_metrics(tmp_path: Path) -> None:
    result = run.train(tiny(data=DataConfig(limit=200, holdout=0.2)), tmp_path / "run")
    lines = run.open_run(tmp_path / "run")[0].read_metrics()
    for split in ("test", "holdout"):
        curve = [line[split]["ema"] for line in lines]
        assert result[split]["ema"]["last"] == curve[-1]
        assert result[split]["ema"]["best"] == max(curve)
        assert result[split]["ema"]["last10"] == sum(curve) / len(curve)
    assert [stage["stage"] for stage in result["stages"]] == ["warm-up", "main"]
