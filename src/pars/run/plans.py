"""A budget's plan: made when a run begins, kept beside its configuration, read when it goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace

from torch import nn

from pars.engine import Plan, RunFolder, plan
from pars.errors import UserError
from pars.run.config import RunConfig
from pars.run.prepare import Prepared


def make(config: RunConfig, prepared: Prepared, networks: Sequence[nn.Module]) -> Plan:
    return plan(
        method=config.method,
        data=prepared.data,
        networks=networks,
        views=prepared.views,
        config=config.train,
        held_out=prepared.held_out,
    )


def applied(config: RunConfig, made: Plan) -> RunConfig:
    """The configuration with the epochs and the warm-up of its plan."""
    return replace(config, method=made.method, train=replace(config.train, epochs=made.epochs))


def in_shares(config: RunConfig) -> RunConfig:
    """The configuration with its method's lengths as shares of its epochs: for a run of another length."""
    return replace(config, method=config.method.in_shares(config.train.epochs))


def asked(config: RunConfig, found: RunConfig) -> RunConfig:
    """`found` with what its budget chose as in `config`: equal to that, if it was trained for it."""
    names = {
        name
        for name, value in vars(config.method).items()
        if value is None and f"{name}_share" in vars(config.method) and name in vars(found.method)
    }
    method = replace(found.method, **dict.fromkeys(names))
    return replace(found, method=method, train=replace(found.train, epochs=config.train.epochs))


def sentence(made: Plan, budget: float) -> str:
    stages = ", ".join(f"{stage.stage} {stage.epochs}" for stage in made.stages)
    return f"a budget of {budget:g} PFLOP buys {made.epochs} epochs ({stages}): {made.flop / 1e15:.3g} PFLOP"


def dumps(made: Plan) -> str:
    """The text of plan.json."""
    return json.dumps({"flop": made.flop, "stages": [asdict(stage) for stage in made.stages]}, indent=2) + "\n"


def read(folder: RunFolder, epochs: int) -> tuple[float, ...]:
    """What each epoch of a run of so many is expected to cost."""
    try:
        stages = json.loads(folder.plan.read_text(encoding="utf-8"))["stages"]
        lengths, costs = [stage["epochs"] for stage in stages], [stage["usual"] for stage in stages]
        if all(type(n) is int and n > 0 for n in lengths) and all(type(flop) is float for flop in costs):
            planned = tuple(flop for n, flop in zip(lengths, costs, strict=True) for _ in range(min(n, epochs + 1)))
            if len(planned) == epochs:
                return planned
    except FileNotFoundError:
        raise UserError(f"{folder.plan} is missing: it says what the run's budget was planned for") from None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{folder.plan} is damaged: {error!r}") from error
    raise UserError(f"{folder.plan} is damaged: expected what the {epochs} epochs of the run cost")
