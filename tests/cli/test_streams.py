"""Output that cannot be written, readers that leave, signals: one line at most, and the right exit code."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.helpers import DIGITS, one_document, pars, process, write_features
from pars.cli.main import main

FULL = Path("/dev/full")


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A line for the shell in which `pars` is this very package; the exit code is that of `pars`."""
    line = f'set -o pipefail; pars() {{ "{sys.executable}" -m pars "$@"; }}; {command}'
    env = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=env)


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", ["predict {run} {file}", "predict {run} {file} --json", "--help", "inspect --help"])
def test_a_full_disk_behind_stdout_is_one_line(command: str, features_run: Path, features_file: Path) -> None:
    done = shell(f"pars {command.format(run=features_run, file=features_file)} > /dev/full")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "cannot write the output: No space left on device" in done.stderr


def test_closed_streams_are_no_streams(features_run: Path, features_file: Path, tmp_path: Path) -> None:
    done = shell(f"pars predict {features_run} {features_file} >&-")
    assert (done.returncode, done.stderr) == (0, "")
    done = shell(f"pars train {' '.join(DIGITS)} --json --out {tmp_path / 'run'} 2>&-")
    assert done.returncode == 0
    assert one_document(done.stdout)["run"] == str(tmp_path / "run")


def test_the_usage_may_go_unread() -> None:
    done = shell("pars --help | true")
    assert done.returncode in (0, 141)  # as fast as `true` is
    assert done.stderr == ""


def test_training_goes_on_when_nobody_reads_its_lines(tmp_path: Path) -> None:
    training = process("train", *DIGITS, "--train.epochs", "4", "--out", tmp_path / "run")
    assert training.stdout is not None
    assert training.stderr is not None
    training.stderr.close()
    training.stdout.read()
    assert training.wait(timeout=60) == 0
    assert (tmp_path / "run" / "result.json").exists()


def test_letters_that_the_terminal_lacks_are_escaped(features_file: Path, tmp_path: Path) -> None:
    names = np.array(["chat", "chien", "époisses"])[np.arange(60) % 3]
    file = write_features(tmp_path / "fr.npz", y=names, y_test=names[:30])
    train = ("train", "--preset", "features", "--data.name", file, "--train.epochs", "1", "--model.name", "linear")
    assert pars(*train, "--out", tmp_path / "run") == 0
    for command in (f"evaluate {tmp_path / 'run'} {file}", f"inspect {tmp_path / 'run'}"):
        done = shell(f"pars {command}", PYTHONIOENCODING="ascii")
        assert done.returncode == 0, done.stderr
        assert "\\xe9poisses" in done.stdout or "inspect" in command


def test_control_characters_in_a_message_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert pars("evaluate", "no\x1b[31m\nrun", "digits") == 2
    err = capsys.readouterr().err
    assert "no\\x1b[31m\\nrun is not a run" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("command", "words"), [("train", "stopped before training began"), ("predict", "stopped")])
def test_ctrl_c_while_modules_are_imported_is_one_line(
    command: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(name: str) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib, "import_module", interrupted)
    assert main([command]) == 130
    assert capsys.readouterr().err == f"pars {command}: {words}\n"


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """As under nohup."""
    run = tmp_path / "run"
    begun = f"while [ ! -e {run / 'metrics.jsonl'} ]; do sleep 0.05; done"
    train = f"pars train {' '.join(DIGITS)} --train.epochs 30 --out {run}"
    done = shell(f"trap '' HUP; {train} & {begun}; kill -HUP $!; wait $!")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["[/b]", ":smile:", "a " * 60])
def test_class_names_are_shown_as_they_are(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = np.array(["cat", "dog", name])[np.arange(60) % 3]
    file = write_features(tmp_path / "odd.npz", y=names, y_test=names[:30])
    train = ("train", "--preset", "features", "--data.name", file, "--train.epochs", "1", "--model.name", "linear")
    assert pars(*train, "--out", tmp_path / "run") == 0
    capsys.readouterr()
    assert pars("evaluate", tmp_path / "run", file) == 0
    assert f"\n  {name}: " in capsys.readouterr().out
