"""Finished fits and runs that tests only read."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.helpers import pars

from html_report.folders import fit_texts, write_columns


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit_texts(tmp_path_factory.mktemp("report-texts"))


@pytest.fixture(scope="session")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit_texts(tmp_path_factory.mktemp("report-classic"), "--method", "logistic-regression")


@pytest.fixture(scope="session")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report-columns")
    table = write_columns(folder / "rows.csv")
    assert pars("fit", table, "--label", "y", "--method", "logistic-regression", "--out", folder / "fit") == 0
    return folder / "fit"


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `pars train` on 200 small images, half of the labels wrong."""
    out = tmp_path_factory.mktemp("report-digits") / "run"
    flags = ("--data.limit", "200", "--train.epochs", "6", "--data.holdout", "0.1")
    assert pars("train", *flags, "--noise.kind", "symmetric", "--noise.rate", "0.5", "--out", out) == 0
    return out
