"""What a comparison leaves beside its runs: the table, the curves, the plot."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pars import report
from pars.compare.contest import Contender
from pars.engine import RunFolder, write_text
from pars.errors import UserError

COLUMNS = ("method", "epoch", "stage", "flop", "test_ema", "test_raw", "holdout_ema", "holdout_raw")


def check_files(out: Path, about: Mapping[str, Any]) -> None:
    """Refuse a folder that is a run itself, or holds another comparison; `about` is what its runs share."""
    if RunFolder(out).config.exists():
        raise UserError(f"{out} is a run, expected a folder for several; choose another --out")
    path = out / "compare.json"
    if not path.exists():
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        there = {key: found[key] for key in about}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise UserError(f"{path} is none of `pars compare`; choose another --out") from None
    for key, value in about.items():
        if there[key] != value:
            raise UserError(
                f"{path} is of a comparison with {key} = {there[key]!r}, not {value!r} as asked for; "
                "choose another --out"
            )


def write_files(
    contenders: Sequence[Contender],
    results: Mapping[str, Mapping[str, Any] | None],
    about: Mapping[str, Any],
    out: Path,
    *,
    title: str,
    kind: str = "svg",
) -> tuple[dict[str, Any], list[Path]]:
    """Write compare.json, curves.csv and accuracy-over-flop.svg (or .png): what is in the first, and the files.

    Where nothing can be plotted there is no plot.
    """
    curves = {each.name: RunFolder(each.out).read_metrics() for each in contenders if results[each.name] is not None}
    table = {**about, "runs": [row(each, results[each.name]) for each in contenders]}
    files = [out / "compare.json", out / "curves.csv"]
    for path, text in zip(files, (json.dumps(table, indent=1) + "\n", curves_csv(curves)), strict=True):
        write_text(path, text)
    with suppress(report.NothingToPlot):
        plot = out / f"accuracy-over-flop.{kind}"
        report.accuracy_over_flop(curves, plot, title=title)
        files.append(plot)
    return table, files


def row(contender: Contender, result: Mapping[str, Any] | None) -> dict[str, Any]:
    """One method's numbers: accuracies in per cent, none where not measured. `best` is picked by the test set."""
    train = contender.config.train
    out: dict[str, Any] = {"method": contender.name, "lr": train.lr, "budget": train.budget, "run": str(contender.out)}
    if result is None:
        return out | {"diverged": True}
    out |= {key: result[key] for key in ("epochs", "flop", "flop_by_stage", "images")}
    test, holdout = result.get("test"), result.get("holdout")
    out |= {
        "last": None if test is None else test["raw"]["last"],
        "ema": None if test is None else test["ema"]["last"],
        "best": None if test is None else test["ema"]["best"],
        "holdout": None if holdout is None else holdout["ema"]["last"],
    }
    if test is not None and "mirrored" in test:
        out["mirrored"] = test["mirrored"]["last"]  # of EMA, as the run predicts: with mirror images
    return out | ({"stopped": result["stopped"]} if "stopped" in result else {})


def curves_csv(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Accuracies (%) and FLOP so far of every evaluated epoch."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, lines in curves.items():
        for line in lines:
            if "test" in line or "holdout" in line:
                splits = (line.get("test", {}), line.get("holdout", {}))
                found = [split.get(weights, "") for split in splits for weights in ("ema", "raw")]
                writer.writerow([name, line["epoch"], line["stage"], line["flop"], *found])
    return text.getvalue()
