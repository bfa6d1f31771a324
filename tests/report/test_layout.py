"""Every text of every plot lies inside the figure and overlaps no other, in ordinary and in odd cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from pars import report
from pars.cli.demo import ROWS
from pars.report.figure import COLORS, curve_style, style
from report import folders

LONG = "a method whose name is far longer than any name should be, with its settings in brackets (tau=0.95, lambda=0.1)"
METHODS = [
    "ce", "warmup", "elr", "mixup", "fixmatch", "pars", "pars-paper", "co-teaching-plus", "joint-optim", "dividemix",
    "unicon", "jocor",
]  # fmt: skip
STAGES = ["warm-up of both networks", "main", "label correction", "fine-tuning with all labels"]


def drawn_texts(figure: Figure) -> dict[str, Bbox]:
    """Where each visible text is, in pixels; tick labels outside their axis are not drawn."""
    canvas: Any = FigureCanvasAgg(figure)
    with style():
        canvas.draw()
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                inside = low - 1e-9 <= tick.get_loc() <= high + 1e-9
                hidden |= {text for text in (tick.label1, tick.label2) if not (inside and text.get_visible())}
    texts = [
        text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_visible() and text not in hidden
    ]
    return {
        f"{index}: {text.get_text()}": text.get_window_extent(canvas.get_renderer())
        for index, text in enumerate(texts)
        if text.get_text().strip()
    }


def check(figure: Figure) -> None:
    texts = drawn_texts(figure)
    assert len(texts) > 8
    whole = figure.bbox
    for words, box in texts.items():
        assert whole.x0 <= box.x0, words
        assert whole.y0 <= box.y0, words
        assert box.x1 <= whole.x1, words
        assert box.y1 <= whole.y1, words
    for (one, first), (other, second) in combinations(texts.items(), 2):
        both = Bbox.intersection(first, second)
        assert both is None or both.width * both.height < 1, f"{one!r} overlaps {other!r}"
    for axes in figure.axes:
        assert axes.get_window_extent().height > 90, "the axes have no room left"


def curves(names: list[str], epochs: int = 30, flop: float = 1.0) -> dict[str, list[dict[str, Any]]]:
    """Lines of metrics.jsonl, each run a little better and costlier than the one before."""
    out = {}
    for index, name in enumerate(names):
        lines = [folders.epoch(number) for number in range(1, epochs + 1)]
        for line in lines:
            line["flop"] *= flop * (1 + index / 5)
            line["test"] = dict.fromkeys(("raw", "ema"), 50 + index + line["epoch"] / 2)
        out[name] = lines
    return out


COMPARED: dict[str, dict[str, list[dict[str, Any]]]] = {
    "demo": curves(list(ROWS.values())),
    "one run": curves(["pars"]),
    "one epoch": curves(["ce", "pars"], epochs=1),
    "12 methods": curves(METHODS),
    "30 methods": curves([f"{name}-{k}" for name in METHODS[:10] for k in range(3)]),
    "long names": curves([LONG, "pars", f"{LONG}, again"]),
    "names without spaces": curves(["x" * 150, "y"]),
    "small networks": curves(["ce", "pars"], flop=1e-7),
    "large networks": curves(["ce", "pars"], flop=1e5),
}
TITLES = ["", "digits, symmetric noise 50 %, seed 0", f"cifar10-fast, {LONG}, {LONG}"]


@pytest.mark.parametrize("draw", [report.comparison_figure, report.accuracy_over_flop_figure])
@pytest.mark.parametrize("title", TITLES)
@pytest.mark.parametrize("runs", COMPARED.values(), ids=list(COMPARED))
def test_comparisons_hold_their_texts(draw: Callable[..., Figure], runs: dict[str, Any], title: str) -> None:
    check(draw(runs, title=title))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> report.Run:
    return report.read_run(folders.write_run(tmp_path_factory.mktemp("runs") / "run"))


def in_stages(run: report.Run, names: list[str]) -> report.Run:
    """The same epochs in so many stages."""
    length = -(-len(run.metrics) // len(names))
    metrics = [line | {"stage": names[(line["epoch"] - 1) // length]} for line in run.metrics]
    records = list(run.stages.values())
    stages = {name: replace(records[k % 2], epoch=min(30, length * (k + 1))) for k, name in enumerate(names)}
    return replace(run, metrics=metrics, stages=stages)


def without_truth(run: report.Run) -> report.Run:
    return replace(run, labels=replace(run.labels, true=None))


def with_unknown_truth(run: report.Run) -> report.Run:
    assert run.labels.true is not None
    return replace(run, labels=replace(run.labels, true=np.where(np.arange(folders.N) < 50, -1, run.labels.true)))


def with_tau(tau: float) -> Callable[[report.Run], report.Run]:
    return lambda run: replace(run, config={**run.config, "method": {"kind": "PARS", "tau": tau}})


def of_100_classes(run: report.Run) -> report.Run:
    rng = np.random.default_rng(0)
    names = tuple(f"class {k:03}, {LONG}" for k in range(100))
    return replace(run, labels=report.Labels(names, rng.integers(100, size=folders.N), np.arange(folders.N) % 100))


ODD: dict[str, Callable[[report.Run], report.Run]] = {
    "as it is": lambda run: run,
    "one epoch": lambda run: replace(run, metrics=[{**run.metrics[1], "epoch": 1}]),
    "one stage": lambda run: in_stages(run, ["train"]),
    "four stages": lambda run: in_stages(run, STAGES),
    "ten stages": lambda run: in_stages(run, [f"self-training, round {k}" for k in range(10)]),
    "no true labels": without_truth,
    "some true labels": with_unknown_truth,
    "low tau": with_tau(0.3),
    "tau in the middle": with_tau(0.51),
    "100 classes with long names": of_100_classes,
    "one stage, some true labels": lambda run: with_unknown_truth(in_stages(run, [LONG])),
}


@pytest.mark.parametrize(
    "draw", [report.confidence_histograms_figure, report.accuracy_curves_figure, report.selection_curves_figure]
)
@pytest.mark.parametrize("change", ODD.values(), ids=list(ODD))
def test_plots_of_a_run_hold_their_texts(
    run: report.Run, draw: Callable[[report.Run], Figure], change: Callable[[report.Run], report.Run]
) -> None:
    check(draw(change(run)))


def test_a_text_outside_the_figure_would_be_noticed() -> None:
    figure = report.comparison_figure(COMPARED["demo"], title="")
    figure.text(0.9, 0.5, LONG)
    with pytest.raises(AssertionError, match="a method whose name"):
        check(figure)


def as_seen(color: str, kind: str) -> Any:
    """A color in linear RGB as protanopes and deuteranopes see it (Viénot, Brettel & Mollon 1999)."""
    rgb = np.array(to_rgb(color)) ** 2.2
    to_lms = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
    lost = {
        "protan": [[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]],
        "deutan": [[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]],
        "all": np.eye(3),
    }
    return (np.linalg.inv(to_lms) @ np.array(lost[kind]) @ to_lms @ rgb).clip(0, 1) ** (1 / 2.2)


@pytest.mark.parametrize("kind", ["all", "protan", "deutan"])
def test_colors_differ_for_color_blind_readers(kind: str) -> None:
    for one, other in combinations(COLORS, 2):
        assert np.linalg.norm(as_seen(one, kind) - as_seen(other, kind)) > 0.15, (one, other)


def test_24_runs_have_24_line_styles() -> None:
    assert len({str(curve_style(index)) for index in range(24)}) == 24


def test_contact_sheets_hold_their_captions(tmp_path: Path) -> None:
    tile = report.Tile(np.zeros((3, 32, 32), np.uint8), LONG, [LONG, "crop at 0, 1"])
    pixels = np.asarray(report.contact_sheet([[tile, tile], [tile]]))
    border = np.concatenate([pixels[:, -1], pixels[-1], pixels[0], pixels[:, 0]])
    assert (border == 255).all()  # nothing reaches the edge
    columns = np.less(pixels, 255).any(axis=(0, 2))
    assert not columns[pixels.shape[1] // 2]  # nor a neighbor
