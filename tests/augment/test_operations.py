"""Every operation at every level against Pillow, image by image: equal, not nearly equal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pillow_operations import Pixels, from_pillow, operate, to_pillow

from pars.augment import slice_params
from pars.augment.operations import (
    ENHANCEMENTS,
    GEOMETRIC,
    INDEX,
    OPERATIONS,
    apply_operations,
    autoaugment_amounts,
    fixmatch_amounts,
    operation_params,
)

SHAPES = [(3, 32, 32), (1, 28, 28), (3, 112, 113), (3, 20, 33), (3, 1, 7), (1, 9, 1), (3, 2, 2), (3, 3, 3)]


def images(shape: tuple[int, ...]) -> Pixels:
    """Noise, constants, two values, few values, a gradient, one odd pixel."""
    rng = np.random.default_rng(0)
    odd = np.full(shape, 77, np.uint8)
    odd[..., 0, 0] = 78
    return np.stack(
        [
            *(rng.integers(0, 256, shape, dtype=np.uint8) for _ in range(3)),
            *(np.full(shape, value, np.uint8) for value in (0, 128, 255)),
            rng.choice(np.array([3, 200], np.uint8), shape),
            rng.choice(np.array([0, 255], np.uint8), shape),
            rng.integers(100, 110, shape, dtype=np.uint8),
            (3 * np.indices(shape).sum(0) % 256).astype(np.uint8),
            odd,
        ]
    )


def levels(name: str, shape: tuple[int, ...]) -> list[float]:
    """The amounts of both published ranges at every level, and those at the ends of what Pillow takes."""
    op, sign = np.full((1, 11), INDEX[name]), np.ones((1, 11))
    tenths, ninths = np.arange(11)[None] / 10, np.arange(11)[None] / 9
    amounts = [
        fixmatch_amounts(op, tenths, sign, shape, translate=0.3),
        autoaugment_amounts(op, tenths, sign, shape, translate=0.3),
    ]
    amounts += [autoaugment_amounts(op, ninths.clip(max=1), s * sign, shape, translate=150 / 331) for s in (-1, 1)]
    if name in GEOMETRIC:
        amounts += [-amounts[0], np.array([[0.5, -0.5, 90, 180, -90, 45]]) if name == "rotate" else -amounts[1]]
    if name in ENHANCEMENTS:
        amounts += [np.array([[0.0, 1.0, 0.003, 3.7]])]
    if name == "solarize":
        amounts += [np.arange(257.0)[None]]
    if name == "posterize":
        amounts += [np.arange(1.0, 9)[None]]
    return [float(amount) for amount in np.unique(np.concatenate(amounts, axis=1))]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_at_each_level_is_pillows(name: str, shape: tuple[int, ...]) -> None:
    x = images(shape)
    for amount in levels(name, shape):
        done = apply_operations(
            torch.from_numpy(x),
            operation_params(np.full((len(x), 1), INDEX[name]), np.full((len(x), 1), amount), shape),
            9,
        )
        wanted = np.stack([from_pillow(operate(to_pillow(one), name, amount, fill=9)) for one in x])
        np.testing.assert_array_equal(done.numpy(), wanted, err_msg=f"{name} {amount}")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_programs_of_several_operations_are_pillows_one_after_the_other(data: st.DataObject) -> None:
    n, k = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 4))
    shape = (data.draw(st.sampled_from([1, 3])), data.draw(st.integers(1, 24)), data.draw(st.integers(1, 24)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = rng.integers(0, 256, (n, *shape), dtype=np.uint8)
    op = rng.integers(0, len(OPERATIONS), (n, k))
    amounts = data.draw(st.sampled_from([fixmatch_amounts, autoaugment_amounts]))
    amount = amounts(op, rng.random((n, k)), rng.choice([-1.0, 1.0], (n, k)), shape, translate=0.4)
    done = apply_operations(torch.from_numpy(x), operation_params(op, amount, shape), 128).numpy()
    for i in range(n):
        image = to_pillow(x[i])
        for j in range(k):
            image = operate(image, OPERATIONS[op[i, j]], amount[i, j], fill=128)
        np.testing.assert_array_equal(done[i], from_pillow(image))


def test_blends_are_pillows_for_every_pair_of_gray_levels() -> None:
    """Brightness is a table, but color is not: all 256 grays against themselves and far-off factors."""
    shape = (3, 16, 16)
    red = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    x = np.stack([np.concatenate([red, np.full_like(red, v), 255 - red]) for v in range(0, 256, 5)])
    for name in ("color", "contrast"):
        for amount in (0.05, 0.37, 0.95, 1.01, 1.9):
            params = operation_params(np.full((len(x), 1), INDEX[name]), np.full((len(x), 1), amount), shape)
            wanted = np.stack([from_pillow(operate(to_pillow(one), name, amount)) for one in x])
            np.testing.assert_array_equal(apply_operations(torch.from_numpy(x), params).numpy(), wanted)


def test_the_batch_that_comes_in_is_left_alone_and_may_be_cut() -> None:
    rng = np.random.default_rng(3)
    x = torch.from_numpy(rng.integers(0, 256, (40, 3, 16, 16), dtype=np.uint8))
    before = x.clone()
    op = rng.integers(0, len(OPERATIONS), (40, 2))
    params = operation_params(
        op, autoaugment_amounts(op, rng.random((40, 2)), np.ones((40, 2)), (3, 16, 16), translate=0.3), (3, 16, 16)
    )
    whole = apply_operations(x, params)
    assert torch.equal(x, before)
    parts = [apply_operations(x[a:b], slice_params(params, a, b)) for a, b in ((0, 1), (1, 17), (17, 40))]
    assert torch.equal(torch.cat(parts), whole)


def test_the_ranges_of_fixmatch() -> None:
    """Enhance .05+.9·v/10, rotate ±30°, shear ±.3, translate ±.3·size, posterize and solarize cut off."""
    names = ["color", "rotate", "shear-y", "translate-x", "translate-y", "posterize", "solarize", "equalize"]
    op = np.array([[INDEX[name] for name in names]])
    half, sign = np.full(op.shape, 0.5), -np.ones(op.shape)
    amount = fixmatch_amounts(op, half, sign, (3, 20, 40), translate=0.3)
    np.testing.assert_allclose(amount, [[0.5, -15, -0.15, -6, -3, 6, 128, 0]], rtol=1e-12)
    ninth = fixmatch_amounts(op, 0.9 * np.ones(op.shape), -sign, (3, 20, 40), translate=0.3)
    np.testing.assert_allclose(ninth, [[0.86, 27, 0.27, 10.8, 5.4, 7, 26, 0]], rtol=1e-12)


def test_the_ranges_of_autoaugment() -> None:
    names = ["brightness", "rotate", "shear-x", "translate-x", "posterize", "solarize"]
    op = np.array([[INDEX[name] for name in names]])
    amount = autoaugment_amounts(op, np.full(op.shape, 1 / 3), -np.ones(op.shape), (3, 32, 32), translate=0.45)
    np.testing.assert_allclose(amount, [[0.7, -10, -0.1, -4.8, 7, 171]], rtol=1e-12)
    nothing = autoaugment_amounts(op, np.zeros(op.shape), np.ones(op.shape), (3, 32, 32), translate=0.45)
    np.testing.assert_array_equal(nothing, [[1, 0, 0, 0, 8, 256]])
