"""`pars COMMAND …`: picks the command, and turns a user's mistake into one line and exit code 2."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence

from pars import __version__
from pars.cli.output import give_up_stdout, open_streams, printable, say
from pars.errors import UserError

COMMANDS = {
    "demo": "cross-entropy, the robust loss and PARS on digits with half of the labels wrong",
    "train": "train from a preset, a TOML file and flags",
    "fit": "train on a table, list its wrong labels, and say whether robust training helped",
    "selftest": "flip some of a table's labels on purpose, and see how many are found",
    "compare": "compare methods on the same data at equal, counted cost: a table and accuracy over FLOP",
    "bench": "run the paper's tables at a stated scale, tune, report; published numbers beside ours",
    "resume": "resume a run that was interrupted",
    "evaluate": "accuracy of a run's network on labeled rows",
    "predict": "labels and confidences for rows, as CSV",
    "audit": "which labels of a run's data are wrong, and what they should be; writes the list",
    "review": "look at suspect labels in the browser and fix them; writes your corrected table",
    "report": "one HTML file that says all of it: whether it helped, wrong labels, curves, settings",
    "inspect": "what a run trained, its curves and its selection; writes the plots",
    "encode": "frozen features of texts and images, with views of every row, to train on",
    "pack": "images of a folder, a table or a .tar into one file that training reads at random",
    "methods": "list the methods: papers, requirements, relative cost",
    "augment-preview": "a contact sheet of weak and strong views of some images",
    "completion": "a script that completes commands and flags in bash, zsh or fish",
}
SHARED = ("train", "resume", "encode")  # among the processes that torchrun starts; others would do all of it in each
OUTPUT_FAILED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    return f"pars {__version__}: accurate classifiers from wrong labels\n\nusage: pars COMMAND [--help]\n\n{lines}\n"


def _version() -> str:
    """The version, with the commit that the package was built from; a source tree has none written into it."""
    try:
        commit = importlib.import_module("pars._commit").COMMIT
    except ModuleNotFoundError:
        return __version__
    return f"{__version__} ({commit})"


def main(argv: Sequence[str] | None = None) -> int:
    args = list(sys.argv[1:] if argv is None else argv)
    program = f"pars {args[0]}" if args and args[0] in COMMANDS else "pars"
    open_streams()
    try:
        if not args or args[0] in ("-h", "--help"):
            print(usage())
            code = 0 if args else 2
        elif args[0] == "--version":
            print(_version())
            code = 0
        elif args[0] not in COMMANDS:
            raise UserError(f"unknown command {args[0]!r}; there are: {', '.join(COMMANDS)}")
        elif args[0] not in SHARED and "RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1":
            raise UserError(f"it runs in one process, without torchrun; several share {', '.join(SHARED)}")
        else:
            # Imported here: `pars --help` must not wait for torch.
            module = importlib.import_module(f"pars.cli.{args[0].replace('-', '_')}")
            try:
                code = int(module.command(args[1:]))
            except SystemExit as leaving:  # --help: the text is still in a buffer
                code = int(leaving.code or 0)
        sys.stdout.flush()  # here, where an error can still be reported
        return code
    except UserError as error:
        rank = os.environ.get("RANK", "0")  # of the processes that torchrun started
        say(printable(f"{program}: {'' if rank == '0' else f'rank {rank}: '}{error}"))
        return 2
    except KeyboardInterrupt:
        # Training that has begun is stopped, and reported, elsewhere.
        trains = program in ("pars train", "pars resume", "pars demo")
        say(f"{program}: stopped" + (" before training began" if trains else ""))
        return 130
    except BrokenPipeError:
        give_up_stdout()  # `pars predict … | head`: nobody listens any more
        return 141
    except OSError as error:
        # A folder that may not be written, a file that vanished, a full disk: the user's to mend.
        if error.filename is None and error.errno in OUTPUT_FAILED:
            give_up_stdout()
            say(f"{program}: cannot write the output: {error.strerror}")
        elif error.filename is not None:
            say(printable(f"{program}: {error.filename}: {error.strerror}"))
        else:
            raise
        return 2
