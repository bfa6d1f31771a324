"""The plot and the table of a comparison show the numbers of its runs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pars import report
from pars.errors import UserError
from report import folders
from report.test_plots import curves


def lines(scale: float, split: str = "test") -> list[dict[str, Any]]:
    return [
        {
            "epoch": e,
            "stage": "warm-up" if e < 3 else "main",
            "flop": scale * e * 1e14,
            split: {"ema": 50 + scale * e, "raw": 40 + scale * e},
        }
        for e in range(1, 6)
    ]


def test_the_panels_show_averaged_and_raw_weights_over_pflop() -> None:
    figure = report.accuracy_over_flop_figure({"ce": lines(1.0), "pars": lines(2.0)}, title="a $ b")
    averaged, raw = figure.axes
    for axes, start in ((averaged, 50), (raw, 40)):
        for name, scale in (("ce", 1.0), ("pars", 2.0)):
            x, y = curves(axes)[name]
            np.testing.assert_allclose(x, scale * np.arange(1, 6) / 10)
            np.testing.assert_allclose(y, start + scale * np.arange(1, 6))
        dots = [line for line in axes.lines if line.get_marker() == "o"]
        assert [tuple(np.asarray(dot.get_xydata())[0]) for dot in dots] == [
            (0.2, start + 2),
            (0.4, start + 4),
        ]  # the warm-up's end


def test_without_a_test_set_held_out_labels_are_shown_and_without_either_nothing() -> None:
    figure = report.accuracy_over_flop_figure({"ce": lines(1.0, "holdout")}, title="")
    assert "held-out" in figure.axes[0].get_ylabel()
    with pytest.raises(UserError, match="no run to compare has"):
        report.accuracy_over_flop_figure({"ce": [{"epoch": 1, "stage": "a", "flop": 1.0}]}, title="")


def test_the_table_marks_runs_that_stopped_early_or_diverged() -> None:
    row = {"lr": 0.1, "epochs": 9, "flop": 2.94e14, "last": 81.234, "ema": 82.0, "best": 83.0, "holdout": None}
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(
        report.budget_table(
            [
                row | {"method": "ce"},
                row | {"method": "pars", "stopped": "budget"},
                {"method": "[b]", "lr": 1, "diverged": True},
            ],
            title="t",
        )
    )
    text = console.export_text()
    assert [line.split()[:8] for line in text.splitlines()[2:5]] == [
        ["ce", "0.1", "9", "0.294", "81.23", "82.00", "83.00", "–"],
        ["pars", "0.1", "9*", "0.294", "81.23", "82.00", "83.00", "–"],
        ["[b]", "1", "diverged", "–", "–", "–", "–", "–"],
    ]
    assert "* stopped: one more epoch would have exceeded the budget" in text


def test_a_run_says_what_each_stage_cost_and_what_its_budget_was(tmp_path: Path) -> None:
    path = folders.write_run(tmp_path / "run")  # logged before stages were: by differences
    cost = report.summary(report.read_run(path))["cost"]
    assert cost["flop_by_stage"] == {"warm-up": 12 * 2.5e12, "main": 18 * 2.5e12}
    assert sum(cost["flop_by_stage"].values()) == cost["flop"]
    config = path / "config.toml"
    config.write_text(config.read_text().replace("epochs = 30", "epochs = 30\nbudget = 0.08"))
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(report.overview(report.read_run(path)))
    assert "0.075 of 0.08 PFLOP (warm-up 0.03, main 0.045)" in console.export_text()
