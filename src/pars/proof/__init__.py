"""Whether robust training helped, on the user's own data: `pars fit`, `pars selftest`."""

from typing import TYPE_CHECKING

from pars.lazy_package import import_lazily
from pars.proof.gain import Gain, despite_noise, gain

if TYPE_CHECKING:
    from pars.proof.fit import Proof, audited, fit
    from pars.proof.prepare import content_of, save_rows
    from pars.proof.selftest import Found, flipped, judge

__all__ = [
    "Found",
    "Gain",
    "Proof",
    "audited",
    "content_of",
    "despite_noise",
    "fit",
    "flipped",
    "gain",
    "judge",
    "save_rows",
]

import_lazily(
    __name__,
    {
        "pars.proof.fit": "Proof, audited, fit",
        "pars.proof.prepare": "content_of, save_rows",
        "pars.proof.selftest": "Found, flipped, judge",
    },
)
