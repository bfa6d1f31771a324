"""Shared by all plots: one style without global state, legends and titles that fit, files with reproducible bytes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from pars.errors import UserError
from pars.files import write_atomically

# Okabe & Ito (2008): distinguishable with any type of color blindness, and by lightness in grayscale.
BLUE, VERMILLION, GREEN, ORANGE, SKY, BLACK = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#000000"
GRAY = "#6B6B6B"
COLORS = (BLUE, VERMILLION, GREEN, ORANGE, BLACK, SKY)  # not their purple: protanopes see it as the blue
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)))

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GRAY,
    "axes.grid": True,
    "axes.axisbelow": True,
    "figure.titlesize": 10.5,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.7,
    "xtick.color": GRAY,
    "ytick.color": GRAY,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "savefig.dpi": 150,
    "svg.hashsalt": "pars",  # element names in an SVG are random without it
    "text.parse_math": False,  # a dollar sign in a run's name is a dollar sign
}
FORMATS = ("svg", "png")
LEGEND_ROW = 0.2  # inches


class NothingToPlot(UserError):
    """The run has no data for this plot: it has not trained long enough, or its method does not log it."""


@contextmanager
def style() -> Iterator[None]:
    """Apply the style while a figure is built or drawn; matplotlib's own settings are restored afterwards."""
    with matplotlib.rc_context(STYLE):
        yield


def write(figure: Figure, path: Path) -> Figure:
    """Write a figure as SVG or PNG, depending on the suffix of `path`, and return it."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise UserError(f"{path}: plots are written as .svg or .png, not as {path.suffix or 'a file without a suffix'}")
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with style():
            write_atomically(
                path, lambda beside: figure.savefig(beside, format=kind, metadata=metadata, facecolor="white")
            )
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    return figure


def curve_style(index: int) -> dict[str, Any]:
    """Return color and dashes of the i-th curve of a comparison: 24 combinations before they repeat."""
    return {"color": COLORS[index % len(COLORS)], "linestyle": DASHES[index // len(COLORS) % len(DASHES)]}


def legend_outside(figure: Figure, handles: Sequence[Artist], *, above: bool = False) -> None:
    """Add a legend below (or above) the axes, with as many columns as fit into the figure's width.

    handles: artists with a label. The figure grows by the height of every row of the legend after the first.
    """
    labels = [wrapped(str(handle.get_label()), 0.85 * figure.get_figwidth(), 9) for handle in handles]
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    for columns in range(min(8, len(handles)), 0, -1):
        legend = figure.legend(
            handles, labels, loc="outside upper center" if above else "outside lower center", ncols=columns
        )
        if columns == 1 or legend.get_window_extent(renderer).width < 0.98 * figure.bbox.width:
            break
        legend.remove()
    rows = -(-len(handles) // columns) + max(label.count("\n") for label in labels)
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * (rows - 1))


def wrapped(text: str, width: float, size: float) -> str:
    """Break `text` into lines of at most `width` inches at the given font size in points.

    >>> with style():
    ...     wrapped("accuracy of four methods", 1.0, 10).splitlines()
    ['accuracy of', 'four methods']
    """
    if not text.strip():
        return text
    characters = len(text)
    lines = [text]
    while characters > 1 and max(_text_width(line, size) for line in lines) > width:
        characters -= 1
        lines = textwrap.wrap(text, characters)
    return "\n".join(lines)


def _text_width(text: str, size: float) -> float:
    """In inches."""
    renderer: Any = RendererAgg(1, 1, 100)  # type: ignore[no-untyped-call]
    return float(renderer.get_text_width_height_descent(text, FontProperties(size=size), ismath=False)[0]) / 100


def mark_stages(axes: Axes, ends: Sequence[tuple[str, int]]) -> Artist | None:
    """Draw a dashed line where a stage (name, last epoch) ends and another begins; return it for the legend."""
    line = None
    for _, end in ends[:-1]:
        line = axes.axvline(end, color=GRAY, linestyle=(0, (4, 3)), linewidth=1)
    if line is not None:
        named = ", ".join(f"{stage} (epoch {end})" for stage, end in ends[:-1])
        line.set_label(f"end of {named}")
    return line
