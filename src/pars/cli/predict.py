"""`pars predict RUN DATA`: CSV of row, label, confidence."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pars import fitting
from pars.cli.flags import Parser, add_json_flag, add_new_rows_flags, new_rows_options
from pars.errors import UserError
from pars.files import expanded, write_text
from pars.spreadsheet import csv_lines


def command(args: Sequence[str]) -> int:
    parser = Parser(prog="pars predict", description="Labels and confidences for rows, as CSV.")
    parser.add_argument("run", type=expanded, help="the run's folder, or that of `pars fit`")
    parser.add_argument(
        "data", help="a data set's name (its test rows), a .npz or .npy file; after `pars fit` also a table or images"
    )
    parser.add_argument("--out", type=expanded, help="write here instead of to stdout")
    add_new_rows_flags(parser)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add_json_flag(parser)
    options = parser.parse_args(args)
    check_out(options.out)
    predictor = fitting.load_predictor(options.run, device=options.device, encoder=options.encoder)
    rows = predictor.read(options.data, **new_rows_options(options))
    p = predictor.probabilities(rows, options.data)
    lines = predictions(p.argmax(axis=1).tolist(), p.max(axis=1).tolist(), predictor.model.classes, rows.ids)
    text = json.dumps(lines) if options.json else as_csv(lines)
    if options.out is None:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    else:
        write_text(options.out, text)
    return 0


def predictions(
    labels: list[int], confidences: list[float], classes: tuple[str, ...], ids: tuple[str, ...] | None
) -> list[dict[str, Any]]:
    """One line per row; with a name where the rows have names."""
    return [
        {"row": row, **({} if ids is None else {"id": ids[row]}), "label": classes[k], "confidence": p}
        for row, (k, p) in enumerate(zip(labels, confidences, strict=True))
    ]


def check_out(out: Path | None) -> None:
    """Before the work, not after it."""
    if out is not None and out.is_dir():
        raise UserError(f"--out {out} is a folder, expected a file to write")
    if out is not None and not out.parent.is_dir():
        raise UserError(f"--out {out}: the folder {out.parent} does not exist")


def as_csv(lines: list[dict[str, Any]]) -> str:
    rows = ([*list(line.values())[:-1], f"{line['confidence']:.6f}"] for line in lines)
    return "".join(csv_lines([list(lines[0]), *rows]))
