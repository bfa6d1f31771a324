"""`pars predict RUN DATA`: CSV of row, label, confidence."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pars import fitting
from pars.cli.flags import Parser, add_json_flag, add_new_rows_flags, new_rows_options
from pars.corrections import source_of_fit
from pars.data import IMAGE_SUFFIXES
from pars.errors import UserError
from pars.files import expanded, write_text
from pars.fit_folder import CONTENT, JOB, RESULT, REVIEW, ROWS
from pars.run_files import FILES, RunFiles
from pars.spreadsheet import csv_lines

BINARY = (*IMAGE_SUFFIXES, ".npz", ".npy", ".parquet", ".pq", ".feather", ".xlsx", ".safetensors", ".onnx", ".sqlite")


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
    if options.out is not None and options.out.suffix.lower() in BINARY:
        raise UserError(f"--out {options.out}: predictions are text, expected a name such as predictions.csv")
    check_out(options.out, expanded(options.data))
    predictor = fitting.load_predictor(options.run, device=options.device, encoder=options.encoder)
    if options.out is not None and options.out.exists():
        trained_on = source_of_fit(options.run)
        check_out(options.out, *([] if trained_on is None else [trained_on.path]))
        if is_part_of(options.run, options.out):
            raise UserError(f"--out {options.out} is a part of {options.run}; choose another name")
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


def is_part_of(run: Path, file: Path) -> bool:
    """Whether a file is one that was written into the folder of a run or a fit to be read again."""
    if not file.resolve().is_relative_to(run.resolve()):
        return False
    folder = file.resolve().parent
    try:
        listed = set(json.loads((folder / FILES).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        listed = set()  # of a run under way, or damaged already
    of_runs = {path.name for path in vars(RunFiles(folder)).values()}
    return file.name in listed | of_runs | {JOB, CONTENT, ROWS, RESULT} or folder.name == REVIEW


def check_out(out: Path | None, *read: Path) -> None:
    """Before the work, not after it. read: the user's files, which must not be written over."""
    if out is not None and out.is_dir():
        raise UserError(f"--out {out} is a folder, expected a file to write")
    if out is not None and not out.parent.is_dir():
        raise UserError(f"--out {out}: the folder {out.parent} does not exist")
    if out is not None and out.exists() and any(path.exists() and out.samefile(path) for path in read):
        raise UserError(f"{out} has the rows themselves and would be lost; choose another name to write to")


def as_csv(lines: list[dict[str, Any]]) -> str:
    rows = ([*list(line.values())[:-1], f"{line['confidence']:.6f}"] for line in lines)
    return "".join(csv_lines([list(lines[0]), *rows]))
