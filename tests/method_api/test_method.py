"""What a method declares about its lengths in epochs."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch

from pars.method_api import Length, Task
from pars.methods import PARS, REGISTRY, by_name
from pars.methods.f_correction import LossCorrection
from pars.methods.joint_optim import JointOptim

TASK = Task(n_rows=100, n_classes=10, labels=torch.arange(100) % 10, epochs=100)


@pytest.mark.parametrize("name", REGISTRY)
def test_every_field_with_a_share_is_declared_as_a_length(name: str) -> None:
    method = by_name(name)
    names = {field.name for field in fields(method)}
    declared = {length.epochs: length.share for length in method.lengths_in_epochs}
    assert {each for each in names if f"{each}_share" in names} <= declared.keys()
    assert {*declared, *declared.values()} <= names


@pytest.mark.parametrize("name", REGISTRY)
def test_a_free_length_is_that_of_the_first_stage(name: str) -> None:
    method = by_name(name)
    free = method.free_length
    if free is None:
        return
    for epochs in (5, 8):
        given = replace(method, **{free.epochs: epochs})
        assert given.stages(TASK)[0].epochs == epochs
        assert given.free_length is None


def test_a_length_is_free_only_where_a_share_decides() -> None:
    assert PARS().free_length == Length("warm_up", "warm_up_share", first_stage=True)
    assert PARS(warm_up=3).free_length is None
    assert PARS(warm_up_share=0.0).free_length is None
    assert PARS(warm_up_share=1.0).free_length is None
    assert by_name("selfie").free_length is None  # its warm-up is a part of each run, not a stage
    assert by_name("ce").free_length is None


def test_lengths_in_epochs_become_shares() -> None:
    assert LossCorrection(warm_up=30).in_shares(120) == LossCorrection(warm_up_share=0.25)
    assert JointOptim(update_from=2).in_shares(10) == JointOptim(update_share=0.2)
    assert PARS(warm_up=30).in_shares(20) == PARS(warm_up_share=1.0)
