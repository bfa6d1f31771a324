from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console, RenderableType

from pars import report
from pars.cli.demo import ROWS
from report import folders


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> report.Run:
    return report.read_run(folders.write_run(tmp_path_factory.mktemp("runs") / "run"))


def rendered(what: RenderableType, *, styles: bool = False, width: int = 140) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=styles, color_system="standard" if styles else None).print(what)
    return out.getvalue().replace("\N{NARROW NO-BREAK SPACE}", " ")


def test_the_outcome_is_that_of_the_measured_epochs(run: report.Run) -> None:
    test = report.summary(run)["test"]
    curve = np.array([folders.epoch(number)["test"]["ema"] for number in range(2, 31, 2)])
    assert test["ema"]["last"] == pytest.approx(92)
    assert test["ema"]["best"] == pytest.approx(60 + 35 * 28 / 30)
    assert test["ema"]["best_epoch"] == 28
    assert test["ema"]["last10"] == pytest.approx(curve[5:].mean())
    assert test["raw"]["last"] == pytest.approx(88)
    assert report.summary(run)["holdout"]["ema"]["last"] == pytest.approx(44)


def test_the_summary_holds_what_was_trained(run: report.Run) -> None:
    facts = report.summary(run)
    given, true = folders.labels()
    assert facts["finished"] is True
    assert facts["data"] == {
        "name": "my[red]data.npz",
        "rows": 1000,
        "labeled": 800,
        "classes": 3,
        "truth_known": True,
        "holdout": 0.1,
    }
    assert facts["noise"]["rate"] == 0.5
    assert facts["noise"]["realized_rate"] == pytest.approx(1 - (given == true)[:800].mean())
    assert facts["cost"] == {
        "images": 24_000,
        "flop": 7.5e13,
        "pflop": 0.075,
        "flop_by_stage": {"warm-up": 3e13, "main": 4.5e13},
        "budget_pflop": 0.0,
        "stopped": None,
    }
    assert facts["epochs"] == {"done": 30, "planned": 30}
    assert facts["curve"]["epochs"] == list(range(2, 31, 2))


def test_stages_carry_their_ends_their_selection_and_their_rows(run: report.Run) -> None:
    warm_up, main = report.summary(run)["stages"]
    assert [(s["stage"], s["first_epoch"], s["epoch"]) for s in (warm_up, main)] == [
        ("warm-up", 1, 12),
        ("main", 13, 30),
    ]
    assert warm_up["test"]["ema"] == pytest.approx(74)
    assert list(warm_up["selection"]) == ["raw"]
    assert warm_up["selection"]["raw"]["first"]["selected"] == 0
    assert warm_up["selection"]["raw"]["first"]["pseudo_accuracy_selected"] is None  # of no rows, not 0 %
    assert warm_up["selection"]["raw"]["last"]["labels_right_unselected"] == pytest.approx(100 * (0.6 - 0.3 * 12 / 30))
    assert main["selection"]["pseudo"]["last"]["selected"] == pytest.approx(100 * 2100 / 2400)

    given, true = folders.labels()
    record = folders.rows(20, seed=2)
    wrong = (given >= 0) & (given != true)
    assert main["rows"]["wrong"] == {
        "rows": wrong.sum(),
        "mean_confidence": pytest.approx(100 * record["confidence"][wrong].mean()),
        "mean_given_label_confidence": pytest.approx(100 * record["given_label_confidence"][wrong].mean()),
        "label_is_predicted": pytest.approx(100 * (record["predicted"] == given)[wrong].mean()),
        "selected": pytest.approx(100 * (record["confidence"][wrong] > 0.95).mean()),
    }
    assert main["rows"]["labeled"]["rows"] == 800


def test_the_summary_is_json(run: report.Run) -> None:
    facts = report.summary(run)
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts


def test_only_settings_that_differ_from_given_defaults_are_changed(run: report.Run) -> None:
    assert "changed" not in report.summary(run)["method"]
    defaults = dict(run.config["method"])
    assert report.summary(run, defaults=defaults)["method"]["changed"] == {}
    assert "with default hyper-parameters" in rendered(report.overview(run, defaults=defaults))
    defaults["robust"] = "nce+mae"
    assert report.summary(run, defaults=defaults)["method"]["changed"] == {"robust": "10*nce+mae"}
    lines = rendered(report.overview(run, defaults=defaults)).splitlines()
    assert "method    PARS with robust = 10*nce+mae" in [line.rstrip() for line in lines]


