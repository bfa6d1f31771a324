"""Where a run computes: seeded generators, and freed memory that stays with the process."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch

from engine.helpers import SHORT, Recorder, assert_identical, make_trainer, weights
from pars import seeds
from pars.engine import keep_freed_memory
from pars.losses import cross_entropy
from pars.method_api import Losses, Method, Stage, Step, Task
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
    # An evaluation drops nothing.
    dropout.register_forward_hook(lambda m, inputs, out: masks.append(out.detach()[:8] == 0) if m.training else None)
    trainer.run()
    assert len(masks) > 10
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == len(masks)


def test_seeding_gives_the_numbers_of_torchs_own_seeding_and_leaves_nothing_behind() -> None:
    drawn: list[torch.Tensor] = []

    def step(at: Step) -> Losses:
        drawn.append(torch.rand(5))
        return {"ce": cross_entropy(at.net(at.batch.weak), at.batch.labels).mean()}

    @dataclass(frozen=True, kw_only=True)
    class Drawing(Method):
        def stages(self, task: Task) -> tuple[Stage, ...]:
            return (Stage("a", task.epochs, step),)

    trainer = make_trainer(Drawing(), seed=3)
    waiting = len(torch.cuda._queued_calls)  # what torch would do if CUDA were started
    trainer.run()
    assert len(torch.cuda._queued_calls) == waiting
    assert len(drawn) == SHORT.epochs * trainer.steps
    for number, found in enumerate(drawn):
        torch.manual_seed(seeds.torch_seed(3, "torch", *divmod(number, trainer.steps)))
        assert torch.equal(torch.rand(5), found)


TOUCH = """
import resource, sys, torch
from pars.engine import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    sys.exit(3)
def use():
    torch.ones(10_000_000)  # 40 MB, freed at once
for _ in range(3):
    use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", TOUCH, how], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("this C library cannot be asked")
    return int(done.stdout)


def test_memory_that_was_freed_is_used_again_without_asking_the_kernel() -> None:
    pages = 5 * 40_000_000 // resource.getpagesize()
    given_back = page_faults("give back")
    kept = min(page_faults("keep") for _ in range(4))  # a busy kernel may take a page away now and then
    assert kept < pages / 10
    assert kept < given_back


def test_asking_twice_does_no_harm() -> None:
    assert keep_freed_memory() == keep_freed_memory()
