"""Training that has gone astray ends with a message, never with a model."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.helpers import SHORT, make_trainer, network, toy, views
from engine.test_trainer import Spy
from pars.engine import RunFolder, Trainer, load_tensors
from pars.errors import UserError
from pars.method_api import Step
from pars.methods import Supervised


def test_a_loss_that_is_not_a_number_stops_the_run_and_spares_the_checkpoint(tmp_path: Path) -> None:
    def tell(at: Step) -> None:
        if at.progress > 0.6:
            with torch.no_grad():
                next(at.net.module.parameters()).fill_(float("nan"))

    trainer = make_trainer(Spy(tell=tell), folder=tmp_path)
    with pytest.raises(
        UserError, match=r"not finite in epoch 3: \{'ce': nan\}; a smaller train\.lr or other method settings may help"
    ):
        trainer.run()
    tensors, note = load_tensors(tmp_path / "checkpoint.safetensors")
    assert note["epoch"] == 2
    assert all(tensor.isfinite().all() for tensor in tensors.values())
    assert len(RunFolder(tmp_path).read_metrics()) == 2


def test_a_last_step_that_ruins_the_weights_leaves_no_model(tmp_path: Path) -> None:
    """The losses of that epoch are still finite."""

    def tell(at: Step) -> None:
        if at.progress > 0.9:
            weight = next(at.net.module.parameters())
            weight.register_hook(lambda gradient: gradient * math.nan)  # type: ignore[no-untyped-call]

    trainer = make_trainer(Spy(tell=tell), folder=tmp_path)
    with pytest.raises(
        UserError, match=r"a weight is not finite after epoch 4; a smaller train\.lr or other method settings may help"
    ):
        trainer.run()
    folder = RunFolder(tmp_path)
    assert not folder.model.exists()
    assert load_tensors(folder.checkpoint)[1]["epoch"] == len(folder.read_metrics()) == 3


def test_finite_weights_without_a_finite_answer_leave_no_model(tmp_path: Path) -> None:
    def tell(at: Step) -> None:
        if at.progress > 0.9:
            with torch.no_grad():
                for parameter in at.net.average.parameters():
                    parameter.fill_(3e38)

    tmp_path.joinpath("run").mkdir()
    trainer = Trainer(
        method=Spy(tell=tell),
        data=toy(),
        networks=[network(batch_norm=False)],  # whose statistics would not be finite either
        views=views(),
        config=replace(SHORT, ema=0.999999),
        seed=0,
        folder=RunFolder(tmp_path / "run"),
    )
    with pytest.raises(UserError, match=r"no finite answer to some rows after epoch 4"):
        trainer.run()
    assert not RunFolder(tmp_path / "run").model.exists()


def test_a_diverging_run_says_so() -> None:
    with pytest.raises(UserError, match="a loss is not finite"):
        make_trainer(Supervised(), config=replace(SHORT, epochs=20, lr=1e30)).run()
