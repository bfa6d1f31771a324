"""A checkpoint's note is believed only if all of it fits the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pars.engine.meters import COUNTS
from pars.engine.position import check_state, read_position
from pars.errors import UserError

METER = {"loss/raw": torch.tensor(1.0), "loss/steps": torch.tensor(2.0), "selection/raw": torch.zeros(len(COUNTS))}
NOTE = {"epoch": 1, "step": 2, "work": [[3, 40, 5]], "meter": ["loss/steps", "selection/raw", "loss/raw"]} | {
    "spent": {"warm-up": 5e9}
}
WHERE = Path("run/checkpoint.safetensors")


def test_a_note_that_fits_is_read() -> None:
    at = read_position(NOTE, METER, WHERE, epochs=4, steps=3, networks=1)
    assert (at.epoch, at.step, at.work) == (1, 2, ((3, 40, 5),))
    assert at.spent == {"warm-up": 5e9}
    assert list(at.meter) == NOTE["meter"]
    end = read_position(NOTE | {"epoch": 4, "step": 0, "meter": []}, {}, WHERE, epochs=4, steps=3, networks=1)
    assert (end.epoch, end.step) == (4, 0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epoch": -1}, "epoch is -1, expected 0 to 4"),
        ({"epoch": 5}, "epoch is 5, expected 0 to 4"),
        ({"epoch": 1.0}, "epoch is 1.0"),
        ({"epoch": True}, "epoch is True"),
        ({"epoch": "1"}, "epoch is '1'"),
        ({"epoch": None}, "epoch is None"),
        ({"step": -1}, "step is -1, expected 0 to 3"),
        ({"step": 4}, "step is 4, expected 0 to 3"),
        ({"epoch": 4}, "step is 2, expected 0 to 0"),
        ({"work": []}, r"work is \[\], expected three counts for each of 1"),
        ({"work": [[1, 2, 0], [3, 4, 0]]}, "expected three counts"),
        ({"work": [[1, 2]]}, "expected three counts"),
        ({"work": [[1, -2, 0]]}, "expected counts of at least 0"),
        ({"work": 3}, "work is 3"),
        ({"spent": {}}, "spent is {}, expected the FLOP of each stage"),
        ({"spent": {"main": -1.0}}, "expected the FLOP of each stage"),
        ({"spent": [1.0]}, "expected the FLOP of each stage"),
        ({"meter": ["loss/raw"]}, "expected the names of its sums: loss/raw, loss/steps, selection/raw"),
        ({"meter": [1, 2, 3]}, "expected the names of its sums"),
        ({"meter": {}}, "expected the names of its sums"),
    ],
)
def test_a_note_that_does_not_fit_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=rf"checkpoint.safetensors does not fit its run: .*{said}"):
        read_position(NOTE | changes, METER, WHERE, epochs=4, steps=3, networks=1)


@pytest.mark.parametrize("key", NOTE)
def test_a_note_without_a_key_is_of_another_version(key: str) -> None:
    note = {name: value for name, value in NOTE.items() if name != key}
    with pytest.raises(UserError, match=f"not a checkpoint of this version: no {key}"):
        read_position(note, METER, WHERE, epochs=4, steps=3, networks=1)


@pytest.mark.parametrize("name", ["loss/raw", "selection/raw"])
def test_sums_of_another_shape_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=rf"{name} has shape \[3\]"):
        read_position(NOTE, METER | {name: torch.zeros(3)}, WHERE, epochs=4, steps=3, networks=1)


def test_an_epoch_under_way_has_sums() -> None:
    with pytest.raises(UserError, match="the sums of the epoch under way"):
        read_position(NOTE | {"meter": []}, {}, WHERE, epochs=4, steps=3, networks=1)


@pytest.mark.parametrize("found", [{}, {"seen": torch.zeros(3)}, {"seen": torch.zeros(4, dtype=torch.int64)}])
def test_row_state_has_to_fit_the_method(found: dict[str, torch.Tensor]) -> None:
    with pytest.raises(UserError, match=r"state seen is .*, expected \[3\] torch.int64"):
        check_state(found, {"seen": torch.zeros(3, dtype=torch.int64)}, WHERE)
    check_state(
        {"seen": torch.zeros(3, dtype=torch.int64), "more": torch.ones(1)}, {"seen": torch.ones(3).long()}, WHERE
    )
