"""Runs that many tests look at; those that change one copy it."""

from __future__ import annotations

from pathlib import Path

import pytest
from run.helpers import Killed, StopAfter, tiny

from cli.helpers import DIGITS, pars, write_features
from pars import run
from pars.noise import NoiseConfig


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shelf")


@pytest.fixture(scope="session")
def digits_run(shelf: Path) -> Path:
    noise = ("--noise.kind", "symmetric", "--noise.rate", "0.5")
    assert pars("train", *DIGITS, *noise, "--data.holdout", "0.1", "--out", shelf / "digits") == 0
    return shelf / "digits"


@pytest.fixture(scope="session")
def features_file(shelf: Path) -> Path:
    return write_features(shelf / "features.npz")


@pytest.fixture(scope="session")
def features_run(shelf: Path, features_file: Path) -> Path:
    """One that knows cat, dog and eel apart."""
    flags = ("--train.epochs", "12", "--train.batch-size", "16", "--train.lr", "0.1", "--train.ema", "0.9")
    train = ("train", "--preset", "features", "--data.name", features_file, *flags, "--model.name", "linear")
    assert pars(*train, "--out", shelf / "clouds") == 0
    return shelf / "clouds"


@pytest.fixture(scope="session")
def unfinished_run(shelf: Path) -> Path:
    with pytest.raises(Killed):
        run.train(tiny(noise=NoiseConfig()), shelf / "unfinished", callback=StopAfter(1))
    return shelf / "unfinished"
