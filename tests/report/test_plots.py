from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from pars import report
from pars.errors import UserError
from pars.report.figure import BLUE, VERMILLION
from report import folders


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> report.Run:
    return report.read_run(folders.write_run(tmp_path_factory.mktemp("runs") / "run"))


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> report.Run:
    return report.read_run(folders.write_run(tmp_path_factory.mktemp("runs") / "run", truth=False))


def heights(axes: Axes, color: str) -> list[float]:
    bars = [p for p in axes.patches if isinstance(p, Rectangle) and to_hex(p.get_facecolor()) == color.lower()]
    return [bar.get_height() for bar in sorted(bars, key=Rectangle.get_x)]


def curves(axes: Axes) -> dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Lines with a label of their own."""
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    return {str(line.get_label()): (np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in lines}


def stage_marks(axes: Axes) -> list[float]:
    """Where vertical lines stand."""
    return [x[0] for x in (list(np.asarray(line.get_xdata())) for line in axes.lines) if len(x) == 2 and x[0] == x[1]]


def test_every_labeled_row_is_in_one_bar_of_each_panel_by_whether_its_label_is_right(run: report.Run) -> None:
    given, true = folders.labels()
    figure = report.confidence_histograms_figure(run)
    assert len(figure.axes) == 4
    stages = [folders.rows(5, seed=1), folders.rows(20, seed=2)]
    for index, axes in enumerate(figure.axes):
        values = stages[index % 2]["confidence" if index < 2 else "given_label_confidence"]
        for color, rows in ((BLUE, given == true), (VERMILLION, (given >= 0) & (given != true))):
            expected = np.bincount(np.minimum(values[rows].astype(np.float64) * 40, 39).astype(int), minlength=40)
            assert heights(axes, color) == expected.tolist()
            assert sum(heights(axes, color)) == rows.sum()


def test_the_threshold_of_the_configuration_is_marked_with_the_shares_above_it(run: report.Run) -> None:
    given, true = folders.labels()
    top = report.confidence_histograms_figure(run).axes[1]
    assert stage_marks(top) == [folders.TAU]
    above = folders.rows(20, seed=2)["confidence"] > folders.TAU
    words = top.texts[0].get_text()
    assert f"{100 * above[given == true].mean():.1f} % of correct labels" in words
    assert f"{100 * above[(given >= 0) & (given != true)].mean():.1f} % of wrong labels" in words


def test_without_true_labels_there_is_one_histogram_of_all_labeled_rows(blind: report.Run) -> None:
    for axes in report.confidence_histograms_figure(blind).axes:
        assert sum(heights(axes, BLUE)) == folders.N - folders.UNLABELED
        assert not heights(axes, VERMILLION)
    above = (folders.rows(5, seed=1)["confidence"] > folders.TAU)[folders.labels()[0] >= 0].mean()
    words = report.confidence_histograms_figure(blind).axes[0].texts[0].get_text()
    assert words == f"confidence > τ = 0.95:\n{100 * above:.1f} % of all labels"


def test_rows_whose_truth_is_unknown_are_a_group_of_their_own(run: report.Run) -> None:
    assert run.labels.true is not None
    true = run.labels.true.copy()
    true[:50] = -1
    partly = report.Run(
        run.path, run.config, run.noise, report.Labels(run.labels.names, run.labels.given, true), stages=run.stages
    )
    axes = report.confidence_histograms_figure(partly).axes[0]
    assert sum(p.get_height() for p in axes.patches if isinstance(p, Rectangle)) == folders.N - folders.UNLABELED
    assert sum(heights(axes, "#6b6b6b")) == 50


def test_accuracy_curves_hold_the_measured_epochs_only(run: report.Run) -> None:
    axes = report.accuracy_curves_figure(run).axes[0]
    drawn = curves(axes)
    assert list(drawn) == [
        "test set, averaged weights: 92.0 %",
        "test set, raw weights: 88.0 %",
        "held-out given labels, averaged weights: 44.0 %",
        "end of warm-up (epoch 12)",
    ]
    epochs, values = drawn["test set, averaged weights: 92.0 %"]
    assert epochs.tolist() == list(range(2, 31, 2))
    assert values.tolist() == [folders.epoch(number)["test"]["ema"] for number in range(2, 31, 2)]
    assert stage_marks(axes) == [folders.WARM_UP]


def test_selection_curves_show_shares_and_a_gap_where_a_set_was_empty(run: report.Run) -> None:
    selected, predictions, labels, memorized = report.selection_curves_figure(run).axes
    raw, pseudo = (np.asarray(line.get_ydata()) for line in selected.lines[:2])
    np.testing.assert_allclose(raw[[0, 14, 29]], [0, 50, 100])
    np.testing.assert_allclose(pseudo, [100 * (1200 + 30 * number) / 2400 for number in range(13, 31)])
    right = curves(predictions)["selected rows"][1]
    assert np.isnan(right[0])
    np.testing.assert_allclose(right[1:], [98 - 5 * number / 30 for number in range(2, 31)])
    assert np.isnan(curves(labels)["unselected rows"][1]).tolist() == [False] * 29 + [True]
    learned = np.asarray(memorized.lines[0].get_ydata())
    np.testing.assert_allclose(learned, [30 - 20 * number / 30 for number in range(1, 31)])
    assert [stage_marks(axes) for axes in (selected, labels)] == [[12], [12]]


def test_without_true_labels_only_the_size_of_the_selection_is_drawn(blind: report.Run) -> None:
    (axes,) = report.selection_curves_figure(blind).axes
    assert axes.get_title(loc="left").startswith("fraction of selected rows")


def test_a_comparison_has_one_curve_per_run_and_takes_names_literally(run: report.Run) -> None:
    runs = {"a $cheap$ method": run.metrics[:20], "[PARS]": run.metrics, "nothing measured": run.metrics[:1]}
    figure = report.comparison_figure(runs, title="$5$ epochs")
    assert "a $cheap$ method: 83.3 %" in {text.get_text() for text in figure.legends[0].get_texts()}
    assert not any(text.get_parse_math() for text in (figure.axes[0].title, *figure.legends[0].get_texts()))
    drawn = curves(figure.axes[0])
    assert list(drawn) == ["a $cheap$ method: 83.3 %", "[PARS]: 92.0 %"]
    assert drawn["[PARS]: 92.0 %"][1].tolist() == [line["test"]["ema"] for line in run.metrics if "test" in line]


def test_all_plots_are_written_and_show_something(run: report.Run, tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    for path in report.write_plots(run, tmp_path / "new" / "plots", "png"):
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
        assert min(pixels.shape[:2]) > 400
        assert 0.01 < (pixels < 200).any(axis=2).mean() < 0.5
    written = report.write_plots(run, tmp_path)
    assert [path.name for path in written] == ["confidence.svg", "accuracy.svg", "selection.svg"]
    for path in written:
        assert len(list(ET.parse(path).iter("{http://www.w3.org/2000/svg}path"))) > 30
    report.comparison({"PARS": run.metrics}, tmp_path / "comparison.svg", title="one")
    assert (tmp_path / "comparison.svg").stat().st_size > 5000
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_same_run_gives_the_same_bytes(run: report.Run, tmp_path: Path, kind: str) -> None:
    first, second = (report.write_plots(run, tmp_path / name, kind) for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_run_that_has_not_come_far_gives_the_plots_it_can(tmp_path: Path) -> None:
    early = report.read_run(folders.write_run(tmp_path / "early", epochs=1))
    assert [path.name for path in report.write_plots(early, tmp_path)] == ["selection.svg"]
    begun = report.read_run(folders.write_run(tmp_path / "begun", epochs=0))
    assert report.write_plots(begun, tmp_path) == []
    for plot in (report.confidence_histograms, report.accuracy_curves, report.selection_curves):
        with pytest.raises(UserError, match="begun"):
            plot(begun, tmp_path / "plot.svg")
    with pytest.raises(UserError, match="no run to compare"):
        report.comparison({"a": begun.metrics}, tmp_path / "plot.svg", title="none")


def test_a_plot_that_cannot_be_written_is_an_error_of_the_user(run: report.Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\.svg or \.png, not as \.gif"):
        report.accuracy_curves(run, tmp_path / "plot.gif")
    with pytest.raises(UserError, match="unknown format 'pdf'"):
        report.write_plots(run, tmp_path, "pdf")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        report.accuracy_curves(run, tmp_path / "file" / "plot.svg")


def test_the_writers_give_the_figure_back(run: report.Run, tmp_path: Path) -> None:
    assert isinstance(report.accuracy_curves(run, tmp_path / "plot.PNG"), Figure)
