"""`pars train`: preset < configuration file < flags."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pars import engine, methods, report, run
from pars.classic import check_has_epochs
from pars.cli.flags import Parser, add_json_flag, fields_as_flags
from pars.cli.output import say, show, stoppable
from pars.engine import show_progress
from pars.errors import UserError
from pars.files import expanded
from pars.noise import NoiseConfig


def parser() -> Parser:
    out = Parser(prog="pars train", add_help=False, allow_abbrev=False)
    out.add_argument("--preset", metavar="NAME", help=f"{', '.join(run.PRESETS)} (default: digits)")
    out.add_argument("--config", metavar="FILE", type=expanded, help="TOML file that overrides the preset")
    out.add_argument("--method", metavar="NAME", help=f"{', '.join(methods.REGISTRY)} (default: the preset's own)")
    out.add_argument("--out", metavar="FOLDER", type=expanded, help="the run's folder (default: runs/PRESET-TIME)")
    out.add_argument(
        "--budget",
        metavar="PFLOP",
        type=float,
        help="training budget: sets the epochs, and the network of fast presets (as --train.budget)",
    )
    out.add_argument(
        "--labels",
        metavar="FILE",
        help="labels.csv of a review: corrected labels, and rows to leave out (as --data.labels)",
    )
    add_json_flag(out)
    return out


def help_text(own: Parser, about: str) -> str:
    """What a command does, and its own options; those of all fields follow."""
    return f"{about}\n\n" + own.format_help().split("options:", 1)[-1]


def resolve(
    options: argparse.Namespace,
    flags: Sequence[str],
    *,
    about: str = "",
    prog: str = "pars train",
    same_views: bool = False,
) -> run.RunConfig:
    """The whole configuration. A preset depends on noise and budget, so flags are read twice: first for these alone.

    With a budget, lengths in epochs are the user's, or none: those of a recipe are meant for its own number of epochs.
    With `same_views` views are the preset's own for any method.
    """
    if options.method is not None:
        check_has_epochs(options.method)

    def read(noise: NoiseConfig, budget: float = 0.0) -> run.RunConfig:
        recipe = run.preset("digits" if options.preset is None else options.preset, budget)
        base = recipe(noise, options.method)
        if same_views:
            base = replace(base, views=recipe(noise).views)
        if options.config is not None:
            base = run.read_toml(options.config, base)
        config = fields_as_flags(run.RunConfig, prog=prog, args=flags, default=base, description=about)
        if options.budget is None:
            return config
        return replace(config, train=replace(config.train, budget=options.budget))

    first = read(NoiseConfig())
    config = read(first.noise, first.train.budget)
    if options.method is not None and type(config.method) is not type(methods.by_name(options.method)):
        raise UserError(f"--method is {options.method}, but {options.config} chooses {type(config.method).__name__}")
    return config


def command(args: Sequence[str]) -> int:
    options, flags = parser().parse_known_args(args)
    about = help_text(parser(), "Train a classifier on noisy labels.")
    config = resolve(options, flags, about=about)
    if options.labels is not None:
        config = replace(config, data=replace(config.data, labels=str(Path(options.labels).resolve())))
    name = options.preset or (options.config.stem if options.config else "digits")
    out = options.out or Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"

    device = engine.resolve_device(config.device)
    with engine.joined(device) as processes:
        return _train(config, name, Path(processes.broadcast(str(out))), device, processes, as_json=options.json)


def _train(
    config: run.RunConfig, name: str, out: Path, device: str, processes: engine.Processes, *, as_json: bool
) -> int:
    budget = config.train.budget
    length = f"a budget of {budget:g} PFLOP" if budget else f"{config.train.epochs} epochs"
    where = device if processes.size == 1 else f"{processes.size} processes ({device})"
    log = say if processes.is_first else (lambda line: None)
    log(f"{name}: {config.data.name}, {length} on {where}; the run goes to {out}")

    def work() -> int:
        callback = show_progress() if processes.is_first else None
        result = run.train(config, out, callback=callback, title=name, log=log, processes=processes)
        if not processes.is_first:
            return 0
        spent = report.format_flop(result["flop"], result["flop_by_stage"], budget)
        say(f"run saved in {out}: {result['epochs']} epochs, {spent}")
        show(as_json, {"run": str(out), **result}, lambda: report.overview(report.read_run(out)))
        return 0

    return stoppable(work, out)
