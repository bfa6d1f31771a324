"""`pars COMMAND …`: picks the command, and turns a user's mistake into one line and exit code 2."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from pars import __version__
from pars.errors import UserError

COMMANDS = {
    "demo": "plain training, the robust warm-up and PARS side by side on digits with half of the labels wrong",
    "train": "train from a preset, a TOML file and flags",
    "resume": "go on with a run that was stopped",
    "evaluate": "accuracy of a run's network on labelled rows",
    "predict": "labels and confidences for rows, as CSV",
    "inspect": "what a run trained, its curves and its selection; writes the plots",
    "augment-preview": "a picture of what the network sees: weak and strong views of some images",
}


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    return f"pars {__version__}: accurate classifiers from wrong labels\n\nusage: pars COMMAND [--help]\n\n{lines}\n"


def main(argv: Sequence[str] | None = None) -> int:
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in ("-h", "--help"):
        print(usage())
        return 0 if args else 2
    if args[0] == "--version":
        print(__version__)
        return 0
    name, *rest = args
    if name not in COMMANDS:
        print(f"pars: unknown command {name!r}\n\n{usage()}", file=sys.stderr)
        return 2
    # Imported here: `pars --help` must not wait for torch.
    module = importlib.import_module(f"pars.cli.{name.replace('-', '_')}")
    try:
        code = int(module.command(rest))
        sys.stdout.flush()
        return code
    except UserError as error:
        print(f"pars {name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # `pars predict … | head`: nobody listens any more. Else Python complains once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        # A folder that may not be written, a file that vanished: the user's to mend. One without a name is our fault.
        if error.filename is None:
            raise
        print(f"pars {name}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
