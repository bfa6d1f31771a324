"""The search: equal trials for all rows, chosen by held-out given labels and by nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pars.bench import ROWS, SCALES, TABLES, Tuned, choose, read_tuned, rows_of, trial_cells, write_tuned
from pars.bench.tuning import TRIALS, development_columns, trials
from pars.classic import CLASSIC
from pars.errors import UserError

FEATURES = SCALES["features"]
NETWORKS = [row.key for row in rows_of(TABLES["table1"].rows) if row.method not in CLASSIC]


def test_every_row_has_as_many_trials_with_the_same_rates_lengths_and_weight_decays() -> None:
    def shared(row: str) -> list[Any]:
        return [(settings.get("length"), settings.get("train")) for settings in trials(FEATURES, ROWS[row].method)]

    expected = shared("ce")
    assert len(expected) == TRIALS
    assert all(shared(row) == expected for row in NETWORKS)


@pytest.mark.parametrize("row", NETWORKS)
def test_the_first_trial_is_the_default_and_the_others_are_balanced(row: str) -> None:
    first, *others = trials(FEATURES, ROWS[row].method)
    assert first == {}
    counts = Counter(settings["train"]["lr"] for settings in others)
    assert set(counts) == set(FEATURES.lr)
    assert max(counts.values()) - min(counts.values()) <= 2  # the first one drawn is the default's place
    assert {settings["length"] for settings in others} == set(FEATURES.length)


def test_ablations_and_rows_read_off_others_have_no_trials_of_their_own() -> None:
    cells = trial_cells("features", rows_of((*TABLES["table4"].rows, "ce-early-stopped")), ["cifar10"])
    assert {cell.row for cell in cells} == {"ce", "warmup", "pars", "pars-paper"}
    assert {cell.column for cell in cells} == set(development_columns("cifar10"))
    assert len(cells) == 4 * TRIALS * 2
    with pytest.raises(UserError, match="nothing is tuned"):
        trial_cells("paper", rows_of(("ce",)), ["cifar10"])


def lines(row: str, scores: dict[int, tuple[float | None, float | None]]) -> list[dict[str, Any]]:
    """Trials of a row with held-out accuracies on the two development columns; none failed."""
    out = []
    for trial, values in scores.items():
        for column, value in zip(development_columns("cifar10"), values, strict=True):
            line: dict[str, Any] = {"cell": f"{row}-{column}-{trial}", "config": "c", "scale": "features"}
            line |= {"column": column, "row": row, "trial": trial, "status": "ok" if value is not None else "failed"}
            line["settings"] = trials(FEATURES, ROWS[row].method)[trial]
            # The test accuracy would choose otherwise.
            line["selected"] = {"holdout": value, "accuracy": -(value or 0)}
            out.append(line)
    return out


def test_the_trial_with_the_best_mean_of_held_out_labels_is_chosen() -> None:
    scores: dict[int, tuple[float | None, float | None]] = dict.fromkeys(range(TRIALS), (40.0, 50.0))
    scores |= {3: (60.0, 50.0), 5: (45.0, 70.0), 7: (99.0, None)}  # 55, 57.5, and one that failed in one setting
    found = choose(lines("pars", scores), Tuned())
    choice = found.choices["features"]["cifar10"]["pars"]
    assert (choice["trial"], choice["holdout"], choice["default"]) == (5, 57.5, 45.0)
    of_cell = found.of("features", "cifar10-sym-90", ROWS["pars"])
    assert of_cell == trials(FEATURES, "pars")[5]
    assert found.of("features", "cifar10n-worse", ROWS["pars-tau-0.6"]) == of_cell
    assert found.of("features", "cifar100-sym-90", ROWS["pars"]) == {}


def test_a_row_whose_trials_are_not_all_there_keeps_its_choice() -> None:
    before = Tuned({"features": {"cifar10": {"ce": {"length": 0.5}}}})
    assert choose(lines("ce", {0: (1.0, 1.0), 1: (2.0, 2.0)}), before) == before


def test_choices_are_read_back_as_written_and_unknown_rows_are_named(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    scores: dict[int, tuple[float | None, float | None]] = {trial: (float(trial), 1.0) for trial in range(TRIALS)}
    tuned = choose(lines("elr+", scores), Tuned())
    write_tuned(path, tuned)
    assert read_tuned(path) == tuned
    path.write_text("[features.cifar10.elf]\nlength = 1.0\n")
    with pytest.raises(UserError, match="'elf'"):
        read_tuned(path)
