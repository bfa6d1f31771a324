"""`python -m pars`: the command without its script."""

import sys

from pars.cli import main

if __name__ == "__main__":
    sys.exit(main())
