"""Whether robust training helped, on the user's own data: `pars fit`, `pars selftest`."""

from pars.proof.fit import Proof, audited, fit
from pars.proof.gain import Gain, despite_noise, gain
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
