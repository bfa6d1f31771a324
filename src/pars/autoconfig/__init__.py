"""Settings chosen from the data: rules, short trials, and what the user set. `fitting` uses it for every training."""

from pars.autoconfig.configure import DEFAULTS, NetworkFactory, Progress, choose, configurations, pixel_side
from pars.autoconfig.methods import choose_method, name_of, with_first_method

__all__ = [
    "DEFAULTS",
    "NetworkFactory",
    "Progress",
    "choose",
    "choose_method",
    "configurations",
    "name_of",
    "pixel_side",
    "with_first_method",
]
