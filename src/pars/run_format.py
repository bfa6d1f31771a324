"""The version of the files in a run folder, and which versions this one can read.

`inputs.json` carries it under the key "format". Folders written before it did are of version 1.
"""

from __future__ import annotations

import json
from pathlib import Path

from pars.errors import UserError

VERSION = 2
INPUTS = "inputs.json"


def check_run_format(folder: Path) -> None:
    """Raise a UserError unless the run in a folder was written in the format that this version reads."""
    path = folder / INPUTS
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing: it says which version of pars wrote the run, and on which data") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error!r}") from error
    found = content.get("format", 1) if isinstance(content, dict) else None
    if type(found) is not int or found < 1:
        raise UserError(f"{path} is damaged: format is {found!r}, expected a whole number")
    if found != VERSION:
        written, mend = ("an older", "train it again") if found < VERSION else ("a newer", "upgrade pars")
        raise UserError(
            f"{folder} was written by {written} version of pars: run format {found}, this one reads {VERSION}; {mend}"
        )
