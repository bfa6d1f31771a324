"""The preset for Clothing1M, on a stand-in with a small network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from data.clothing import write_clothing1m

from pars import run
from pars.methods import PARSPaper
from pars.models import ModelConfig
from pars.noise import NoiseConfig


def test_the_preset_is_the_papers_recipe() -> None:
    config = run.preset("clothing1m")(NoiseConfig(), None)
    method, train = config.method, config.train
    assert isinstance(method, PARSPaper)
    assert (method.warm_up, method.lambda_N, method.robust) == (10, 0.01, "sce(alpha=10,beta=1,A=-9.21)")
    assert (train.batch_size, train.steps_per_epoch, train.class_balanced) == (32, 1000, True)
    assert (train.lr, train.weight_decay, train.gamma) == (0.002, 1e-3, 0.1)
    assert [milestone * train.epochs for milestone in train.milestones] == [25, 50, 75]
    assert (config.data.side, config.views.size, config.views.operations) == (256, 224, 4)
    assert config.model.name == "timm:resnet50.tv_in1k"


def test_three_steps_of_each_stage_run_and_are_repeatable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_clothing1m(tmp_path / "clothing")
    preset = run.preset("clothing1m")(NoiseConfig(), None)
    assert isinstance(preset.method, PARSPaper)
    config = replace(
        preset,
        data=replace(preset.data, name=str(root)),
        model=ModelConfig(name="small_cnn", width=2),
        method=replace(preset.method, warm_up=1),
        train=replace(preset.train, epochs=2, steps_per_epoch=3, batch_size=8, dynamics_every=0),
    )
    first, second = (run.train_or_resume(config).trainer for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.inputs.shape == (70, 3, 256, 256)
    assert [line["stage"] for line in first.history] == ["warm-up", "main"]
    assert first.evaluator.held_out_rows == 14  # the clean validation list
    for name, tensor in first.nets[0].average.state_dict().items():
        assert torch.equal(tensor, second.nets[0].average.state_dict()[name]), name
