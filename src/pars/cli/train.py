"""`pars train`: preset < configuration file < flags."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from pars import methods, report, run
from pars.cli.flags import Parser, fields_as_flags
from pars.cli.output import add_json_flag, show, stoppable
from pars.cli.streams import say
from pars.engine import resolve_device, watcher
from pars.errors import UserError
from pars.noise import NoiseConfig


def parser() -> Parser:
    out = Parser(prog="pars train", add_help=False, allow_abbrev=False)
    out.add_argument("--preset", metavar="NAME", help=f"{', '.join(run.PRESETS)} (default: digits)")
    out.add_argument("--config", metavar="FILE", type=Path, help="TOML laid over the preset")
    out.add_argument("--method", metavar="NAME", help=f"{', '.join(methods.REGISTRY)} (default: the preset's own)")
    out.add_argument("--out", metavar="FOLDER", type=Path, help="the run's folder (default: runs/PRESET-TIME)")
    add_json_flag(out)
    return out


def resolve(options: argparse.Namespace, flags: Sequence[str]) -> run.RunConfig:
    """The whole configuration. A preset depends on the noise, so flags are read twice: first for the noise alone."""
    recipe = run.preset(options.preset or "digits")

    def read(noise: NoiseConfig) -> run.RunConfig:
        base = recipe(noise, options.method)
        if options.config is not None:
            base = run.read_toml(options.config, base)
        return parse_flags(base, flags)

    config = read(read(NoiseConfig()).noise)
    if options.method is not None and type(config.method) is not type(methods.by_name(options.method)):
        raise UserError(f"--method is {options.method}, but {options.config} chooses {type(config.method).__name__}")
    return config


def parse_flags(base: run.RunConfig, flags: Sequence[str]) -> run.RunConfig:
    """Any field as a flag."""
    about = "Train a classifier on noisy labels.\n\n" + parser().format_help().split("options:", 1)[-1]
    return fields_as_flags(run.RunConfig, prog="pars train", args=flags, default=base, description=about)


def command(args: Sequence[str]) -> int:
    options, flags = parser().parse_known_args(args)
    config = resolve(options, flags)
    name = options.preset or (options.config.stem if options.config else "digits")
    out = options.out or Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"

    device = resolve_device(config.device)
    say(f"{name}: {config.data.name}, {config.train.epochs} epochs on {device}; the run goes to {out}")

    def work() -> int:
        result = run.train(config, out, watcher=watcher(), title=name)
        say(f"run saved in {out}")
        show(options.json, {"run": str(out), **result}, lambda: report.overview(report.read_run(out)))
        return 0

    return stoppable(work, out)
