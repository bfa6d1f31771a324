"""The ledger: whole lines, each once, whoever appends."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from pars.bench import append_once, latest, read_ledger
from pars.errors import UserError


def line(cell: str, config: str = "c", status: str = "ok", **more: object) -> dict[str, object]:
    return {"cell": cell, "config": config, "status": status, **more}


def append_many(path: str, first: int) -> None:
    for number in range(first, first + 20):
        append_once(Path(path), line(f"cell-{number}", text="x" * 5000))


def test_processes_that_append_at_once_lose_and_repeat_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=append_many, args=(str(path), first)) for first in (0, 10, 20)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    cells = [json.loads(text)["cell"] for text in path.read_text().splitlines()]
    assert sorted(cells) == sorted(f"cell-{number}" for number in range(40))


def test_half_a_line_is_no_line_and_the_next_one_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    append_once(path, line("a"))
    with path.open("a") as file:
        file.write('{"cell": "b", "conf')
    assert [found["cell"] for found in read_ledger(path)] == ["a"]
    append_once(path, line("c"))
    assert [json.loads(text)["cell"] for text in path.read_text().splitlines()] == ["a", "c"]


def test_a_result_is_written_once_and_a_failure_may_be_followed_by_a_result(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    assert append_once(path, line("a", status="failed", error="e"))
    assert not append_once(path, line("a", status="failed", error="e"))
    assert append_once(path, line("a"))
    assert not append_once(path, line("a"))
    assert append_once(path, line("a", config="other"))
    assert latest(read_ledger(path))["a"]["config"] == "other"


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text('{"cell": "a", "config": "c", "status": "ok"}\nnothing\n')
    with pytest.raises(UserError, match="line 2"):
        read_ledger(path)
