"""Each method in a folder of its own, all with the same rows, views, network and budget; finished ones stay."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pars import run
from pars.engine import Callback, RunFolder
from pars.errors import Diverged, UserError
from pars.run import RunConfig

Log = Callable[[str], None]


@dataclass(frozen=True)
class Contender:
    """A method by name, its configuration as asked for, and where it trains."""

    name: str
    config: RunConfig
    out: Path


def check(contenders: Sequence[Contender], rate_open: Collection[str] = ()) -> None:
    """Refuse, before anything is trained: folders that hold something else, and methods that cannot run as asked.

    `rate_open` names methods whose learning rate is not known yet.
    """
    fresh = []
    for each in contenders:
        if RunFolder(each.out).config.exists():
            check_same(each, rate_open=each.name in rate_open)
        else:
            RunFolder(each.out).check_free()
            fresh.append(each)
    if not fresh:
        return
    prepared = run.prepare(run.normal(fresh[0].config))  # rows are the same for all
    for each in fresh:
        try:
            run.build(each.config, prepared, None)
        except UserError as error:
            raise UserError(f"{each.name}: {error}") from error


def check_same(contender: Contender, *, rate_open: bool = False) -> None:
    """A folder that was trained in before is gone on with only if it holds the run that is asked for."""
    _, found = run.open_run(contender.out)
    for key, (asked, there) in run.differences(run.normal(contender.config), found).items():
        if not (rate_open and key == "train.lr"):
            raise UserError(
                f"{contender.out} holds a run with {key} = {there!r}, not {asked!r} as asked for; choose another --out"
            )


def run_all(
    contenders: Sequence[Contender], watch: Callable[[], Callback] | None = None, log: Log = lambda line: None
) -> dict[str, dict[str, Any] | None]:
    """Train, or go on with, one after the other; the result of each by name, none where it diverged."""
    results: dict[str, dict[str, Any] | None] = {}
    for each in contenders:
        callback = None if watch is None else watch()
        try:
            if RunFolder(each.out).config.exists():
                check_same(each)  # another process may have begun it meanwhile
                results[each.name] = run.resume(each.out, callback=callback, title=each.name)
            else:
                say = say_about(each.name, log)
                results[each.name] = run.train(each.config, each.out, callback=callback, title=each.name, log=say)
        except Diverged as error:
            log(f"{each.name}: {error}")
            each.out.mkdir(parents=True, exist_ok=True)  # in its first epoch it leaves nothing: this says it was tried
            results[each.name] = None
    return results


def say_about(name: str, log: Log) -> Log:
    return lambda line: log(f"{name}: {line}")
