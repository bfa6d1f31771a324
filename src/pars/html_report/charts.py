"""Charts as inline SVG: colors are CSS classes of the page, so that they follow its light and dark scheme.

Text goes through `Markup.format`, which escapes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

WIDTH, HEIGHT = 460, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 14, 40
MOST_POINTS = 300  # of a line: more would not be seen
BINS = np.linspace(0, 1, 41)

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Line:
    """A curve by the name in its legend; `css` is a class of the page, such as "blue"."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    css: str


@dataclass(frozen=True)
class Interval:
    """A difference with its interval, to be drawn on one line of a chart."""

    name: str
    value: float
    low: float
    high: float


def line_chart(lines: Sequence[Line], *, x_label: str, y_label: str, ends: Sequence[tuple[str, float]] = ()) -> Markup:
    """Curves with a legend. ends: names of stages and where on x they end, drawn as dashed lines."""
    lines = [thin for line in lines if (thin := _thinned(line)).x]
    if not lines:
        return Markup("")
    x_ticks = _ticks(min(0.0, *(min(line.x) for line in lines)), max(max(line.x) for line in lines))
    y_ticks = _ticks(min(min(line.y) for line in lines), max(max(line.y) for line in lines))
    to_x, to_y = _scales(x_ticks, y_ticks)
    parts = [_axes(x_ticks, y_ticks, x_label, y_label)]
    for name, end in ends:
        parts.append(
            Markup(
                '<line class="stage" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>'
                '<text class="small" x="{3:.1f}" y="{4}" text-anchor="end">{5}</text>'
            ).format(to_x(end), TOP, HEIGHT - BOTTOM, to_x(end) - 4, HEIGHT - BOTTOM - 6, f"end of {name}")
        )
    for line in lines:
        points = " ".join(f"{to_x(x):.1f},{to_y(y):.1f}" for x, y in zip(line.x, line.y, strict=True))
        if len(line.x) == 1:
            parts.append(
                Markup('<circle class="{} dot" cx="{:.1f}" cy="{:.1f}" r="4"/>').format(
                    line.css, to_x(line.x[0]), to_y(line.y[0])
                )
            )
        else:
            parts.append(Markup('<polyline class="{} curve" points="{}"/>').format(line.css, points))
    spoken = "; ".join(f"{line.name}: {line.y[-1]:.3g} at the end" for line in lines)
    return _svg(parts, HEIGHT, f"{y_label} over {x_label}. {spoken}")


def histogram(
    values: Floats, groups: Sequence[tuple[str, npt.NDArray[np.bool_], str]], *, x_label: str, mark: float | None = None
) -> Markup:
    """Counts of values in 0..1, one series per group (name, which rows, CSS class); `mark` is a threshold on x."""
    inside = np.clip(values, 0, 1)
    counts = [(name, np.histogram(inside[rows], BINS)[0], css) for name, rows, css in groups]
    y_ticks = _ticks(0.0, max(1.0, *(float(count.max()) for _, count, _ in counts)))
    x_ticks = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    to_x, to_y = _scales(x_ticks, y_ticks)
    parts = [_axes(x_ticks, y_ticks, x_label, "number of rows")]
    for _, count, css in counts:
        for low, high, n in zip(BINS[:-1], BINS[1:], count.tolist(), strict=True):
            if n:
                parts.append(
                    Markup('<rect class="{} bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
                        css, to_x(low), to_y(n), to_x(high) - to_x(low) - 0.5, to_y(0) - to_y(n)
                    )
                )
    if mark is not None:
        parts.append(
            Markup(
                '<line class="threshold" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>'
                '<text class="small" x="{3:.1f}" y="{4}" text-anchor="end">{5}</text>'
            ).format(to_x(mark), TOP, HEIGHT - BOTTOM, to_x(mark) - 4, TOP + 9, f"τ = {mark:g}")
        )
    means = "; ".join(f"{name}: mean {values[rows].mean():.2f}" for name, rows, _ in groups if rows.any())
    return _svg(parts, HEIGHT, f"Histogram of {x_label}. {means}")


