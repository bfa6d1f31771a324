"""`pars evaluate RUN DATA`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pars import run
from pars.cli.fitted_rows import add_rows_flags, read_rows
from pars.cli.flags import Parser
from pars.cli.output import add_json_flag, show
from pars.errors import UserError
from pars.fit_folder import run_of
from pars.lazy import torch


def command(args: Sequence[str]) -> int:
    parser = Parser(prog="pars evaluate", description="Accuracy of a run's network on labeled rows.")
    parser.add_argument("run", type=Path, help="the run's folder, or that of `pars fit`")
    parser.add_argument(
        "data",
        help="labeled: a data set's name (its test rows), a .npz file; after `pars fit` a table or pictures, too",
    )
    add_rows_flags(parser, label=True)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add_json_flag(parser)
    options = parser.parse_args(args)
    from pars.engine import accuracy  # imports torch: after --help

    classifier = run.load_run(run_of(options.run), device=options.device)
    rows = read_rows(options, classifier.classes)  # names get the run's numbers
    labels = torch.from_numpy(rows.labels)
    if not (labels >= 0).any():
        raise UserError(f"{options.data} has no labels to compare with; `pars predict` needs none")
    if int(labels.max()) >= len(classifier.classes):
        raise UserError(
            f"{options.data} has label {int(labels.max())}, the run knows classes 0 to {len(classifier.classes) - 1}"
        )
    probabilities = classifier.predict_proba(rows.inputs, options.data)
    per_class = {
        name: accuracy(probabilities[labels == index], labels[labels == index])
        for index, name in enumerate(classifier.classes)
        if (labels == index).any()
    }
    result = {"rows": int((labels >= 0).sum()), "accuracy": accuracy(probabilities, labels), "per_class": per_class}
    show(options.json, result, lambda: text(result))
    return 0


def text(result: dict[str, object]) -> str:
    per_class = result["per_class"]
    assert isinstance(per_class, dict)
    lines = [f"accuracy {result['accuracy']:.2f} % of {result['rows']} rows"]
    return "\n".join(lines + [f"  {name}: {value:.2f} %" for name, value in per_class.items()])