def test_the_overview_shows_configuration_accuracy_and_selection(run: report.Run) -> None:
    text = rendered(report.overview(run))
    for words in (
        "my[red]data.npz: 1 000 rows, 800 labeled, 3 classes, 10 % of the labels held out",
        "symmetric (inclusive), nominal rate 50 %, realized 33.38 % of 800 labels wrong",
        "PARS: tau = 0.95, lambda_S = 1, robust = 10*nce+mae, pseudo = true",
        "network   small_cnn ",
        "30 of 30 epochs, finished · 24 000 images, 0.075 PFLOP",
        "62.3 ▁▂▂▃▃▄▄▅▅▆▆▇▇██ 92.7",
        "66.2 → 87.5",
    ):
        assert words in text
    line = next(line for line in text.splitlines() if "test, averaged weights" in line)
    assert line.split()[-4:] == ["92.00", f"{report.summary(run)['test']['ema']['last10']:.2f}", "92.67", "28"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"name": "small_cnn", "width": 16, "hidden": [256], "dropout": 0.0}, "small_cnn, width = 16"),
        ({"name": "mlp", "width": 16, "hidden": [256], "batch_norm": True}, "mlp, hidden = [256], batch_norm = true"),
        ({"name": "linear", "hidden": [256]}, "linear"),
        ({"name": "auto", "hidden": [256]}, "auto, hidden = [256]"),
    ],
)
def test_a_network_is_described_by_its_own_settings(run: report.Run, model: dict[str, object], words: str) -> None:
    text = rendered(report.overview(replace(run, config={**run.config, "model": model})))
    line = next(line for line in text.splitlines() if line.startswith("network"))
    assert line.removeprefix("network").strip() == words


def test_headings_and_the_curve_are_whole_at_80_columns(run: report.Run) -> None:
    lines = rendered(report.overview(run), width=80).splitlines()
    heading = next(line for line in lines if "at epoch" in line)
    assert heading.split() == ["last", "mean", "of", "last", "10", "best", "at", "epoch"]
    assert any(re.fullmatch(r"62\.3 \S+ 92\.7  epochs 2 to 30", line.rstrip()) for line in lines)
    assert not any("…" in line for line in lines)


def test_the_table_of_the_demo_is_whole_at_80_columns() -> None:
    numbers = {"last": 100.0, "last10": 100.0, "best": 100.0, "best_epoch": 60}
    results = {name: {"test": {"ema": numbers}} for name in ROWS.values()}
    text = rendered(report.comparison_table(results), width=80)
    assert all(name in text for name in ROWS.values())
    assert len(text.splitlines()) == 2 + len(ROWS)


def test_without_true_labels_no_accuracy_of_labels_is_shown(tmp_path: Path) -> None:
    blind = report.read_run(folders.write_run(tmp_path / "run", truth=False))
    facts = report.summary(blind)
    assert facts["noise"]["realized_rate"] is None
    assert set(facts["stages"][0]["rows"]) == {"labeled"}
    text = rendered(report.overview(blind))
    assert "the true labels are not known" in text
    assert "pseudo-label accuracy" not in text


def test_a_run_that_has_just_begun_has_an_overview(tmp_path: Path) -> None:
    begun = report.read_run(folders.write_run(tmp_path / "run", epochs=0))
    facts = report.summary(begun)
    assert (facts["test"], facts["stages"], facts["curve"], facts["finished"]) == (None, [], None, False)
    assert "0 of 30 epochs, not finished" in rendered(report.overview(begun))


def test_the_best_of_each_column_is_bold_in_a_comparison() -> None:
    def result(last: float, best: float) -> dict[str, dict[str, dict[str, float]]]:
        return {"test": {"ema": {"last": last, "last10": 50.0, "best": best, "best_epoch": 1}}}

    results = {"ce": result(60.0, 99.25), "PARS [paper]": result(95.5, 96.0), "no test": {}}
    text = rendered(report.comparison_table(results), styles=True)
    bold = re.findall(r"\x1b\[1m *(\d+\.\d+)\x1b\[0m", text)
    assert sorted(bold) == ["50.00", "50.00", "95.50", "99.25"]  # with a tie
    assert "60.00" in text
    assert "PARS [paper]" in text
    line = next(line for line in rendered(report.comparison_table(results)).splitlines() if "no test" in line)
    assert line.split() == ["no", "test", "–", "–", "–"]


def test_a_sparkline_ends_with_the_last_value_however_short_it_is() -> None:
    values = [0.0] * 500 + [1.0]
    assert report.sparkline(values) == "▁" * 59 + "█"
    assert report.sparkline([5.0, 5.0]) == "██"
    assert report.sparkline([0.0, 1.0, 0.5], width=1) == "▅"
