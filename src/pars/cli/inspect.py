"""`pars inspect RUN`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pars import report
from pars.classic import is_classic_folder
from pars.cli.flags import Parser, add_json_flag
from pars.cli.output import say, show
from pars.files import expanded
from pars.fit_folder import run_of


def command(args: Sequence[str]) -> int:
    parser = Parser(
        prog="pars inspect", description="What a run trained, its curves and its selection; writes its plots."
    )
    parser.add_argument("run", type=expanded, help="the run's folder, or that of `pars fit`")
    parser.add_argument("--plots", type=expanded, help="folder for the plots (default: RUN/plots)")
    parser.add_argument("--format", choices=("svg", "png"), default="svg")
    add_json_flag(parser)
    options = parser.parse_args(args)
    if is_classic_folder(run_of(options.run)):
        found = classic_summary(run_of(options.run))
        show(options.json, found, lambda: "\n".join(f"{name}: {value}" for name, value in found.items()))
        return 0
    run = report.read_run(run_of(options.run))
    folder = options.plots or run_of(options.run) / "plots"
    for path in report.write_plots(run, folder, options.format):
        say(f"wrote {path}")
    show(options.json, report.summary(run), lambda: report.overview(run))
    return 0


def classic_summary(folder: Path) -> dict[str, Any]:
    """What is known of a method without a network; it has no epochs, so it has no curves and no plots."""
    from dataclasses import asdict

    from pars.classic import load_fit  # torch

    fit = load_fit(folder)
    labeled, predicted = fit.given >= 0, fit.probabilities.argmax(axis=1)
    trained, held_out = labeled & ~fit.held_out, labeled & fit.held_out
    out: dict[str, Any] = {
        "run": str(folder),
        "method": fit.name,
        "settings": asdict(fit.settings),  # type: ignore[call-overload]
        "rows": len(fit.given),
        "labeled": int(labeled.sum()),
        "classes": len(fit.classifier.classes),
        "out_of_fold_agreement": round(100 * float((predicted == fit.given)[trained].mean()), 2),
    }
    if held_out.any():
        out["held_out_agreement"] = round(100 * float((predicted == fit.given)[held_out].mean()), 2)
    return out
