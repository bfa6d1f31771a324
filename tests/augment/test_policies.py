"""What RandAugment and AutoAugment draw, and that whole views are Pillow's pixels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pillow_operations import from_pillow, operate, to_pillow

from pars.augment import AutoAugment, CropFlip, Params, RandAugment, ViewsConfig, build_views, cut_out, slice_params
from pars.augment.config import Strong
from pars.augment.operations import ENHANCEMENTS, INDEX, N_RANDAUGMENT, OPERATIONS
from pars.augment.policies import CUTOUT_GRAY, Flavor, sub_policies
from pars.seeds import generator

SHAPE = (3, 32, 32)
CROP = CropFlip(pad=4, pad_mode="reflect")


def drawn(view: RandAugment | AutoAugment, n: int = 4000) -> Params:
    return view.draw(generator(0, "test"), n, SHAPE)


@pytest.mark.parametrize("flavor", ["fixmatch", "uniform", "fixed"])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28)])
def test_a_whole_strong_view_is_pillows(flavor: Flavor, shape: tuple[int, ...]) -> None:
    view = RandAugment(crop=CROP, n=3, magnitude=7, flavor=flavor, cutout=9)
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (50, *shape), dtype=np.uint8))
    params = view.draw(generator(1, "test"), 50, shape)
    done = view.apply(x, params)
    cropped = CROP.apply(x, params).numpy()
    for i in range(50):
        image = to_pillow(cropped[i])
        for op, amount in zip(params["op"][i].tolist(), params["amount"][i].tolist(), strict=True):
            image = operate(image, OPERATIONS[op], amount)
        wanted = from_pillow(image).copy()
        top, left, bottom, right = params["cutout"][i].clamp(min=0).tolist()
        wanted[:, top:bottom, left:right] = CUTOUT_GRAY
        np.testing.assert_array_equal(done[i].numpy(), wanted)


def test_fixmatch_does_each_operation_half_of_the_time_at_levels_1_to_9() -> None:
    params = drawn(RandAugment(crop=CROP))
    op, amount = params["op"], params["amount"]
    assert op.shape == (4000, 2)
    share = torch.bincount(op.flatten(), minlength=N_RANDAUGMENT) / op.numel()
    identity = INDEX["identity"]
    assert share[identity] == pytest.approx(0.5 + 0.5 / 14, abs=0.02)
    others = [i for i in range(N_RANDAUGMENT) if i != identity]
    torch.testing.assert_close(share[others], torch.full((13,), 0.5 / 14), atol=0.01, rtol=0)
    factors = amount[torch.isin(op, torch.tensor([INDEX[name] for name in ENHANCEMENTS]))]
    np.testing.assert_allclose(np.unique(factors.numpy().round(9)), 0.05 + 0.09 * np.arange(1, 10), atol=1e-9)
    turns = amount[op == INDEX["rotate"]].numpy()
    np.testing.assert_allclose(np.unique(turns.round(9)), [3.0 * v for v in range(-9, 10) if v], atol=1e-9)
    side = params["cutout"][:, 2:] - params["cutout"][:, :2]
    assert (side == 16).all()


def test_the_uniform_flavor_always_does_its_operations_over_the_whole_range() -> None:
    params = drawn(RandAugment(crop=CROP, flavor="uniform"))
    op, amount = params["op"], params["amount"]
    share = torch.bincount(op.flatten(), minlength=N_RANDAUGMENT) / op.numel()
    torch.testing.assert_close(share, torch.full((14,), 1 / 14), atol=0.012, rtol=0)
    turns = amount[op == INDEX["rotate"]]
    assert turns.min() < -28
    assert turns.max() > 28
    assert abs(float(turns.mean())) < 2.5
    assert set(amount[op == INDEX["posterize"]].tolist()) == {4, 5, 6, 7}
    side = params["cutout"][:, 2] - params["cutout"][:, 0]
    assert set(side.tolist()) == set(range(17))


def test_the_fixed_flavor_has_one_strength_and_0_changes_no_pixel() -> None:
    params = drawn(RandAugment(crop=CROP, flavor="fixed", magnitude=5, cutout=0))
    turns = params["amount"][params["op"] == INDEX["rotate"]]
    assert set(turns.tolist()) == {-15.0, 15.0}
    still = RandAugment(crop=CropFlip(pad=0, flip=False), flavor="fixed", magnitude=0, cutout=0)
    x = torch.randint(0, 256, (200, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    params = still.draw(generator(2, "test"), 200, SHAPE)
    levelled = (params["op"] != INDEX["autocontrast"]) & (params["op"] != INDEX["equalize"])
    untouched = levelled.all(dim=1)
    assert untouched.sum() > 100
    assert torch.equal(still.apply(x, params)[untouched], x[untouched])


@pytest.mark.parametrize("policy", ["cifar10", "imagenet"])
def test_autoaugment_draws_the_pairs_of_its_policy_with_their_probabilities(policy: str) -> None:
    view = AutoAugment(crop=CROP, policy=policy)  # type: ignore[arg-type]
    op, probability, level = sub_policies(view.policy)
    assert op.shape == probability.shape == level.shape == (25, 2)
    assert probability.min() >= 0
    assert probability.max() <= 1
    assert level.max() <= 1
    params = drawn(view, 20_000)
    share = torch.bincount(params["op"].flatten(), minlength=len(OPERATIONS)) / 40_000
    wanted = np.zeros(len(OPERATIONS))
    np.add.at(wanted, op.flatten(), probability.flatten() / 50)
    wanted[INDEX["identity"]] += 1 - wanted.sum()
    np.testing.assert_allclose(share.numpy(), wanted, atol=0.01)


def test_autoaugment_fills_with_gray() -> None:
    view = AutoAugment(crop=CropFlip(pad=0, flip=False))
    x = torch.zeros(2000, *SHAPE, dtype=torch.uint8)
    params = drawn(view, 2000)
    moved = params["op"][:, 1] == INDEX["translate-y"]
    out = view.apply(x, params)
    assert moved.sum() > 30
    assert (out[moved].flatten(1) == 128).any(dim=1).all()


def test_cutout_paints_its_box_and_nothing_else() -> None:
    x = torch.zeros(2, 3, 6, 6, dtype=torch.uint8)
    out = cut_out(x, torch.tensor([[-2, 1, 2, 4], [5, 5, 9, 9]]), torch.tensor([1, 2, 3], dtype=torch.uint8))
    assert out[0, :, 0:2, 1:4].sum() == 6 * (1 + 2 + 3) == out[0].sum()
    assert out[1, :, 5, 5].tolist() == [1, 2, 3]
    assert out[1].sum() == 6


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 112, 117)])
@pytest.mark.parametrize("strong", ["randaugment", "autoaugment", "resized-crop"])
def test_the_same_pixels_however_the_batch_is_cut(shape: tuple[int, ...], strong: Strong) -> None:
    config = ViewsConfig(strong=strong, pad_mode="reflect", flavor="uniform")
    view = build_views(config, image=True, shape=shape, mean=(0.5,) * shape[0], std=(0.25,) * shape[0]).strong
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (19, *shape), dtype=np.uint8))
    before, params = x.clone(), view.draw(generator(0, "test"), 19, shape)
    whole = view.apply(x, params)
    assert torch.equal(x, before)
    parts = [view.apply(x[a:b], slice_params(params, a, b)) for a, b in ((0, 1), (1, 8), (8, 19))]
    assert torch.equal(torch.cat(parts), whole)
    assert not torch.equal(view.apply(x, view.draw(generator(1, "test"), 19, shape)), whole)
