"""Random draws by address: pure, apart from each other, and the same on every machine."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from pars.seeds import generator, stream_id, torch_seed

WORDS = st.integers(0, 2**32)


@given(seed=st.integers(-(2**63), 2**64 - 1), epoch=WORDS, step=WORDS)
@settings(derandomize=True, deadline=None, max_examples=50)
def test_an_address_is_a_place_in_one_long_philox_sequence(seed: int, epoch: int, step: int) -> None:
    for stream in ("order/labelled", "order/more"):  # their numbers lie above and below 2**63
        whole = np.random.Philox(key=(seed % 2**64) + 2**64 * stream_id(stream))
        whole.advance(step * 2**64 + epoch * 2**128)
        expected = np.random.Generator(whole).integers(2**63, size=8)
        assert_array_equal(generator(seed, stream, epoch, step).integers(2**63, size=8), expected)


def test_every_part_of_the_address_matters() -> None:
    addresses = [(s, name, e, t) for s in (0, 1, -1) for name in ("a", "b", "a/0") for e in (0, 1) for t in (0, 1)]
    firsts = {tuple(generator(*address).random(2).tolist()) for address in addresses}
    assert len(firsts) == len(addresses)


@pytest.mark.parametrize("stream", ["order/labelled", "order/more"])
@pytest.mark.parametrize("seed", [0, -2, 2**53, 2**63 - 1, 2**64 - 2])
def test_neighboring_seeds_differ_however_large(seed: int, stream: str) -> None:
    assert generator(seed, stream).random() != generator(seed + 1, stream).random()


def test_a_seed_may_come_from_numpy() -> None:
    assert generator(np.int64(7), "x").random() == generator(7, "x").random()  # type: ignore[arg-type]


def test_one_draw_cannot_run_into_the_next() -> None:
    many = set(generator(0, "x", step=0).integers(2**63, size=100_000).tolist())
    assert not many & set(generator(0, "x", step=1).integers(2**63, size=100_000).tolist())


def test_neighboring_addresses_are_uncorrelated() -> None:
    rows = np.array([generator(0, "x", epoch, step).random(4000) for epoch in range(3) for step in range(3)])
    off_diagonal = np.corrcoef(rows)[~np.eye(9, dtype=bool)]
    assert np.abs(off_diagonal).max() < 5 / np.sqrt(4000)


def test_stream_numbers_do_not_depend_on_the_process() -> None:
    # Python's own hash of a string does: it is salted.
    code = "from pars.seeds import stream_id, torch_seed; print(stream_id('order/more'), torch_seed(3, 'init', 1, 2))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(stream_id("order/more")), str(torch_seed(3, "init", 1, 2))]


@pytest.mark.parametrize(
    ("name", "number"), [("noise", 3_964_110_132_002_447_589), ("order/labelled", 11_803_105_889_655_734_459)]
)
def test_stream_numbers_never_change(name: str, number: int) -> None:
    assert stream_id(name) == number  # a change would silently give every seed other runs


def test_a_torch_seed_is_one_torch_accepts() -> None:
    seeds = [torch_seed(seed, "init") for seed in range(100)]
    assert len(set(seeds)) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)
