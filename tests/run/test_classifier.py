"""A finished run predicts as its trainer did."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pars import run
from pars.augment import ViewsConfig
from pars.data import Dataset
from pars.engine import RunFolder, TrainConfig, Trainer, as_tensor, load_tensors
from pars.engine.checkpoint import save_tensors
from pars.errors import UserError
from pars.models import ModelConfig
from pars.noise import NoiseConfig
from pars.run.training_data import first_files
from run.helpers import Killed, StopAfter, features, snapshot, tiny


def trained(config: run.RunConfig, folder: Path, dataset: Dataset | None = None) -> Trainer:
    """A run of which the trainer is at hand."""
    prepared = run.load_training_data(config, dataset)
    trainer = run.build_trainer(config, prepared, RunFolder(folder))
    given = {"dataset": dataset is not None, "networks": False}
    with RunFolder(folder).begin(first_files(RunFolder(folder), config, prepared, given, 1)):
        trainer.run()
    return trainer


def own_predictions(trainer: Trainer, *, average: bool = True) -> torch.Tensor:
    """Of its test rows, as it read them."""
    assert trainer.data.test is not None
    return trainer.predict_proba(as_tensor(trainer.data.test.inputs), average=average)


@pytest.mark.parametrize("model", [ModelConfig(name="small_cnn", width=4), ModelConfig(name="linear")])
def test_images_are_predicted_as_by_the_trainers_averaged_weights(model: ModelConfig, tmp_path: Path) -> None:
    trainer = trained(tiny(model=model), tmp_path / "run")
    classifier = run.load_run(tmp_path / "run")
    assert trainer.data.test is not None
    predicted = classifier.predict_proba(trainer.data.test.inputs)
    assert torch.equal(predicted, own_predictions(trainer))
    assert not torch.equal(predicted, own_predictions(trainer, average=False))
    assert classifier.classes == tuple("0123456789")


def test_features_are_standardized_as_in_training(tmp_path: Path) -> None:
    dataset = features()
    trainer = trained(tiny(noise=NoiseConfig(), train=TrainConfig(epochs=3, batch_size=16)), tmp_path / "run", dataset)
    classifier = run.load_run(tmp_path / "run")
    assert dataset.test is not None
    assert torch.equal(classifier.predict_proba(dataset.test.inputs), own_predictions(trainer))
    one_by_one = torch.cat([classifier.predict_proba(dataset.test.inputs[i : i + 1]) for i in range(30)])
    torch.testing.assert_close(one_by_one, own_predictions(trainer))  # by the training rows, not by those at hand


def test_predictions_are_those_that_result_json_counts(tmp_path: Path) -> None:
    dataset = features()
    config = tiny(noise=NoiseConfig(), train=TrainConfig(epochs=8, batch_size=16, lr=0.1, ema=0.9))
    result = run.train(config, tmp_path / "run", dataset=dataset)
    assert dataset.test is not None
    predicted = run.load_run(tmp_path / "run").predict_proba(dataset.test.inputs).argmax(dim=1).numpy()
    assert result["test"]["ema"]["last"] == pytest.approx(100 * (predicted == dataset.test.labels).mean())
    assert result["test"]["ema"]["last"] > 80


def test_rows_may_be_read_only_or_oddly_strided(tmp_path: Path) -> None:
    trainer = trained(tiny(), tmp_path / "run")
    classifier = run.load_run(tmp_path / "run")
    assert trainer.data.test is not None
    inputs = trainer.data.test.inputs
    locked = inputs.copy()
    locked.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(classifier.predict_proba(locked), own_predictions(trainer))
        assert torch.equal(classifier.predict_proba(inputs[::-1]), own_predictions(trainer).flip(0))


def test_rows_of_another_shape_are_refused(tmp_path: Path) -> None:
    trained(tiny(), tmp_path / "run")
    classifier = run.load_run(tmp_path / "run")
    with pytest.raises(UserError, match=r"mine.npz: rows have shape \[3, 8, 8\], those of training had \[1, 8, 8\]"):
        classifier.predict_proba(np.zeros((2, 3, 8, 8), np.uint8), "mine.npz")
    with pytest.raises(UserError, match=r"inputs: no rows, expected at least one"):
        classifier.predict_proba(np.zeros((0, 1, 8, 8), np.uint8))


def test_rows_without_a_finite_answer_are_named(tmp_path: Path) -> None:
    run.train(tiny(noise=NoiseConfig()), tmp_path / "run", dataset=features())
    classifier = run.load_run(tmp_path / "run")
    rows = features().train.inputs.copy()
    rows[17, 0] = 3e38  # a column with deviations of a thousandth
    with pytest.raises(UserError, match=r"mine.npz: row 17, column 0 is 3e\+38: not finite after standardization"):
        classifier.predict_proba(rows, "mine.npz")
    rows[17, 0] = np.nan
    with pytest.raises(UserError, match=r"row 17"):
        classifier.predict_proba(rows)
    with torch.no_grad():
        next(classifier.networks[0].parameters()).fill_(3e38)
    with pytest.raises(UserError, match=r"{}: the network's output for row 0 is not finite"):
        classifier.predict_proba(features().train.inputs, "{}")


def test_pieces_of_images_are_predicted_as_by_the_trainer(tmp_path: Path) -> None:
    config = tiny(model=ModelConfig(name="small_cnn", width=4), views=ViewsConfig(size=6))
    trainer = trained(config, tmp_path / "run")
    assert trainer.data.test is not None
    predicted = run.load_run(tmp_path / "run").predict_proba(trainer.data.test.inputs)
    assert torch.equal(predicted, own_predictions(trainer))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("networks", 0),
        ("networks", "1"),
        ("networks", 10**9),
        ("classes", []),
        ("classes", "0123456789"),
        ("classes", [1, 2]),
        ("input_shape", [8, 8]),
        ("input_shape", [1, -8, 8]),
        ("input_shape", [1, 8.0, 8]),
        ("mean", None),
        ("mean", [0.1, 0.2]),
        ("std", [0.0]),
        ("std", ["x"]),
    ],
)
def test_a_model_whose_note_was_damaged_is_named(key: str, value: object, tmp_path: Path) -> None:
    run.train(tiny(), tmp_path / "run")
    path = tmp_path / "run" / "model.safetensors"
    tensors, note = load_tensors(path)
    save_tensors(path, tensors, note | {key: value})
    with pytest.raises(UserError, match=rf"model.safetensors is damaged: .*{key}"):
        run.load_run(tmp_path / "run")


def own_network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 7), nn.Tanh(), nn.Linear(7, 10))


def test_a_users_own_network_trains_and_loads_again(tmp_path: Path) -> None:
    mine = own_network()
    before = [p.detach().clone() for p in mine.parameters()]
    result = run.train(tiny(), tmp_path / "run", networks=[mine])
    assert not any(torch.equal(old, p) for old, p in zip(before, mine.parameters(), strict=True))
    classifier = run.load_run(tmp_path / "run", networks=[own_network()])
    test = run.load_training_data(tiny()).data.test
    assert test is not None
    right = classifier.predict_proba(test.inputs).argmax(dim=1).numpy() == test.labels
    assert result["test"]["ema"]["last"] == pytest.approx(100 * right.mean())


def test_a_users_own_network_resumes_to_the_same_weights(tmp_path: Path) -> None:
    torch.manual_seed(0)
    first, second = own_network(), own_network()
    second.load_state_dict(first.state_dict())
    run.train(tiny(), tmp_path / "whole", networks=[first])
    with pytest.raises(Killed):
        run.train(tiny(), tmp_path / "halves", networks=[second], callback=StopAfter(1))
    run.resume(tmp_path / "halves", networks=[own_network()])
    assert snapshot(tmp_path / "halves") == snapshot(tmp_path / "whole")


def test_a_network_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    run.train(tiny(), tmp_path / "run", networks=[own_network()])
    with pytest.raises(UserError, match=r"model.safetensors does not fit the network"):
        run.load_run(tmp_path / "run", networks=[nn.Linear(3, 3)])
    with pytest.raises(UserError, match=r"holds 1 network\(s\), 2 were given"):
        run.load_run(tmp_path / "run", networks=[own_network(), own_network()])
    with pytest.raises(UserError, match=r"trains 1 network\(s\), 0 were given"):
        run.train(tiny(), tmp_path / "none", networks=[])
    assert not (tmp_path / "none").exists()


def test_what_is_not_a_finished_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nope is not a run: .*config.toml is missing"):
        run.load_run(tmp_path / "nope")
    with pytest.raises(Killed):
        run.train(tiny(), tmp_path / "begun", callback=StopAfter(1))
    with pytest.raises(UserError, match=r"begun is not finished: .*model.safetensors is missing; `pars resume "):
        run.load_run(tmp_path / "begun")


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    result = run.train(tiny(), tmp_path / "run")
    before = snapshot(tmp_path / "run")
    assert run.resume(tmp_path / "run") == result
    assert snapshot(tmp_path / "run") == before


def test_a_run_that_never_reached_a_checkpoint_begins_again(tmp_path: Path) -> None:
    config = tiny(train=replace(tiny().train, checkpoint_every=2))
    run.train(config, tmp_path / "whole")
    with pytest.raises(Killed):
        run.train(config, tmp_path / "killed", callback=StopAfter(1))
    assert not (tmp_path / "killed" / "checkpoint.safetensors").exists()
    run.resume(tmp_path / "killed")
    assert snapshot(tmp_path / "killed") == snapshot(tmp_path / "whole")
