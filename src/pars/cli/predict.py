"""`pars predict RUN DATA`: CSV of row, label, confidence."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pars import data, run
from pars.cli.flags import Parser
from pars.cli.output import add_json_flag
from pars.errors import UserError
from pars.files import write_text


def command(args: Sequence[str]) -> int:
    parser = Parser(prog="pars predict", description="Labels and confidences for rows, as CSV.")
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("data", help="a data set's name (its test rows), or a .npz or .npy file")
    parser.add_argument("--out", type=Path, help="write here instead of to stdout")
    parser.add_argument("--root", help="folder of the data sets")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add_json_flag(parser)
    options = parser.parse_args(args)
    check_out(options.out)
    classifier = run.load_run(options.run, device=options.device)
    rows = data.load_rows(options.data, root=options.root, labels=False)
    confidence, label = classifier.predict_proba(rows.inputs, options.data).max(dim=1)
    predictions = list(zip(label.tolist(), confidence.tolist(), strict=True))
    if options.json:
        text = json.dumps(
            [{"row": row, "label": classifier.classes[k], "confidence": p} for row, (k, p) in enumerate(predictions)]
        )
    else:
        text = as_csv([(row, classifier.classes[k], f"{p:.6f}") for row, (k, p) in enumerate(predictions)])
    if options.out is None:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    else:
        write_text(options.out, text)
    return 0


def check_out(out: Path | None) -> None:
    """Before the work, not after it."""
    if out is not None and out.is_dir():
        raise UserError(f"--out {out} is a folder, expected a file to write")
    if out is not None and not out.parent.is_dir():
        raise UserError(f"--out {out}: the folder {out.parent} does not exist")


def as_csv(rows: list[tuple[int, str, str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("row", "label", "confidence"))
    writer.writerows(rows)
    return text.getvalue()
