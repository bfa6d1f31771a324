"""A user's mistake: exit code 2, one message that names the row, file or key, and nothing changed on disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cli.helpers import DIGITS, NAMES, message, pars, refused, write_features

Y = np.arange(60) % 3


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--preset", "cifr10"], "unknown preset 'cifr10'; there are: digits, "),
        (["--method", "parz"], "unknown method 'parz'; did you mean 'pars'? there are: pars, "),
        (["--noise.kind", "symmetric", "--noise.rate", "2"], "noise.rate must be between 0 and 1, not 2.0"),
        (["--noise.kind", "none", "--noise.rate", "0.5"], "noise.rate = 0.5 contradicts noise.kind = 'none'"),
        (["--noise.kind", "symetric"], "'symetric' for argument '--noise.kind'"),
        (["--noise.kind", "file", "--noise.path", "nope.pt"], "nope.pt is missing"),
        (["--noise.kind", "matrix", "--noise.path", "nope.csv"], "nope.csv: file not found"),
        (["--train.epochs", "0"], "train.epochs is 0, expected at least 1"),
        (["--train.epochs", "two"], "--train.epochs"),
        (["--train.lr", "nan"], "train.lr is nan"),
        (["--train.batch-size", "0"], "train.batch_size is 0"),
        (["--method.tau", "2"], "method.tau is 2.0, expected a number from 0 to 1"),
        (["--method.warm-up", "3"], "method.warm_up is 3 epochs, expected 0 to 2, for there are no more"),
        (["--method.robust", "nce+mea"], "no loss 'mea'"),
        (["--method", "ce", "--method.tau", "0.5", "--method.loss", "cee"], "no loss 'cee'"),
        (["--bogus", "3"], "--bogus"),
        (["--train.epoch", "3"], "--train.epoch"),
        (["surplus"], "surplus"),
        (["--preset"], "--preset"),
        (["--config", "nope.toml"], "nope.toml does not exist"),
        (["--data.name", "nope.npz"], "'nope.npz' is neither a known data set nor a path that exists"),
        (["--data.limit", "5"], "class 4 has no labeled rows"),
        (["--data.limit", "100000"], "data.limit: 100000, expected at most 1347"),
        (["--data.labeled", "5"], "labeled: 5, expected at least 10"),
        (["--data.holdout", "1"], "data.holdout: 1.0"),
        (["--model.name", "resnet"], "model.name is 'resnet'; expected auto"),
        (["--model.name", "mlp", "--model.hidden", "0"], "model.hidden must contain sizes of at least 1"),
        (["--views.weak", "dropout"], "views.weak: dropout does not fit images"),
        (["--views.mirror"], "views.mirror averages predictions over mirror images, but training shows none"),
    ],
)
def test_a_wrong_setting_is_named(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ("train", *DIGITS, "--out", tmp_path / "run", *flags)
    assert words in refused(args, tmp_path, capsys)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["train", "--noise.kind", "symetric"], "'symetric' for argument '--noise.kind'. Expected one of ('auto', "),
        (["train", "--train.epochs", "two"], "'two'; expected --train.epochs INT; see pars train --help"),
        (["train", "--train.epoch", "3"], "--train.epoch, 3; expected --train.epochs INT"),
        (["train", "--preset"], "argument --preset: expected one argument"),
        (["predict", "run"], "the following arguments are required: data"),
        (["predict", "run", "x.npz", "--device", "gpu"], "invalid choice: 'gpu'"),
        (["augment-preview", "digits", "x.png", "--views.strong", "much"], "'--views.strong'. Expected one of ("),
        (["augment-preview", "digits", "x.png", "--views.mirror"], "views.mirror is about predictions"),
        (["encode", "digits", "x.npz", "--views.mirror"], "views.mirror is about predictions"),
        (["tran"], "unknown command 'tran'; there are: demo, train, "),
    ],
)
def test_a_wrong_flag_is_one_line(args: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert pars(*args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


def test_a_command_that_several_processes_would_all_do_is_refused_under_torchrun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    said = refused(("fit", "rows.npz", "--out", tmp_path / "fit"), tmp_path, capsys)
    assert "pars fit: it runs in one process, without torchrun" in said


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_cuda_where_there_is_none(
    features_run: Path, features_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "device is 'cuda', but this torch sees no CUDA device; use --device auto or cpu"
    assert words in refused(("train", *DIGITS, "--out", tmp_path / "run", "--device", "cuda"), tmp_path, capsys)
    for command in ("evaluate", "predict"):
        assert words in refused((command, features_run, features_file, "--device", "cuda"), features_run, capsys)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[train]\nepoch = 3\n", "mine.toml: unknown key 'train.epoch'; did you mean 'epochs'?"),
        ("[train\n", "mine.toml is not valid TOML: "),
        ("[train]\nlr = 'fast'\n", "mine.toml: train.lr is 'fast', expected a number"),
        ("[train]\nepochs = 0\n", "mine.toml: train.epochs is 0, expected at least 1"),
        ("[method]\nkind = ['PARS']\n", "mine.toml: method.kind is ['PARS']"),
    ],
)
def test_a_wrong_configuration_file_is_named(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.toml").write_text(text)
    args = ("train", *DIGITS, "--config", tmp_path / "mine.toml", "--out", tmp_path / "run")
    assert words in refused(args, tmp_path, capsys)


def test_a_method_by_name_and_another_by_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("[method]\nkind = 'PARS'\n")
    args = ("train", *DIGITS, "--config", mine, "--method", "ce", "--out", tmp_path / "run")
    assert f"--method is ce, but {mine} chooses PARS" in refused(args, tmp_path, capsys)


NUMBERS = np.where(np.arange(60) == 17, 5, Y)


def with_value(row: int, column: int, value: float) -> Any:
    x = np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32)
    x[row, column] = value
    return x


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y": NUMBERS, "y_test": Y[:30], "classes": NAMES}, "bad.npz (training): labels: row 17 is 5, expected 0..2"),
        ({"y": Y - 2 * (np.arange(60) == 9), "y_test": Y[:30]}, "labels: row 9 is -2"),
        ({"y": Y + 0.5 * (np.arange(60) == 9), "y_test": Y[:30]}, "row 9 is 0.5, expected a class number"),
        ({"y": NUMBERS, "y_test": Y[:30]}, "bad.npz (training): class 3 has no labeled rows"),
        ({"classes": np.array([*NAMES, "fox"])}, "bad.npz (training): class 3 has no labeled rows"),
        ({"y": np.where(Y == 1, "", NAMES[Y])}, "bad.npz (training): class 1 has no labeled rows"),
        ({"x": with_value(31, 2, np.nan)}, "bad.npz (training): row 31, column 2 is nan"),
        ({"x": with_value(31, 2, np.inf)}, "bad.npz (training): row 31, column 2 is inf"),
        ({"x_test": with_value(7, 4, np.nan)[:30]}, "bad.npz (test): row 7, column 4 is nan"),
        ({"y": NAMES[Y[:50]]}, "expected one label per row: [60]"),
        ({"y": np.full(60, "cat"), "y_test": np.full(30, "cat")}, "1 class(es), expected at least 2"),
        ({"y": None}, "bad.npz: no y in it"),
        ({"x": None}, "bad.npz: no x in it"),
        ({"x_test": None}, "bad.npz: y_test without x_test"),
        ({"x_test": np.zeros((30, 4), np.float32)}, "rows of x_test have shape [4], expected [5]"),
        ({"x": np.zeros((60, 5, 5), np.float32)}, "images of dtype float32, expected uint8"),
        ({"x": np.array([{}] * 60)}, "bad.npz: x: holds Python objects"),
    ],
)
def test_wrong_rows_are_named(
    changes: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_features(tmp_path / "bad.npz", **changes)
    assert words in refused(("train", "--data.name", file, "--out", tmp_path / "run"), tmp_path, capsys)


def test_a_file_that_was_cut_off_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_features(tmp_path / "bad.npz")
    file.write_bytes(file.read_bytes()[:-300])
    said = refused(("train", "--data.name", file, "--out", tmp_path / "run"), tmp_path, capsys)
    assert f"{file}: not a complete .npz file" in said


@pytest.mark.parametrize("size", [0, 1000])
def test_a_truncated_cifar_batch_is_named(size: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta"):
        (folder / name).write_bytes(b"\x80\x02}" + bytes(size))
    args = ("train", "--preset", "cifar10", "--data.root", tmp_path, "--data.no-download", "--out", tmp_path / "run")
    said = refused(args, tmp_path, capsys)
    assert str(folder) in said
    assert any(name in said for name in ("data_batch_1", "batches.meta"))


def test_a_folder_that_holds_a_run_is_not_trained_in(
    digits_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(("train", *DIGITS, "--out", digits_run), digits_run, capsys)
    assert f"{digits_run} already holds a run; `pars resume {digits_run}` continues it" in said


def test_a_file_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert "file is a file, expected a folder" in refused(
        ("train", *DIGITS, "--out", tmp_path / "file"), tmp_path, capsys
    )
    below = tmp_path / "file" / "run"
    assert f"cannot make the run folder {below}" in refused(("train", *DIGITS, "--out", below), tmp_path, capsys)
    assert "is not a run" in refused(("resume", tmp_path / "file"), tmp_path, capsys)
    assert "is not a run" in refused(("inspect", tmp_path / "file"), tmp_path, capsys)


def test_a_run_without_its_configuration_is_none(
    unfinished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(unfinished_run, tmp_path / "run")
    (folder / "config.toml").unlink()
    for command in (("resume",), ("evaluate", "digits"), ("predict", "digits"), ("inspect",)):
        said = refused((command[0], folder, *command[1:]), folder, capsys)
        assert f"{folder} is not a run" in said
        assert "config.toml" in said
    missing = tmp_path / "nope"
    assert f"{missing} is not a run" in refused(("resume", missing), tmp_path, capsys)


@pytest.mark.parametrize(("version", "word"), [(None, "an older"), (3, "a newer")])
def test_a_run_of_another_format_is_refused_by_every_command_that_opens_one(
    version: int | None, word: str, digits_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(digits_run, tmp_path / "run")
    content = json.loads((folder / "inputs.json").read_text())
    assert content.pop("format") == 2
    (folder / "inputs.json").write_text(json.dumps(content if version is None else content | {"format": version}))
    for command in (("resume",), ("evaluate", "digits"), ("predict", "digits"), ("inspect",), ("audit",)):
        said = refused((command[0], folder, *command[1:]), folder, capsys)
        assert f"{folder} was written by {word} version of pars" in said


def cut(path: Path, keep: int) -> None:
    path.write_bytes(path.read_bytes()[:keep])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[20] ^= 0xFF  # in the header
    path.write_bytes(bytes(content))


def of_another_run(path: Path) -> None:
    for name, word in (("config.toml", 'name = "{}"'), ("inputs.json", '"model.name": "{}"')):
        file = path.parent / name
        file.write_text(file.read_text().replace(word.format("linear"), word.format("mlp")))


@pytest.mark.parametrize(
    "damage",
    [lambda p: cut(p, 0), lambda p: cut(p, 6), lambda p: cut(p, 500), lambda p: cut(p, -4), flip, of_another_run],
)
def test_a_damaged_checkpoint_is_named_and_kept(
    damage: Callable[[Path], None], unfinished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(unfinished_run, tmp_path / "run")
    damage(folder / "checkpoint.safetensors")
    assert str(folder / "checkpoint.safetensors") in refused(("resume", folder), folder, capsys)


def test_a_damaged_model_is_named(digits_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(digits_run, tmp_path / "run")
    cut(folder / "model.safetensors", 300)
    for command in ("evaluate", "predict"):
        assert str(folder / "model.safetensors") in refused((command, folder, "digits"), folder, capsys)


def test_a_configuration_that_was_edited_badly_is_named(
    unfinished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(unfinished_run, tmp_path / "run")
    text = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(text.replace("epochs = 2", "epochs = -2"))
    said = refused(("resume", folder), folder, capsys)
    assert f"{folder / 'config.toml'}: train.epochs is -2, expected at least 1" in said


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("epochs = 2", "epochs = 3", "train.epochs is 3, but the run began with 2"),
        ("tau = 0.95", "tau = 0.5", "method.tau is 0.5, but the run began with 0.95"),
        ('kind = "PARS"', 'kind = "Supervised"', "method.kind is 'Supervised', but the run began with 'PARS'"),
    ],
)
def test_a_run_does_not_go_on_with_other_settings(
    before: str, after: str, said: str, unfinished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(unfinished_run, tmp_path / "run")
    text = (folder / "config.toml").read_text()
    assert before in text
    if "kind" in before:
        text = text[: text.index("[method]")] + "[method]\n" + after + text[text.index("\n[", text.index("[method]")) :]
    (folder / "config.toml").write_text(text.replace(before, after))
    assert f"{folder / 'config.toml'}: {said}" in refused(("resume", folder), folder, capsys)


def test_a_run_from_before_a_setting_was_there_goes_on(unfinished_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(unfinished_run, tmp_path / "run")
    config, began = folder / "config.toml", folder / "inputs.json"
    config.write_text("\n".join(line for line in config.read_text().split("\n") if not line.startswith("mirror =")))
    content = json.loads(began.read_text())
    del content["settings"]["views.mirror"]
    began.write_text(json.dumps(content))
    assert pars("resume", folder) == 0


def test_a_loss_that_explodes_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pars("train", *DIGITS, "--train.lr", "1e30", "--method", "ce", "--out", tmp_path / "run") == 2
    said = message(capsys)
    assert "a loss is not finite in epoch" in said
    assert "a smaller train.lr or other method settings may help" in said


def test_a_run_that_diverges_in_its_first_epoch_is_not_in_the_way_of_the_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ("train", *DIGITS, "--method", "ce", "--train.batch-size", "8", "--out", tmp_path / "runs" / "first")
    assert pars(*train, "--train.lr", "1e30") == 2
    assert "a loss is not finite in epoch 1" in message(capsys)
    assert list(tmp_path.iterdir()) == []
    assert pars(*train, "--train.lr", "0.01") == 0


def test_a_home_folder_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--data.name", "--noise.path"):
        noise = ("--noise.kind", "file") if flag == "--noise.path" else ()
        assert pars("train", *noise, flag, "~nosuchuser/x.npz", "--out", tmp_path / "run") == 2
        assert "~nosuchuser/x.npz" in message(capsys)
    assert list(tmp_path.iterdir()) == []
