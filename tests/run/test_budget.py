"""A run with a budget: FLOP counted by stage, the plan kept in its folder, the same after a kill."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pars import run
from pars.engine import RunFolder
from pars.errors import UserError
from pars.methods import PARS, by_name
from pars.methods.joint_optim import JointOptim
from pars.methods.pes import PES
from pars.methods.selfie import SELFIE
from run.helpers import Killed, StopAfter, snapshot, tiny

ROWS, FORWARD = 200, 2 * 64 * 10  # digits, and a linear network's FLOP for one: a product of [1, 64] and [64, 10]
STEP = ROWS * 2 * FORWARD  # and back: the gradient of the weights, none of the inputs
MAIN = 4 * STEP + 3 * ROWS * FORWARD  # one raw batch, three strong ones, three looks of the teacher
CONFIG = tiny(train=replace(tiny().train, budget=(3 * STEP + 3 * MAIN + STEP / 2) / 1e15))


def test_flop_by_stage_is_what_the_passes_of_each_stage_cost(tmp_path: Path) -> None:
    told: list[str] = []
    result = run.train(CONFIG, tmp_path / "run", log=told.append)
    assert result["flop_by_stage"] == {"warm-up": 3 * STEP, "main": 3 * MAIN}
    assert result["flop"] == 3 * STEP + 3 * MAIN
    assert "buys 6 epochs (warm-up 3, main 3)" in told[0]
    lines = RunFolder(tmp_path / "run").read_metrics()
    assert [line["flop_by_stage"] for line in lines[:4]] == [
        *({"warm-up": n * STEP} for n in (1, 2, 3)),
        {"warm-up": 3 * STEP, "main": MAIN},
    ]


def test_the_plan_is_in_the_folder_and_a_killed_run_goes_on_by_it(tmp_path: Path) -> None:
    run.train(CONFIG, tmp_path / "whole")
    with pytest.raises(Killed):
        run.train(CONFIG, tmp_path / "killed", callback=StopAfter(2))
    with pytest.raises(Killed):
        run.resume(tmp_path / "killed", callback=StopAfter(4))
    run.resume(tmp_path / "killed")
    whole, killed = snapshot(tmp_path / "whole"), snapshot(tmp_path / "killed")
    assert killed == whole
    _, config = run.open_run(tmp_path / "killed")
    assert (config.train.epochs, config.method) == (6, PARS(warm_up=3))
    # The same configuration again is the same run.
    run.train(config, tmp_path / "again")
    assert snapshot(tmp_path / "again") == whole


@pytest.mark.parametrize("text", [None, "{}", '{"stages": 3}', '{"stages": [{"epochs": 5, "usual": 1.0}]}'])
def test_a_plan_that_is_missing_or_damaged_is_named(text: str | None, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run.train(CONFIG, tmp_path / "run", callback=StopAfter(1))
    path = tmp_path / "run" / "plan.json"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(UserError, match=r"plan\.json is (missing|damaged)"):
        run.resume(tmp_path / "run")


def test_a_recipe_for_another_number_of_epochs_keeps_its_proportions() -> None:
    assert by_name("pars").in_shares(60) == by_name("pars")  # its lengths are shares already
    assert PARS(warm_up=25).in_shares(100) == PARS(warm_up_share=0.25)
    assert PES(T1=20, T2=28).in_shares(300) == PES(T1_share=20 / 300, T2_share=0.1)
    assert JointOptim(step1=5, update_from=2).in_shares(10) == JointOptim(step1_share=0.5, update_share=0.2)
    assert SELFIE(warm_up=25, restarts=2).in_shares(300) == SELFIE(warm_up_share=0.25, restarts=2)


def test_what_a_budget_chose_is_no_difference_to_what_was_asked_for(tmp_path: Path) -> None:
    asked = run.canonical(CONFIG)
    found = replace(asked, method=PARS(warm_up=3), train=replace(asked.train, epochs=6))
    assert run.differences(asked, found) == {}
    assert run.differences(replace(asked, seed=1), found) == {"seed": (1, 0)}
    given = replace(asked, method=PARS(warm_up=2))
    assert run.differences(given, found) == {"method.warm_up": (2, 3)}
    endless = replace(asked, train=replace(asked.train, budget=0.0))
    assert {"train.budget", "train.epochs"} <= run.differences(endless, found).keys()
    assert json.loads(json.dumps(run.differences(endless, found)))  # plain values
