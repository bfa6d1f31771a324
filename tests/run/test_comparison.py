"""Methods at equal cost: one search for each, finished runs stay, and what is written is what was run."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pars import run
from pars.errors import UserError
from pars.methods import PARS, Supervised, by_name
from pars.run import ComparedRun, RunConfig, search_learning_rates
from pars.run.lr_search import best
from run.helpers import Killed, StopAfter, snapshot, tiny

BUDGET = 1.2e-8  # about 12 passes over 200 digits with a linear network
NAMES = ("ce", "pars")


def config_of(name: str, **changes: Any) -> RunConfig:
    base = tiny(method=by_name(name))
    train = replace(base.train, budget=BUDGET, **changes.pop("train", {}))
    return replace(base, data=replace(base.data, holdout=0.1), train=train, **changes)


def runs(out: Path, **changes: Any) -> list[ComparedRun]:
    return [ComparedRun(name, config_of(name, **dict(changes)), out / name) for name in NAMES]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    results = run.train_all(runs(out))
    run.write_comparison(runs(out), results, {"preset": "tiny"}, out, title="tiny")
    return out


def table(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "compare.json").read_text())
    return found


def test_every_method_spends_nearly_the_same_and_no_more(whole: Path) -> None:
    spent = [row["flop"] for row in table(whole)["runs"]]
    assert len(spent) == 2
    assert all(0.85 * BUDGET * 1e15 < flop <= BUDGET * 1e15 for flop in spent)
    ce, ours = (row["epochs"] for row in table(whole)["runs"])
    assert ce > 2 * ours  # PARS' epochs are dearer


def test_the_table_is_that_of_the_runs_own_logs(whole: Path) -> None:
    for row in table(whole)["runs"]:
        lines = [json.loads(line) for line in (whole / row["method"] / "metrics.jsonl").read_text().splitlines()]
        assert (row["last"], row["ema"]) == (lines[-1]["test"]["raw"], lines[-1]["test"]["ema"])
        assert row["best"] == max(line["test"]["ema"] for line in lines)
        assert row["holdout"] == lines[-1]["holdout"]["ema"]
        assert (row["flop"], row["images"]) == (lines[-1]["flop"], lines[-1]["images"])


def test_the_curves_have_a_point_for_every_epoch(whole: Path) -> None:
    with (whole / "curves.csv").open() as file:
        points = list(csv.DictReader(file))
    assert [len([p for p in points if p["method"] == row["method"]]) for row in table(whole)["runs"]] == [
        row["epochs"] for row in table(whole)["runs"]
    ]
    assert float(points[-1]["flop"]) == table(whole)["runs"][-1]["flop"]
    assert (whole / "accuracy-over-flop.svg").read_bytes().startswith(b"<?xml")


def test_a_comparison_that_was_killed_goes_on_where_it_was(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run.train_all(runs(tmp_path), lambda: StopAfter(5))  # in the first run
    with pytest.raises(Killed):
        run.train_all(runs(tmp_path), lambda: StopAfter(2))  # ends the first, then in the second
    first = snapshot(tmp_path / "ce")
    results = run.train_all(runs(tmp_path))
    assert snapshot(tmp_path / "ce") == first == snapshot(whole / "ce")
    assert snapshot(tmp_path / "pars") == snapshot(whole / "pars")
    run.write_comparison(runs(tmp_path), results, {"preset": "tiny"}, tmp_path, title="tiny")
    assert (tmp_path / "curves.csv").read_text() == (whole / "curves.csv").read_text()


def test_a_folder_with_another_configuration_is_refused(whole: Path) -> None:
    run.check_runs(runs(whole))
    for changes, words in (
        ({"seed": 1}, "ce holds a run with seed = 0, not 1 as asked for; choose another --out"),
        ({"train": {"lr": 0.7}}, r"train\.lr = 0\.05, not 0\.7"),
        ({"method": Supervised(loss="mae")}, r"method\.loss = 'ce', not 'mae'"),
    ):
        with pytest.raises(UserError, match=words):
            run.check_runs(runs(whole, **changes))
        with pytest.raises(UserError, match=words):
            run.train_all(runs(whole, **changes))  # begun by another process after the check
    run.check_runs(runs(whole, train={"lr": 0.7}), rate_open=NAMES)
    with pytest.raises(UserError, match=r"pars holds a run with train\.lr"):
        run.check_runs(runs(whole, train={"lr": 0.7}), rate_open=["ce"])


def test_a_budget_too_small_for_one_method_is_refused_before_any_is_trained(tmp_path: Path) -> None:
    small = [
        replace(each, config=replace(each.config, train=replace(each.config.train, budget=2e-9)))
        for each in runs(tmp_path)
    ]
    with pytest.raises(UserError, match=r"pars: train\.budget is 2e-09 PFLOP, but PARS needs at least"):
        run.check_runs(small)
    assert snapshot(tmp_path) == {}


def test_learning_rates_are_chosen_by_held_out_labels_and_every_try_is_recorded(tmp_path: Path) -> None:
    told: list[str] = []
    rates = [1e-6, 0.1]
    found = search_learning_rates(runs(tmp_path), rates, 0.6, tmp_path, log=told.append)
    lines = [json.loads(line) for line in (tmp_path / "search.jsonl").read_text().splitlines()]
    assert [(line["method"], line["lr"]) for line in lines] == [(name, rate) for name in NAMES for rate in rates]
    assert all(line["flop"] <= 0.6 * BUDGET * 1e15 for line in lines)
    for each in found:
        own = {line["lr"]: line for line in lines if line["method"] == each.name}
        assert each.config.train.lr == max(own, key=lambda rate: own[rate]["holdout"]) == 0.1
        assert [own[rate]["chosen"] for rate in rates] == [False, True]
        assert each.config.train.budget == BUDGET
    before = snapshot(tmp_path)
    assert search_learning_rates(runs(tmp_path), rates, 0.6, tmp_path) == found  # nothing is trained again
    assert snapshot(tmp_path) == before
    assert "ce: learning rate 0.1, at the edge of those tried" in told


def test_other_learning_rates_than_a_run_was_begun_with_are_refused_before_they_are_tried(tmp_path: Path) -> None:
    found = search_learning_rates(runs(tmp_path), [0.05, 0.1], 0.6, tmp_path)
    search_learning_rates(runs(tmp_path), [0.05, 0.1, 0.2], 0.6, tmp_path)  # no run has begun: more may be tried
    run.train_all(found[:1])
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match=r"ce holds a run whose learning rate is the best of 0\.05, 0\.1, 0\.2, not"):
        search_learning_rates(runs(tmp_path), [0.1, 0.3], 0.6, tmp_path)
    assert snapshot(tmp_path) == before


def test_a_run_whose_rate_was_given_is_not_searched_for(whole: Path) -> None:
    before = snapshot(whole)
    with pytest.raises(UserError, match=r"whose learning rate is not searched for, not the best of 0\.1 as asked for"):
        search_learning_rates(runs(whole), [0.1], 0.6, whole)
    assert snapshot(whole) == before


def test_a_method_that_cannot_run_is_named_before_any_is_trained(tmp_path: Path) -> None:
    """Without a budget: five epochs of warm-up are more than two."""
    both = runs(tmp_path, train={"epochs": 2})
    both = [replace(each, config=replace(each.config, train=replace(each.config.train, budget=0.0))) for each in both]
    longer = replace(both[1], config=replace(both[1].config, method=PARS(warm_up=5)))
    run.check_runs(both)
    with pytest.raises(UserError, match=r"pars: method\.warm_up is 5 epochs"):
        run.check_runs([both[0], longer])
    assert snapshot(tmp_path) == {}


def test_a_folder_of_another_comparison_is_left_alone(whole: Path, tmp_path: Path) -> None:
    run.check_comparison(whole, {"preset": "tiny"})
    run.check_comparison(tmp_path / "new", {"preset": "tiny"})
    with pytest.raises(UserError, match=r"compare\.json is of a comparison with preset = 'tiny', not 'digits'"):
        run.check_comparison(whole, {"preset": "digits"})
    with pytest.raises(UserError, match="ce is a run, expected a folder for several"):
        run.check_comparison(whole / "ce", {"preset": "tiny"})
    for text in ("mine", "[]", "{}", "\xff"):
        (tmp_path / "compare.json").write_text(text, encoding="latin-1")
        with pytest.raises(UserError, match=r"compare\.json is none of `pars compare`"):
            run.check_comparison(tmp_path, {"preset": "tiny"})


def test_test_accuracy_has_no_say_in_the_choice() -> None:
    def result(holdout: float, test: float) -> dict[str, Any]:
        return {"holdout": {"ema": {"last": holdout}}, "test": {"ema": {"last": test}}}

    assert best({0.1: result(40.0, 99.0), 0.3: result(41.0, 10.0), 1.0: None}, "ce") == 0.3
    assert best({0.3: result(40.0, 99.0), 0.1: result(40.0, 10.0)}, "ce") == 0.1  # of equals the smallest
    with pytest.raises(UserError, match="ce diverged at every learning rate"):
        best({0.1: None}, "ce")


def test_a_rate_that_diverged_was_tried_nonetheless(tmp_path: Path) -> None:
    rates = [0.1, 1e30]
    found = search_learning_rates(runs(tmp_path)[:1], rates, 0.6, tmp_path)
    assert found[0].config.train.lr == 0.1
    run.train_all(found)
    assert search_learning_rates(runs(tmp_path)[:1], rates, 0.6, tmp_path) == found


def test_a_method_that_diverges_is_shown_as_such_beside_the_others(tmp_path: Path) -> None:
    both = runs(tmp_path)
    wild = replace(both[0].config, train=replace(both[0].config.train, lr=1e30))
    told: list[str] = []
    results = run.train_all([replace(both[0], config=wild), both[1]], log=told.append)
    assert results["ce"] is None
    assert any(line.startswith("ce: ") and "not finite" in line for line in told)
    table, files = run.write_comparison(both, results, {}, tmp_path, title="tiny")
    assert table["runs"][0]["diverged"]
    assert table["runs"][1]["epochs"] > 0
    assert [path.name for path in files] == ["compare.json", "curves.csv", "accuracy-over-flop.svg"]
    (tmp_path / "none").mkdir()
    nothing, files = run.write_comparison(both[:1], results, {}, tmp_path / "none", title="tiny")
    assert nothing["runs"] == table["runs"][:1]
    assert [path.name for path in files] == ["compare.json", "curves.csv"]  # nothing to plot
