"""Settings chosen from the data: rules, short trials, and what the user set. `fitting` uses it for every training."""

from pars.autoconfig.configure import DEFAULTS, configurations, held_out_share
from pars.autoconfig.trial import choose

__all__ = ["DEFAULTS", "choose", "configurations", "held_out_share"]
