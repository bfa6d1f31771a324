"""Several methods at equal, counted cost: `pars compare` without the command."""

from pars.compare.contest import Contender, check, run_all
from pars.compare.files import check_files, write_files
from pars.compare.search import search

__all__ = ["Contender", "check", "check_files", "run_all", "search", "write_files"]