def interval_chart(intervals: Sequence[Interval], *, x_label: str) -> Markup:
    """Points with whiskers above a common scale, and a line at 0."""
    ticks = _ticks(min(0.0, *(i.low for i in intervals)), max(0.0, *(i.high for i in intervals)))
    height = 34 * len(intervals) + BOTTOM + TOP
    left, right = 8.0, WIDTH - 8.0

    def to_x(value: float) -> float:
        return left + (value - ticks[0]) / (ticks[-1] - ticks[0]) * (right - left)

    base = height - BOTTOM
    parts = []
    for tick in ticks:
        parts.append(
            Markup(
                '<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>'
                '<text class="tick" x="{0:.1f}" y="{3}" text-anchor="{4}">{5}</text>'
            ).format(
                to_x(tick),
                TOP,
                base,
                base + 15,
                "start" if tick == ticks[0] else "end" if tick == ticks[-1] else "middle",
                f"{tick:+g}" if tick else "0",
            )
        )
    parts.append(Markup('<line class="zero" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>').format(to_x(0), TOP, base))
    for row, interval in enumerate(intervals):
        y = TOP + 34 * row + 24
        css = "blue" if interval.low > 0 else "orange" if interval.high < 0 else "gray"
        parts.append(
            Markup(
                '<text class="label" x="{0}" y="{1}">{2}</text>'
                '<line class="{3} whisker" x1="{4:.1f}" x2="{5:.1f}" y1="{6}" y2="{6}"/>'
                '<circle class="{3} dot" cx="{7:.1f}" cy="{6}" r="5"/>'
            ).format(left, y - 10, interval.name, css, to_x(interval.low), to_x(interval.high), y, to_x(interval.value))
        )
    parts.append(
        Markup('<text class="label" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            WIDTH / 2, height - 6, x_label
        )
    )
    spoken = "; ".join(f"{i.name}: {i.value:+.1f}, from {i.low:+.1f} to {i.high:+.1f}" for i in intervals)
    return _svg(parts, height, f"{x_label}. {spoken}")


def _svg(parts: Sequence[Markup], height: int, description: str) -> Markup:
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, height, description, Markup("").join(parts)
    )


def _axes(x_ticks: Sequence[float], y_ticks: Sequence[float], x_label: str, y_label: str) -> Markup:
    to_x, to_y = _scales(x_ticks, y_ticks)
    base, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    out = [
        Markup(
            '<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>'
            '<text class="tick" x="{3}" y="{4:.1f}" text-anchor="end">{5}</text>'
        ).format(LEFT, right, to_y(tick), LEFT - 6, to_y(tick) + 4, _number(tick))
        for tick in y_ticks
    ]
    out += [
        Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
            to_x(tick), base + 15, _number(tick)
        )
        for tick in x_ticks
    ]
    middle = (TOP + base) / 2
    out.append(
        Markup(
            '<line class="axis" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>'
            '<text class="label" x="{3}" y="{4}" text-anchor="middle">{5}</text>'
            '<text class="label" x="12" y="{6}" text-anchor="middle" transform="rotate(-90 12 {6})">{7}</text>'
        ).format(LEFT, right, base, (LEFT + right) / 2, HEIGHT - 6, x_label, middle, y_label)
    )
    return Markup("").join(out)


def _scales(x_ticks: Sequence[float], y_ticks: Sequence[float]) -> tuple[Any, Any]:
    """Functions from values to places in the chart; the outermost ticks are its edges."""

    def to_x(value: float) -> float:
        return LEFT + (value - x_ticks[0]) / (x_ticks[-1] - x_ticks[0]) * (WIDTH - LEFT - RIGHT)

    def to_y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]) * (HEIGHT - BOTTOM - TOP)

    return to_x, to_y


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers that enclose low and high, some five of them.

    >>> _ticks(0, 93)
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    >>> _ticks(0.5, 0.5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if high - low < 1e-9 * max(1.0, abs(high)):
        low, high = math.floor(low), math.floor(low) + 1
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * index, 12) for index in range(first, last + 1)]


def _number(value: float) -> str:
    """A tick's text: thousands are grouped by a narrow space.

    >>> _number(0.2), _number(12000.0)
    ('0.2', '12\\u202f000')
    """
    return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}") if abs(value) >= 1000 else f"{value:g}"


def _thinned(line: Line) -> Line:
    """At most MOST_POINTS points, the last one among them; values that are not finite are left out."""
    points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(x) and math.isfinite(y)]
    if len(points) > MOST_POINTS:
        kept = np.linspace(0, len(points) - 1, MOST_POINTS).round().astype(int)
        points = [points[index] for index in kept]
    return Line(line.name, [x for x, _ in points], [y for _, y in points], line.css)
