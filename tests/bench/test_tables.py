"""Tables, rows and published numbers fit together, and to the methods that there are."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from data.clothing import write_clothing1m

from pars import run
from pars.bench import COLUMNS, ROWS, SCALES, TABLES, Cell, Sources, check_runnable, chosen, fingerprint
from pars.bench.published import PUBLISHED
from pars.bench.scales import configuration
from pars.bench.tuning import own_values
from pars.classic import CLASSIC
from pars.errors import UserError
from pars.methods import REGISTRY, by_name
from pars.models import ModelConfig

PAPER_ROWS = 14
ROOT = Path(__file__).parents[2]
SOMEWHERE = Sources({"cifar10": Path("cifar10.npz"), "cifar100": Path("cifar100.npz")}, Path("data"))


def test_table_1_has_the_paper_s_rows_and_columns_with_its_numbers() -> None:
    table = TABLES["table1"]
    assert len(table.columns) == 9
    of_paper = {row for row in table.rows if ("table1", row, "cifar10-sym-20") in PUBLISHED} - {"pars-paper"}
    assert len(of_paper) == PAPER_ROWS
    # PARS gains 12 points over the best other row at CIFAR-100, 90 % (the abstract), 14.9 over ELR+ at CIFAR-10, 90 %.
    at_90 = {row: PUBLISHED["table1", row, "cifar100-sym-90"].value for row in of_paper}
    best_other = max(value for row, value in at_90.items() if row != "pars")
    assert at_90["pars"] - best_other == pytest.approx(11.9)
    gain = PUBLISHED["table1", "pars", "cifar10-sym-90"].value - PUBLISHED["table1", "elr+", "cifar10-sym-90"].value
    assert gain == pytest.approx(14.9)


def test_rows_that_stand_in_two_tables_of_the_paper_have_the_same_numbers() -> None:
    for row in ("ce", "warmup", "pars"):
        for column in TABLES["table1"].columns:
            assert PUBLISHED["table1", row, column].value == PUBLISHED["table4", row, column].value


def test_pars_gains_27_points_over_fixmatch_with_few_labels() -> None:
    column = "cifar100-10000-sym-90"
    difference = PUBLISHED["table3", "pars", column].value - PUBLISHED["table3", "fixmatch", column].value
    assert difference == pytest.approx(26.9)


def test_every_published_number_belongs_to_a_row_and_a_column_and_has_a_source() -> None:
    for (_, row, column), number in PUBLISHED.items():
        assert row in ROWS
        assert column in COLUMNS
        assert 0 < number.value < 100
        assert number.source


def test_every_table_has_known_rows_and_columns_and_every_row_a_method() -> None:
    for table in TABLES.values():
        assert set(table.rows) <= set(ROWS)
        assert set(table.columns) <= set(COLUMNS)
    for row in ROWS.values():
        assert row.method in REGISTRY or row.method in CLASSIC
        assert row.tuned_key in ROWS


@pytest.mark.parametrize("row", [row for row in ROWS.values() if not row.tuned_as and not row.taken_from])
def test_what_is_tuned_of_a_method_is_one_or_two_of_its_own_fields(row: object) -> None:
    method = getattr(row, "method")  # noqa: B009
    values = own_values(method)
    assert len(values) <= 2
    if method in CLASSIC:
        return
    built = by_name(method)
    assert set(values) <= {field.name for field in fields(built)}
    for name, choices in values.items():
        for value in choices:
            assert getattr(replace(built, **{name: value}), name) == value


@pytest.mark.parametrize("scale", SCALES)
def test_every_cell_of_every_table_has_a_configuration(scale: str) -> None:
    prints = {}
    for table in TABLES.values():
        for column in table.columns:
            for row in table.rows:
                cell = Cell(scale, column, row, 0)
                if ROWS[row].taken_from or (not COLUMNS[column].has_small_scales and scale != "paper"):
                    continue
                config = configuration(cell, SOMEWHERE)
                assert config.data.holdout == SCALES[scale].held_out
                prints[cell.name] = fingerprint(cell, SOMEWHERE)
    by_seed = fingerprint(Cell(scale, "cifar10-sym-50", "ce", 1), SOMEWHERE)
    assert by_seed != prints[f"{scale}/cifar10-sym-50/ce/seed-0"]


def test_clothing1m_is_run_at_full_size_from_the_folder_of_the_data_sets(tmp_path: Path) -> None:
    write_clothing1m(tmp_path / "clothing1M")
    here = Sources(root=tmp_path)
    for row in TABLES["table2"].rows:
        cell = Cell("paper", "clothing1m", row, 0)
        assert check_runnable(cell) is None
        config = configuration(cell, here)
        assert config.model == run.preset("clothing1m")(config.noise, row).model
        assert fingerprint(cell, here) == fingerprint(cell, Sources(root=Path("elsewhere")))
    data = run.load_training_data(replace(config, model=ModelConfig(name="small_cnn"))).data
    assert data.test is not None
    assert (data.train.inputs.shape, len(data.test)) == ((70, 3, 256, 256), 14)
    for scale in ("features", "pixels", "smoke"):
        assert check_runnable(Cell(scale, "clothing1m", "pars", 0)) == "Clothing1M is run at scale paper only"


def test_all_rows_of_a_column_have_the_same_budget() -> None:
    table = TABLES["table1"]
    rows = [row for row in table.rows if ROWS[row].method not in CLASSIC and not ROWS[row].taken_from]
    for column in table.columns:
        budgets = {configuration(Cell("features", column, row, 0), SOMEWHERE).train.budget for row in rows}
        assert len(budgets) == 1


def test_a_fingerprint_does_not_depend_on_where_files_are() -> None:
    elsewhere = Sources({"cifar10": Path("/x/cifar10.npz")}, Path("/y"))
    cell = Cell("features", "cifar10-sym-50", "pars", 0)
    assert fingerprint(cell, SOMEWHERE) == fingerprint(cell, elsewhere)
    tuned = Cell("features", "cifar10-sym-50", "pars", 0, {"train": {"lr": 0.1}})
    assert fingerprint(cell, SOMEWHERE) != fingerprint(tuned, SOMEWHERE)


def test_columns_are_chosen_by_their_beginning_and_a_mistyped_one_is_named() -> None:
    columns = TABLES["table1"].columns
    assert len(chosen("cifar10", columns, "--cols")) == 5
    assert chosen("cifar100-sym-90,cifar10-sym-20", columns, "--cols") == ("cifar10-sym-20", "cifar100-sym-90")
    with pytest.raises(UserError, match="'cifar1' is none of"):
        chosen("cifar1", columns, "--cols")


def test_fields_that_were_added_later_do_not_make_committed_lines_stale() -> None:
    """These lines are of commit ef74451, when the fields of `scales.ADDED` did not exist."""
    lines = [json.loads(text) for text in (ROOT / "results/tuning.jsonl").read_text().splitlines()]
    of_row = [line for line in lines if line["row"] == "ce" and line["commit"].startswith("ef74451")]
    assert len(of_row) == 16
    where = Sources({"cifar10": Path("cifar10-lite0.npz")})
    for line in of_row:
        cell = Cell(line["scale"], line["column"], line["row"], line["seed"], line["settings"], line["trial"])
        assert fingerprint(cell, where) == line["config"], "a new field? name it in scales.ADDED"


def test_an_added_field_that_has_an_effect_changes_the_fingerprint() -> None:
    cell = Cell("features", "cifar10-sym-50", "ce", 0)
    before = fingerprint(cell, SOMEWHERE)
    balanced = Cell("features", "cifar10-sym-50", "ce", 0, {"train": {"class_balanced": True}})
    assert fingerprint(balanced, SOMEWHERE) != before
