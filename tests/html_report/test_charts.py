"""Charts are well-formed SVG whose shapes are where the numbers say."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np

from pars.html_report.charts import HEIGHT, WIDTH, Interval, Line, histogram, interval_chart, line_chart

SVG = "{http://www.w3.org/2000/svg}"


def parsed(chart: str) -> ElementTree.Element:
    return ElementTree.fromstring(str(chart).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def test_a_higher_value_is_drawn_higher_and_a_later_one_further_right() -> None:
    chart = parsed(line_chart([Line("a", [1, 2, 3], [10.0, 30.0, 20.0], "blue")], x_label="epoch", y_label="%"))
    (curve,) = chart.iter(f"{SVG}polyline")
    points = [tuple(map(float, point.split(","))) for point in curve.attrib["points"].split()]
    (x1, y1), (x2, y2), (x3, y3) = points
    assert x1 < x2 < x3
    assert y2 < y3 < y1  # y grows downward
    assert abs((x2 - x1) - (x3 - x2)) < 0.2
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)


def test_names_in_charts_are_escaped() -> None:
    name = '"><script>alert(1)</script>'
    charts = [
        line_chart([Line(name, [0, 1], [0.0, 1.0], "blue")], x_label=name, y_label=name, ends=[(name, 1.0)]),
        histogram(np.array([0.5]), [(name, np.array([True]), "blue")], x_label=name),
        interval_chart([Interval(name, 1.0, -1.0, 2.0)], x_label=name),
    ]
    for chart in charts:
        assert "<script" not in chart
        assert any(name in (element.text or "") for element in parsed(chart).iter())


def test_bars_of_a_histogram_have_heights_in_proportion_to_counts() -> None:
    values = np.array([0.11] * 4 + [0.51] * 2 + [1.0000001])  # float32 may round to a little more than 1
    chart = parsed(histogram(values, [("all", np.ones(7, dtype=bool), "blue")], x_label="confidence", mark=0.9))
    heights = [float(bar.attrib["height"]) for bar in chart.iter(f"{SVG}rect")]
    assert len(heights) == 3
    assert heights[0] / heights[2] == np.float64(4).item() or abs(heights[0] / heights[2] - 4) < 0.02
    assert abs(heights[1] / heights[2] - 2) < 0.02


def test_an_interval_that_holds_zero_is_gray_and_crosses_its_line() -> None:
    chart = parsed(interval_chart([Interval("a", 1.0, -2.0, 4.0), Interval("b", 3.0, 1.0, 5.0)], x_label="points"))
    lines = list(chart.iter(f"{SVG}line"))
    zero = float(next(line for line in lines if line.attrib["class"] == "zero").attrib["x1"])
    unsure, sure = (line for line in lines if "whisker" in line.attrib["class"])
    assert float(unsure.attrib["x1"]) < zero < float(unsure.attrib["x2"])
    assert float(sure.attrib["x1"]) > zero
    assert unsure.attrib["class"].startswith("gray")
    assert sure.attrib["class"].startswith("blue")


def test_long_and_odd_curves_stay_small_and_finite() -> None:
    x = list(range(100_000))
    long = line_chart([Line("a", x, [float(v % 7) for v in x], "blue")], x_label="epoch", y_label="%")
    assert len(long) < 10_000
    odd = [Line("b", [1, 2, 3], [float("nan"), 1.0, float("inf")], "blue")]
    chart = line_chart(odd, x_label="epoch", y_label="%")
    assert not re.search(r"nan|inf", chart.replace("info", ""))
    assert line_chart([Line("c", [1], [float("nan")], "blue")], x_label="epoch", y_label="%") == ""
