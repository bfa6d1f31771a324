"""Training on features with stored views."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pars import data, run
from pars.augment import ViewsConfig
from pars.data import DataConfig, Dataset
from pars.errors import UserError
from pars.noise import NoiseConfig
from run.helpers import features, tiny


def with_views(dataset: Dataset, change: float) -> Dataset:
    """Two weak and two strong views of each row, further from it the greater `change`."""
    inputs = np.asarray(dataset.train.inputs)
    noise = np.random.default_rng(5).standard_normal((len(inputs), 4, inputs.shape[1]))
    cached = (inputs[:, None] + change * noise * inputs.std(axis=0)).astype(np.float32)
    return replace(dataset, train=replace(dataset.train, cached=cached))


def model(path: Path, dataset: Dataset, **views: str | float) -> bytes:
    config = tiny(noise=NoiseConfig(), views=ViewsConfig(**views))  # type: ignore[arg-type]
    run.train(config, path, dataset=dataset)
    return (path / "model.safetensors").read_bytes()


def test_views_that_equal_their_rows_train_as_no_views_do(tmp_path: Path) -> None:
    still = {"dropout_weak": 0.0, "dropout_strong": 0.0}
    one = model(tmp_path / "a", with_views(features(), 0.0), weak="cached", strong="cached", **still)
    other = model(tmp_path / "b", features(), weak="none", strong="none")
    assert one == other


def test_stored_views_are_what_training_sees(tmp_path: Path) -> None:
    one = model(tmp_path / "a", with_views(features(), 0.0))
    other = model(tmp_path / "b", with_views(features(), 0.5))
    assert one != other


def test_a_file_with_views_trains_and_predicts_from_its_plain_rows(tmp_path: Path) -> None:
    dataset = with_views(features(), 0.3)
    train, test = dataset.train, dataset.test
    assert test is not None
    arrays = {"x": train.inputs, "x_views": train.cached, "y": train.labels, "classes": dataset.classes}
    np.savez(tmp_path / "f.npz", x_test=test.inputs, y_test=test.labels, **arrays)  # type: ignore[arg-type]
    config = tiny(noise=NoiseConfig(), data=DataConfig(name=str(tmp_path / "f.npz")))
    run.train(config, tmp_path / "run")
    run.train(config, tmp_path / "given", dataset=dataset)  # the same rows from Python
    one, other = (tmp_path / name / "model.safetensors" for name in ("run", "given"))
    assert one.read_bytes() == other.read_bytes()
    rows = data.load_rows(str(tmp_path / "f.npz"), split="train")
    assert rows.cached is None
    plain = run.load_run(tmp_path / "run").predict_proba(rows.inputs)
    np.savez(tmp_path / "plain.npz", x=train.inputs)
    again = run.load_run(tmp_path / "run").predict_proba(data.load_rows(str(tmp_path / "plain.npz")).inputs)
    assert plain.equal(again)


def test_a_run_goes_on_with_its_own_views_only(tmp_path: Path) -> None:
    dataset = with_views(features(), 0.3)
    run.train(tiny(noise=NoiseConfig()), tmp_path / "run", dataset=dataset)
    for name in ("result.json", "model.safetensors"):
        (tmp_path / "run" / name).unlink()
    with pytest.raises(UserError, match=r"train\.views_blake2b was"):
        run.resume(tmp_path / "run", dataset=with_views(features(), 0.4))
    with pytest.raises(UserError, match=r"train\.views was 4"):
        run.resume(tmp_path / "run", dataset=features())


def test_views_of_another_shape_are_refused(tmp_path: Path) -> None:
    x = np.zeros((6, 3), np.float32)
    for views in (np.zeros((6, 3, 3), np.float32), np.zeros((5, 2, 3), np.float32), np.zeros((6, 2, 4), np.float32)):
        np.savez(tmp_path / "f.npz", x=x, x_views=views, y=np.arange(6) % 2)
        with pytest.raises(UserError, match=r"views encoded beforehand of shape .* expected \[6, '2N', 3\]"):
            data.load(DataConfig(name=str(tmp_path / "f.npz")))
    views = np.zeros((6, 2, 3), np.float32)
    views[4, 1, 2] = np.nan
    np.savez(tmp_path / "f.npz", x=x, x_views=views, y=np.arange(6) % 2)
    with pytest.raises(UserError, match=r"\(views\): row 4, column 1, 2 is nan"):
        data.load(DataConfig(name=str(tmp_path / "f.npz")))
