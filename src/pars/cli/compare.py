"""`pars compare`: several methods at the same counted cost."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from pars import methods, report, run
from pars.classic import check_has_epochs
from pars.cli.flags import Parser, add_json_flag
from pars.cli.output import say, show
from pars.cli.train import help_text, resolve
from pars.engine import Interrupted, show_progress
from pars.errors import UserError
from pars.files import expanded
from pars.noise import NoiseConfig

ABOUT = "Train several methods on the same rows, views and network at the same cost, and compare them."
METHODS = "ce,warmup,elr,mixup,fixmatch,pars"


def parser() -> Parser:
    out = Parser(prog="pars compare", add_help=False, allow_abbrev=False)
    out.add_argument("--preset", metavar="NAME", help=f"{', '.join(run.PRESETS)} (default: digits)")
    out.add_argument("--config", metavar="FILE", type=expanded, help="TOML file that overrides the preset")
    out.add_argument(
        "--methods",
        metavar="NAMES",
        default=METHODS,
        help=f"separated by commas (default: {METHODS}); --NAME.FIELD sets a field of one of them, as --pars.tau 0.8",
    )
    out.add_argument("--budget", metavar="PFLOP", type=float, help="of each run (default: each method's own epochs)")
    out.add_argument("--out", metavar="FOLDER", type=expanded, help="for the runs (default: runs/compare-PRESET)")
    out.add_argument("--lr", metavar="METHOD=RATE", action="append", default=[], help="a method's own; may be repeated")
    out.add_argument("--search-lr", metavar="RATES", help="try these for each other method, by held-out given labels")
    out.add_argument("--search-share", metavar="SHARE", type=float, default=0.25, help="of the budget, for each try")
    out.add_argument("--format", choices=("svg", "png"), default="svg", help="of the plot")
    add_json_flag(out)
    return out


def command(args: Sequence[str]) -> int:
    options, flags = parser().parse_known_args(args)
    preset = options.preset or "digits"
    out: Path = options.out or Path("runs") / f"compare-{preset}"
    runs = compared_runs(options, flags, out)
    rates = parse_rates(options)
    about, title = described(runs[0].config, preset)
    run.check_comparison(out, about)
    given = [text.partition("=")[0] for text in options.lr]
    open_ = [each for each in runs if rates and each.name not in given]
    try:
        run.check_runs(runs, rate_open={each.name for each in open_})
        if open_:
            chosen = run.search_learning_rates(open_, rates, options.search_share, out, show_progress, say)
            found = {each.name: each for each in chosen}
            runs = [found.get(each.name, each) for each in runs]
        say(f"{len(runs)} methods on {runs[0].config.data.name}; the runs go to {out}")
        results = run.train_all(runs, show_progress, say)
    except Interrupted as stop:
        say("Stopped and saved. Run the same command again to resume.")
        return stop.exit_code
    except KeyboardInterrupt:  # between two runs
        say("Stopped. Run the same command again to resume.")
        return 130
    table, files = run.write_comparison(runs, results, about, out, title=title, kind=options.format)
    say(f"wrote {', '.join(map(str, files))}")
    show(options.json, table, lambda: report.budget_table(table["runs"], title=title))
    return 0


def compared_runs(options: argparse.Namespace, flags: Sequence[str], out: Path) -> list[run.ComparedRun]:
    """Each method with its configuration; views are those of the preset, whatever a method's own recipe has."""
    names = [name.strip() for name in options.methods.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise UserError(f"--methods is {options.methods!r}, expected names separated by commas, each once")
    for name in names:
        check_has_epochs(name)
        methods.recipe(name)  # known?
    own = parse_own_rates(options.lr, names)
    runs = []
    for name in names:
        one, own_flags = argparse.Namespace(**{**vars(options), "method": name}), flags_for(name, names, flags)
        try:
            config = resolve(one, own_flags, about=help_text(parser(), ABOUT), prog="pars compare", same_views=True)
        except UserError as error:
            if any(flag.startswith("--method.") for flag in own_flags):  # methods have fields of their own
                raise UserError(f"{name}: {error}") from error
            raise
        if name in own:
            config = replace(config, train=replace(config.train, lr=own[name]))
        runs.append(run.ComparedRun(name, config, out / name))
    return runs


def flags_for(name: str, names: Sequence[str], flags: Sequence[str]) -> list[str]:
    """The flags that are for all, and a method's own as it takes them, without those of the others.

    >>> flags_for("pars", ["ce", "pars"], ["--seed", "1", "--pars.tau", "0.8", "--ce.loss=mae"])
    ['--seed', '1', '--method.tau', '0.8']
    """
    out, mine = [], True
    for text in flags:
        flag = text
        if text.startswith("--"):  # else the value of the flag before it
            owner, dot, field = text.removeprefix("--").partition(".")
            mine = owner == name or owner not in names
            flag = f"--method.{field}" if dot and owner == name else text
        if mine:
            out.append(flag)
    return out


def parse_own_rates(texts: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    """METHOD=RATE of each --lr."""
    found = {}
    for text in texts:
        name, _, rate = text.partition("=")
        if name not in names:
            raise UserError(f"--lr {text}: {name!r} is none of the methods {', '.join(names)}; expected METHOD=RATE")
        found[name] = positive(rate, f"--lr {text}")
    return found


def parse_rates(options: argparse.Namespace) -> list[float]:
    """The rates of --search-lr, ascending."""
    if not 0 < options.search_share <= 1:
        raise UserError(f"--search-share is {options.search_share}, expected a share above 0 and at most 1")
    texts = [] if options.search_lr is None else options.search_lr.split(",")
    rates = sorted({positive(text, f"--search-lr {options.search_lr}") for text in texts})
    for rate, next_ in pairwise(rates):
        if f"{rate:g}" == f"{next_:g}":  # the name of the folder that holds the try
            raise UserError(f"--search-lr {options.search_lr}: {rate} and {next_} are too close together")
    return rates


def positive(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UserError(f"{where}: {text!r} is no learning rate, expected a number above 0")
    return value


def described(config: run.RunConfig, preset: str) -> tuple[dict[str, Any], str]:
    """What all runs share, for the file and in words."""
    noise, budget = config.noise.resolved(), config.train.budget
    about = {"preset": preset, "data": config.data.name, "noise": noise.kind, "rate": noise.rate, "seed": config.seed}
    wrong = "labels as given" if noise.kind == "none" else f"{noise.kind} noise {noise_words(noise)}"
    cost = f", {budget:g} PFLOP each" if budget else ""
    return about | {"budget": budget}, f"{preset}, {wrong}, seed {config.seed}{cost}"


def noise_words(noise: NoiseConfig) -> str:
    return str(noise.labels) if noise.kind == "file" else f"{100 * noise.rate:g} %"
