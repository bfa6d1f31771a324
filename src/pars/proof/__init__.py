"""Whether robust training helped, on the user's own data: `pars fit`, `pars selftest`."""

from pars.proof.fit import Proof, fit
from pars.proof.gain import Gain, despite_noise, gain
from pars.proof.prepare import ROWS, learn, save_rows
from pars.proof.selftest import Found, flipped, judge

__all__ = ["ROWS", "Found", "Gain", "Proof", "despite_noise", "fit", "flipped", "gain", "judge", "learn", "save_rows"]
