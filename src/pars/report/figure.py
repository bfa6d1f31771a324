"""How a picture looks and how it reaches the disk: one style, no global state, the same bytes every time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pars.errors import UserError
from pars.files import write_atomically

# Okabe & Ito: told apart by color-blind eyes, and by their lightness in gray.
BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7"
GRAY = "#6B6B6B"
CYCLE = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GRAY,
    "axes.grid": True,
    "axes.axisbelow": True,
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
}
FORMATS = ("svg", "png")


class NothingToPlot(UserError):
    """The run has not come so far, or does not log what the plot shows."""


@contextmanager
def style() -> Iterator[None]:
    """The style while a figure is made or drawn; matplotlib's own settings are as before afterwards."""
    with matplotlib.rc_context(STYLE):
        yield


def write(figure: Figure, path: Path) -> Figure:
    """Draw a figure into a file, SVG or PNG by its suffix, and give it back."""
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


def per_cent(axes: Axes, what: str) -> None:
    axes.set_ylabel(f"{what} (%)")


def mark_stages(axes: Axes, ends: list[tuple[str, int]], *, names: bool = True) -> None:
    """A dashed line where one stage (name, last epoch) gives way to the next."""
    for index, (_, end) in enumerate(ends[:-1]):
        axes.axvline(end, color=GRAY, linestyle=(0, (4, 3)), linewidth=1)
        if names:
            # Axes fraction upwards, epochs sideways.
            place: dict[str, Any] = {
                "transform": axes.get_xaxis_transform(),
                "color": GRAY,
                "fontsize": 8.5,
                "va": "bottom",
            }
            axes.text(end, 1.01, f"{ends[index][0]} ◂ ", ha="right", **place)
            axes.text(end, 1.01, f" ▸ {ends[index + 1][0]}", ha="left", **place)
