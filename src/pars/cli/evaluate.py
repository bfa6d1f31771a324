"""`pars evaluate RUN DATA`."""

from __future__ import annotations

from collections.abc import Sequence

from pars import fitting
from pars.cli.flags import Parser, add_json_flag, add_new_rows_flags, new_rows_options
from pars.cli.output import show
from pars.files import expanded


def command(args: Sequence[str]) -> int:
    parser = Parser(prog="pars evaluate", description="Accuracy of a run's network on labeled rows.")
    parser.add_argument("run", type=expanded, help="the run's folder, or that of `pars fit`")
    parser.add_argument(
        "data",
        help="labeled: a data set's name (its test rows), a .npz file; after `pars fit` a table or images, too",
    )
    add_new_rows_flags(parser, label=True)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add_json_flag(parser)
    options = parser.parse_args(args)
    predictor = fitting.load_predictor(options.run, device=options.device, encoder=options.encoder)
    rows = predictor.read(options.data, labels=True, **new_rows_options(options))
    result = fitting.evaluate(predictor, rows, options.data)
    show(options.json, result, lambda: text(result))
    return 0


def text(result: dict[str, object]) -> str:
    per_class = result["per_class"]
    assert isinstance(per_class, dict)
    lines = [f"accuracy {result['accuracy']:.2f} % of {result['rows']} rows"]
    return "\n".join(lines + [f"  {name}: {value:.2f} %" for name, value in per_class.items()])
