"""Whether robust training helped, on the user's own data."""

from __future__ import annotations

from pars.proof.gain import Gain, despite_noise, gain

__all__ = ["Gain", "despite_noise", "gain"]
