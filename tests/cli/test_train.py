"""`pars train`, `resume` and `inspect`: what they leave on disk, and what they print."""

from __future__ import annotations

import json
import signal
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run.helpers import snapshot
from safetensors.numpy import load_file

from cli.helpers import DIGITS, one_document, pars, process, write_features
from pars import run
from pars.methods import PARSPaper, Supervised
from pars.noise import NoiseConfig


def config_of(folder: Path) -> run.RunConfig:
    return run.open_run(folder)[1]


def test_a_run_is_a_folder_of_open_formats(digits_run: Path) -> None:
    assert set(snapshot(digits_run)) == {
        "checkpoint.safetensors",
        "config.toml",
        "dynamics.safetensors",
        "files.json",
        "inputs.json",
        "labels.csv",
        "metrics.jsonl",
        "model.safetensors",
        "noise.json",
        "result.json",
        "rows-main.safetensors",
        "rows-warm-up.safetensors",
    }
    lines = [json.loads(line) for line in (digits_run / "metrics.jsonl").read_text().splitlines()]
    assert [(line["epoch"], line["stage"]) for line in lines] == [(1, "warm-up"), (2, "main")]
    assert json.loads((digits_run / "noise.json").read_text())["kind"] == "symmetric"
    assert json.loads((digits_run / "result.json").read_text())["epochs"] == 2
    labels = np.loadtxt(digits_run / "labels.csv", dtype=str, delimiter=",", skiprows=1)
    assert labels.shape == (200, 3)
    assert 0.3 < (labels[:, 1] != labels[:, 2]).mean() < 0.6
    assert load_file(digits_run / "rows-main.safetensors")["predicted"].shape == (200,)
    weights = load_file(digits_run / "model.safetensors")
    assert {name.split(".")[0] for name in weights} == {"average", "raw"}
    assert all(np.isfinite(array).all() for array in weights.values())


def test_json_is_one_document_on_stdout_and_all_else_is_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert pars("train", *DIGITS, "--json", "--out", folder) == 0
    out, err = capsys.readouterr()
    result = one_document(out)
    assert result.pop("run") == str(folder)
    assert result == json.loads((folder / "result.json").read_text())
    assert err.startswith("digits: digits, 2 epochs on c")
    assert err.splitlines()[0].endswith(f"; the run goes to {folder}")
    assert "epoch 2" in err
    assert f"run saved in {folder}" in err
    assert pars("resume", folder, "--json") == 0
    assert one_document(capsys.readouterr().out) == {"run": str(folder), **result}
    assert pars("inspect", folder, "--json") == 0
    assert isinstance(one_document(capsys.readouterr().out), dict)


def test_people_get_a_table_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pars("train", *DIGITS, "--out", tmp_path / "run") == 0
    assert "digits" in capsys.readouterr().out


def test_a_run_without_truth_and_without_test_rows_is_shown_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labels of a test set that are all missing are no test set."""
    changes: dict[str, dict[str, Any]]
    changes = {
        "none": {"x_test": None, "y_test": None},
        "empty": {"y_test": np.full(30, "")},
        "absent": {"y_test": None},
    }
    for name, change in changes.items():
        file = write_features(tmp_path / f"{name}.npz", **change)
        train = ("train", "--preset", "features", "--data.name", file, "--train.epochs", "2", "--model.name", "linear")
        assert pars(*train, "--out", tmp_path / name, "--json") == 0
        assert "test" not in one_document(capsys.readouterr().out)
        assert pars("resume", tmp_path / name) == 0
        assert pars("inspect", tmp_path / name) == 0
        capsys.readouterr()


def test_flags_win_over_the_file_and_the_file_over_the_preset(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("seed = 3\n[train]\nepochs = 2\nlr = 0.25\n[method]\ntau = 0.5\n[data]\nlimit = 200\n")
    out = tmp_path / "run"
    flags = ("--train.lr", "0.5", "--method.tau", "0.75", "--model.name", "linear")
    assert pars("train", "--preset", "digits", "--config", mine, *flags, "--out", out) == 0
    config, preset = config_of(out), run.preset("digits")(NoiseConfig())
    assert isinstance(config.method, PARSPaper)
    assert (config.seed, config.train.epochs, config.data.limit) == (3, 2, 200)  # the file's
    assert (config.train.lr, config.method.tau) == (0.5, 0.75)  # the flags'
    assert config.train.batch_size == preset.train.batch_size != 128  # the preset's


@pytest.mark.parametrize("kind", ["symmetric", "auto", None])
@pytest.mark.parametrize("where", ["flags", "file"])
def test_a_preset_sees_the_noise_wherever_it_is_given(where: str, kind: str | None, tmp_path: Path) -> None:
    """The paper's warm-up is longer above 60 % noise; only the configuration matters here, so the data is missing."""
    from pars.cli.train import parser, resolve

    given = ["--preset", "cifar10", *([] if kind is None else ["--noise.kind", kind]), "--noise.rate", "0.8"]
    if where == "file":
        line = "" if kind is None else f"kind = '{kind}'\n"
        (tmp_path / "mine.toml").write_text(f"[noise]\n{line}rate = 0.8\n")
        given = ["--preset", "cifar10", "--config", str(tmp_path / "mine.toml")]
    options, flags = parser().parse_known_args(given)
    config = resolve(options, flags)
    assert config == run.preset("cifar10")(NoiseConfig(kind="symmetric", rate=0.8))
    assert isinstance(config.method, PARSPaper)
    assert config.method.warm_up == 40
    options, flags = parser().parse_known_args([*given, "--method.warm-up", "7"])
    chosen = resolve(options, flags).method
    assert isinstance(chosen, PARSPaper)
    assert chosen.warm_up == 7


