"""Draws of torch's own generators: placed by address, and at no cost to devices that are not there."""

from __future__ import annotations

import torch

from engine.helpers import Recorder, assert_identical, make_trainer, weights
from pars.engine.device import seed_generators
from pars.methods import PARS

METHOD = PARS(warm_up=1, tau=0.5)


class Disturber(Recorder):
    """Somebody else who draws from torch's generator between the steps."""

    def step(self, rows: int) -> None:
        torch.rand(rows)


def test_dropout_inside_a_network_is_placed_by_address_whoever_else_draws() -> None:
    alone, disturbed, other = (
        make_trainer(METHOD, dropout=0.5, plain_views=True, seed=seed, callback=callback)
        for seed, callback in ((0, None), (0, Disturber()), (1, None))
    )
    for trainer in (alone, disturbed, other):
        torch.rand(3)
        trainer.run()
    assert_identical(weights(alone), weights(disturbed))
    assert not torch.equal(weights(alone)["raw.0.head.weight"], weights(other)["raw.0.head.weight"])


def test_every_step_drops_other_units() -> None:
    masks: list[torch.Tensor] = []
    trainer = make_trainer(METHOD, dropout=0.5)
    dropout = next(m for m in trainer.nets[0].module.modules() if isinstance(m, torch.nn.Dropout))
    dropout.register_forward_hook(lambda module, inputs, out: masks.append(out.detach()[:8] == 0))
    trainer.run()
    assert len(masks) > 10
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == len(masks)


def test_seeding_gives_the_numbers_of_torchs_own_seeding_and_leaves_nothing_behind() -> None:
    waiting = len(torch.cuda._queued_calls)  # what torch would do if CUDA were started
    seed_generators("cpu", 7)
    ours = torch.rand(5)
    assert len(torch.cuda._queued_calls) == waiting
    torch.manual_seed(7)
    assert torch.equal(torch.rand(5), ours)
