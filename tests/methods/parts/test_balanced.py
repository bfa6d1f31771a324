"""Class-balanced rows."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pars.methods.parts.balanced import class_balanced, several_classes


@settings(max_examples=50, deadline=None)
@given(labels=st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_every_class_has_as_many_rows_as_the_largest_spread_evenly_over_its_own(labels: list[int]) -> None:
    rows = [100 + 3 * i for i in range(len(labels))]
    drawn = class_balanced(torch.tensor(rows), torch.tensor(labels)).tolist()
    largest = max(labels.count(c) for c in labels)
    for c in set(labels):
        own = [row for row, y in zip(rows, labels, strict=True) if y == c]
        times = [drawn.count(row) for row in own]
        assert sum(times) == largest
        assert max(times) - min(times) <= 1
    assert len(drawn) == largest * len(set(labels))


def test_no_rows_are_no_rows() -> None:
    none = torch.tensor([], dtype=torch.int64)
    assert len(class_balanced(none, none)) == 0


def test_several_classes_are_two_or_more() -> None:
    assert several_classes(torch.tensor([3, 3, 0]))
    assert not several_classes(torch.tensor([3, 3]))
    assert not several_classes(torch.tensor([], dtype=torch.int64))
