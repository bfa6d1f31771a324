"""The plan of a run with a budget: made when it begins, stored in its folder, read when it is resumed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from torch import nn

from pars.engine import Plan, RunFolder, plan
from pars.errors import UserError
from pars.run import inputs, toml
from pars.run.config import RunConfig
from pars.run.training_data import TrainingData


def planned(config: RunConfig, training: TrainingData, networks: Sequence[nn.Module]) -> tuple[RunConfig, Plan]:
    """The configuration with the epochs that its budget buys, and the plan."""
    made = plan(
        method=config.method,
        data=training.data,
        networks=networks,
        views=training.views,
        config=config.train,
        held_out=training.held_out,
    )
    return replace(config, method=made.method, train=replace(config.train, epochs=made.epochs)), made


def differences(config: RunConfig, found: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Values (asked for, found) by key where a run's configuration differs; what a budget chooses may differ."""
    asked, there = (dict(inputs.flat(toml.to_dict(each))) for each in (config, found))
    out = inputs.differences(asked, there)
    if config.train.budget and found.train.budget:
        chosen = {"train.epochs"}
        if (free := config.method.free_length) is not None:
            chosen.add(f"method.{free.epochs}")
        out = {key: both for key, both in out.items() if key not in chosen}
    return out


def sentence(made: Plan, budget: float) -> str:
    """What a budget in PFLOP buys, in words."""
    stages = ", ".join(f"{stage.stage} {stage.epochs}" for stage in made.stages)
    return f"a budget of {budget:g} PFLOP buys {made.epochs} epochs ({stages}): {made.flop / 1e15:.3g} PFLOP"


def dumps(made: Plan) -> str:
    """The text of plan.json."""
    return json.dumps({"flop": made.flop, "stages": [asdict(stage) for stage in made.stages]}, indent=2) + "\n"


def read(folder: RunFolder, epochs: int) -> tuple[float, ...]:
    """The expected FLOP of each epoch of a run of so many, from the plan in its folder."""
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
