"""What a report says, as plain values for the template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pars.html_report.rows import ShownRow


@dataclass(frozen=True)
class Figure:
    """A chart with its title, its legend (text and CSS class) and a sentence below."""

    title: str
    chart: Markup
    legend: Sequence[tuple[str, str]] = ()
    caption: str = ""


@dataclass(frozen=True)
class Card:
    """One of the numbers at the top. tone: "good", "bad" or ""."""

    name: str
    value: str
    detail: str
    tone: str = ""


@dataclass(frozen=True)
class ClassRow:
    """A class in the table of worst classes; `wrong` is a fraction of its labels."""

    name: str
    labels: int
    wrong: float
    confusion: str


@dataclass(frozen=True)
class HeatMap:
    """P(given | true) of some classes: names of rows and columns, and cells [row][column]."""

    names: Sequence[str]
    cells: Sequence[Sequence[float]]
    left_out: int


@dataclass(frozen=True)
class Suspect:
    """A row whose label is probably wrong."""

    rank: int
    row: int
    id: str
    given: str
    suggested: str
    right: str
    suggested_prob: str
    why: str
    shown: ShownRow


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    subtitle: str
    cards: Sequence[Card] = ()
    notes: Sequence[str] = ()  # what is missing, and why; warnings of the audit
    facts: Sequence[tuple[str, str]] = ()
    helped: Figure | None = None
    verdict: str = ""
    gains: Sequence[tuple[str, str, str, str]] = ()  # labels it is judged by, robust, plain, difference
    review: Sequence[str] = ()  # what a review changed, in sentences
    heat: HeatMap | None = None
    classes: Sequence[ClassRow] = ()
    suspects: Sequence[Suspect] = ()
    flagged: int = 0
    shows_images: bool = False  # suspects are shown as a grid of images
    curves: Sequence[Figure] = ()
    histograms: Sequence[Figure] = ()
    histogram_groups: str = ""
    settings: Sequence[tuple[str, Sequence[tuple[str, str]]]] = ()
    commands: Sequence[str] = ()
