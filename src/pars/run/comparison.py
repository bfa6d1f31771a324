"""`pars compare` without the command: methods at equal, counted cost; a table, curves and a plot of what was run.

Each method trains in a folder of its own, all with the same rows, views, network and budget. Finished runs are kept.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pars import report
from pars.engine import Callback, RunFolder, write_text
from pars.errors import Diverged, UserError
from pars.files import remove_halves
from pars.run.config import RunConfig
from pars.run.train import Log, build_trainer, canonical, check_same_configuration, train_or_resume
from pars.run.training_data import load_training_data

COLUMNS = ("method", "epoch", "stage", "flop", "test_ema", "test_raw", "holdout_ema", "holdout_raw")


@dataclass(frozen=True)
class ComparedRun:
    """A method by name, its configuration, and the folder that it trains in."""

    name: str
    config: RunConfig
    out: Path


def check_runs(runs: Sequence[ComparedRun], rate_open: Collection[str] = ()) -> None:
    """Refuse, before anything is trained, folders that hold something else and methods that cannot run as asked.

    `rate_open` names methods whose learning rate is not chosen yet.
    """
    new = []
    for each in runs:
        folder = RunFolder(each.out)
        if folder.config.exists():
            check_same_configuration(folder, each.config, ignore=["train.lr"] if each.name in rate_open else ())
        else:
            folder.check_free()
            new.append(each)
    if not new:
        return
    training = load_training_data(canonical(new[0].config))  # the rows are the same for all
    for each in new:
        try:
            build_trainer(each.config, training, None)
        except UserError as error:
            raise UserError(f"{each.name}: {error}") from error


def train_all(
    runs: Sequence[ComparedRun], progress: Callable[[], Callback] | None = None, log: Log = lambda line: None
) -> dict[str, dict[str, Any] | None]:
    """Train or resume one after the other: the result of each by name, None where it diverged."""
    results: dict[str, dict[str, Any] | None] = {}
    for each in runs:
        callback = None if progress is None else progress()
        try:
            trained = train_or_resume(
                each.config, each.out, callback=callback, title=each.name, log=_with_name(each.name, log)
            )
            results[each.name] = trained.result
        except Diverged as error:
            log(f"{each.name}: {error}")
            results[each.name] = None
            each.out.mkdir(parents=True, exist_ok=True)  # in its first epoch it leaves nothing: this says it was tried
    return results


def _with_name(name: str, log: Log) -> Log:
    return lambda line: log(f"{name}: {line}")


def check_comparison(out: Path, about: Mapping[str, Any]) -> None:
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


def write_comparison(
    runs: Sequence[ComparedRun],
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
    curves = {each.name: RunFolder(each.out).read_metrics() for each in runs if results[each.name] is not None}
    table = {**about, "runs": [_row(each, results[each.name]) for each in runs]}
    files = [out / "compare.json", out / "curves.csv"]
    remove_halves(out)
    for path, text in zip(files, (json.dumps(table, indent=1) + "\n", _curves_csv(curves)), strict=True):
        write_text(path, text)
    with suppress(report.NothingToPlot):
        plot = out / f"accuracy-over-flop.{kind}"
        report.accuracy_over_flop(curves, plot, title=title)
        files.append(plot)
    return table, files


def _row(compared: ComparedRun, result: Mapping[str, Any] | None) -> dict[str, Any]:
    """One method's numbers: accuracies in per cent, none where not measured. `best` is picked by the test set."""
    train = compared.config.train
    out: dict[str, Any] = {"method": compared.name, "lr": train.lr, "budget": train.budget, "run": str(compared.out)}
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


def _curves_csv(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
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