@pytest.mark.parametrize(("rate", "kind"), [("0.5", "symmetric"), ("0", "none")])
def test_a_run_stores_the_kind_of_noise_that_a_rate_means(rate: str, kind: str, tmp_path: Path) -> None:
    assert pars("train", *DIGITS, "--noise.rate", rate, "--out", tmp_path / "run") == 0
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["noise"]["kind"] == kind
    assert json.loads((tmp_path / "run" / "noise.json").read_text())["kind"] == kind


def test_the_method_is_chosen_by_name(tmp_path: Path) -> None:
    assert pars("train", *DIGITS, "--method", "warmup", "--out", tmp_path / "run") == 0
    assert config_of(tmp_path / "run").method == Supervised(loss="nce+mae")


def test_the_configuration_of_one_run_is_that_of_the_next(digits_run: Path, tmp_path: Path) -> None:
    assert pars("train", "--config", digits_run / "config.toml", "--out", tmp_path / "again") == 0
    assert snapshot(tmp_path / "again") == snapshot(digits_run)


def test_without_out_the_run_gets_a_folder_below_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert pars("train", *DIGITS) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("digits-2")
    assert (folder / "result.json").exists()


def test_resuming_a_finished_run_reports_it_and_changes_nothing(
    digits_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(digits_run)
    assert pars("resume", digits_run, "--json") == 0
    result = json.loads((digits_run / "result.json").read_text())
    assert one_document(capsys.readouterr().out) == {"run": str(digits_run), **result}
    assert snapshot(digits_run) == before


def test_inspect_writes_plots_where_it_is_told(
    digits_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(digits_run)
    assert pars("inspect", digits_run, "--plots", tmp_path / "plots", "--format", "png") == 0
    plots = sorted((tmp_path / "plots").iterdir())
    assert plots
    assert all(plot.suffix == ".png" and plot.read_bytes()[:4] == b"\x89PNG" for plot in plots)
    assert all(f"wrote {plot}" in capsys.readouterr().err for plot in plots[:1])
    assert snapshot(digits_run) == before


def test_inspect_shows_an_unfinished_run(
    unfinished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pars("inspect", unfinished_run, "--plots", tmp_path) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_run_stopped_by_a_signal_is_resumed_to_the_same_bytes(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """The step under way is finished and saved, and nothing is lost or added."""
    flags = (*DIGITS, "--train.epochs", "20", "--train.batch-size", "16", "--noise.kind", "symmetric")
    train = ("train", *flags, "--noise.rate", "0.5", "--out")
    stopped = process(*train, tmp_path / "stopped")
    metrics = tmp_path / "stopped" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.read_text().count("\n") >= 1):
        assert stopped.poll() is None, stopped.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    stopped.send_signal(number)
    out, err = stopped.communicate(timeout=60)
    assert stopped.returncode == code, err
    assert out == ""
    assert "Traceback" not in err
    assert err.endswith(f"Stopped and saved. Resume with: pars resume {tmp_path / 'stopped'}\n")
    assert not (tmp_path / "stopped" / "result.json").exists()
    assert pars("resume", tmp_path / "stopped") == 0
    assert pars(*train, tmp_path / "whole") == 0
    assert snapshot(tmp_path / "stopped") == snapshot(tmp_path / "whole")
