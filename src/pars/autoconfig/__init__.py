"""Settings chosen from the data: rules, short trials, and what the user set. `fitting` uses it for every training."""

from pars.autoconfig.configure import DEFAULTS, NetworkFactory, Progress, choose, configurations, pixel_side

__all__ = ["DEFAULTS", "NetworkFactory", "Progress", "choose", "configurations", "pixel_side"]
