"""The command `pars`."""

from pars.cli.main import main

__all__ = ["main"]
