"""`pars demo`: what wrong labels do to plain training, and what PARS does about it, in two minutes."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Group

from pars import report, run
from pars.cli.flags import Parser, add_json_flag
from pars.cli.output import say, show
from pars.engine import Interrupted, RunFolder, show_progress
from pars.errors import UserError
from pars.files import expanded
from pars.noise import NoiseConfig

ROWS = {"ce": "plain training (cross-entropy)", "warmup": "robust loss only (PARS' warm-up)", "pars": "PARS"}


def command(args: Sequence[str]) -> int:
    parser = Parser(
        prog="pars demo", description="Plain training, the robust loss alone and PARS on digits with wrong labels."
    )
    parser.add_argument("--rate", type=float, default=0.5, help="share of labels replaced by a random one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="of each of the three runs (default: the digits preset's)")
    parser.add_argument("--out", type=expanded, help="keep the runs and the plot here (default: a temporary folder)")
    add_json_flag(parser)
    options = parser.parse_args(args)
    configs = {method: configure(method, options) for method in ROWS}  # before any folder is made
    if options.out is not None and options.out.exists() and not options.out.is_dir():
        raise UserError(f"{options.out} is a file, expected a folder for the runs")
    if options.out is not None and options.out.exists() and any(options.out.iterdir()):
        raise UserError(f"{options.out} is not empty; choose another --out")
    out = options.out or Path(tempfile.mkdtemp(prefix="pars-demo-"))
    try:
        return compare(configs, out, options)
    except (Interrupted, KeyboardInterrupt) as stop:
        say(f"stopped; the runs so far are in {out}")
        return stop.exit_code if isinstance(stop, Interrupted) else 130


def configure(method: str, options: argparse.Namespace) -> run.RunConfig:
    config = run.preset("digits")(NoiseConfig(kind="symmetric", rate=options.rate), method)
    epochs = config.train.epochs if options.epochs is None else options.epochs
    return replace(config, seed=options.seed, train=replace(config.train, epochs=epochs))


def compare(configs: dict[str, run.RunConfig], out: Path, options: argparse.Namespace) -> int:
    results: dict[str, dict[str, Any]] = {}
    for method, config in configs.items():
        results[method] = run.train(config, out / method, callback=show_progress(), title=method)
    plot = out / "demo.svg"
    curves = {ROWS[method]: RunFolder(out / method).read_metrics() for method in ROWS}
    title = f"8×8 digits, {100 * options.rate:.0f} % of the labels random"
    report.comparison(curves, plot, title=title)
    accuracies = {m: {key: r["test"]["ema"][key] for key in ("best", "last", "last10")} for m, r in results.items()}
    show(options.json, accuracies, lambda: outcome(results, title))
    say(
        f"plot: {plot}\nruns: {out} (try `pars inspect {out / 'pars'}`)\n"
        f"Look at the suspect labels and fix them: pars review {out / 'pars'}"
    )
    return 0


def outcome(results: dict[str, dict[str, Any]], title: str) -> Group:
    """The table and one sentence that says what it means."""
    last = {method: result["test"]["ema"]["last"] for method, result in results.items()}
    gain = last["pars"] - last["ce"]
    sentence = f"PARS ends at {last['pars']:.1f} % on unseen digits, {gain:+.1f} points against plain training."
    table = report.comparison_table({ROWS[method]: result for method, result in results.items()})
    table.title = f"{title}: test accuracy on clean labels"
    return Group(table, sentence)
