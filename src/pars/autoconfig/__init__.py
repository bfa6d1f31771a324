"""Settings chosen from the data: rules, short trials, and what the user set. The estimators and `pars fit` use it."""

from pars.autoconfig.configure import DEFAULTS, configurations
from pars.autoconfig.trial import Watch, choose

__all__ = ["DEFAULTS", "Watch", "choose", "configurations"]
