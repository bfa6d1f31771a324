"""How `pars fit` and `pars audit` end: what to type next, and corrections by a rule (`--apply`)."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pars.errors import UserError
from pars.fit_folder import ROWS, fit_of

if TYPE_CHECKING:
    from pars.audit import AuditReport, Content

APPLY_HELP = "write corrected.csv: suggestions replace labels that are wrong with a probability above P, such as 0.95"


def next_steps(folder: Path, made_by: Sequence[str], *, any_flagged: bool = True) -> str:
    """The commands that look at the suspects of a fit or run, report on it, and train again with checked labels.

    made_by: the words of the command that made it, without --out and --labels.
    """
    review = ["pars", "review", str(folder)]
    if not any_flagged:
        review += ["--top", "20"]  # the list of flagged rows would be empty
    name, number = re.fullmatch(r"(.*?)(?:-(\d+))?", folder.name, re.DOTALL).groups()  # type: ignore[union-attr]
    new = str(folder.with_name(f"{name}-{int(number or 1) + 1}"))
    commands = [
        review,
        ["pars", "report", str(folder), f"{folder}.html"],
        [*made_by, "--out", new, "--labels", str(folder / "review" / "labels.csv")],
    ]
    first = "check the suspects, correct them" if any_flagged else "check the least probable labels all the same"
    what = (first, "one page to read or mail", "train again on what you checked")
    lines = [f"  {shlex.join(words)}   # {why}" for words, why in zip(commands, what, strict=True)]
    return "\n".join(["Next:", *lines])


def rule(text: str) -> float:
    """The probability in `above=0.95`.

    >>> rule("above=0.95")
    0.95
    """
    name, _, value = text.partition("=")
    try:
        above = float(value)
    except ValueError:
        above = -1.0
    if name != "above" or not 0.5 <= above < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no rule, expected above=P with P from 0.5 up to 1")
    return above


def apply_rule(report: AuditReport, content: Content | None, path: Path, out: Path, above: float) -> str:
    """Write corrected.csv and corrections.csv into a folder, and return what was done in a sentence.

    labels.csv is not written: nobody has checked these labels, so they must not count as known.
    """
    from pars import corrections, data
    from pars.files import write_text

    fit = fit_of(path)
    rows = corrections.ReviewedRows(
        classes=report.classes,
        given=report.given,
        suggested=report.suggested,
        quality=report.label_right_prob,
        ids=None if content is None else content.ids,
        checked=None if fit is None else data.arrays(fit / ROWS).train.checked,
    )
    decisions = corrections.decide_by_rule(rows, above)
    found = corrections.checked_labels(rows, decisions)
    source = None if fit is None else corrections.source_of_fit(fit)
    if source is not None and source.path.resolve().parent == out.resolve():
        raise UserError(f"{out} holds {source.path.name} itself, expected another folder for the corrected table")
    written = corrections.write_corrected(out, rows, found, source)
    write_text(out / "corrections.csv", "".join(corrections.corrections_csv(rows, decisions)))
    return (
        f"Changed {len(decisions)} of {report.n_labeled} labels in {written} "
        f"(wrong with a probability above {above:g}; nobody has checked them)."
    )
