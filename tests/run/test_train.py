"""Starting and resuming: what is refused before anything is written, and what a finished or busy run answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from pars import run
from pars.augment import ViewsConfig
from pars.data import DataConfig
from pars.engine import RunFolder, TrainConfig
from pars.errors import UserError
from pars.method_api import Method, Stage, Task
from pars.models import ModelConfig
from pars.noise import NoiseConfig
from run.helpers import SYMMETRIC, Killed, StopAfter, features, snapshot, tiny, write_npz


def test_a_finished_run_is_only_reported(tmp_path: Path) -> None:
    """It needs neither its data nor its checkpoint."""
    file = write_npz(tmp_path / "mine.npz", features())
    result = run.train(tiny(data=DataConfig(name=str(file)), noise=NoiseConfig()), tmp_path / "run")
    file.unlink()
    (tmp_path / "run" / "checkpoint.safetensors").unlink()
    times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
    assert run.resume(tmp_path / "run") == result
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()} == times


@pytest.mark.parametrize("lost", [["result.json"], ["model.safetensors"], ["result.json", "model.safetensors"]])
def test_a_run_killed_while_it_finished_is_finished(lost: list[str], tmp_path: Path) -> None:
    run.train(tiny(), tmp_path / "run")
    before = snapshot(tmp_path / "run")
    for name in lost:
        (tmp_path / "run" / name).unlink()
    run.resume(tmp_path / "run")
    assert snapshot(tmp_path / "run") == before


@pytest.mark.parametrize("lost", ["result.json", "model.safetensors"])
def test_a_run_that_lost_its_checkpoint_is_not_trained_again(lost: str, tmp_path: Path) -> None:
    run.train(tiny(), tmp_path / "run")
    for name in (lost, "checkpoint.safetensors"):
        (tmp_path / "run" / name).unlink()
    before = snapshot(tmp_path / "run")
    with pytest.raises(UserError, match=r"checkpoint.safetensors is missing, but the run has"):
        run.resume(tmp_path / "run")
    assert snapshot(tmp_path / "run") == before


def test_a_run_that_another_process_trains_is_left_to_it(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run.train(tiny(), tmp_path / "run", callback=StopAfter(1))
    folder = RunFolder(tmp_path / "run")
    with folder.lock():
        before = snapshot(tmp_path / "run")
        with pytest.raises(UserError, match="run is in use by another process"):
            run.resume(tmp_path / "run")
        assert snapshot(tmp_path / "run") == before
    run.resume(tmp_path / "run")
    assert not (tmp_path / "run" / "lock").exists()


def test_a_line_of_the_log_that_no_run_wrote_is_named_before_it_is_lost(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run.train(tiny(train=replace(tiny().train, epochs=3)), tmp_path / "run", callback=StopAfter(1))
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 2}\n')
    before = snapshot(tmp_path / "run")
    with pytest.raises(UserError, match=r"metrics.jsonl, line 2 lacks stage"):
        run.resume(tmp_path / "run")
    assert snapshot(tmp_path / "run") == before


def with_train(**changes: Any) -> run.RunConfig:
    return tiny(train=replace(tiny().train, **changes))


def noise_with(**changes: Any) -> NoiseConfig:
    return replace(SYMMETRIC, **changes)


class Foreign(Method):
    def stages(self, task: Task) -> tuple[Stage, ...]:
        return ()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (with_train(epochs=2.0), "train.epochs is 2.0, expected a whole number"),
        (with_train(epochs=True), "train.epochs is True, expected a whole number"),
        (with_train(schedule="foo"), "train.schedule is 'foo', expected one of 'cosine-7-16'"),
        (with_train(nesterov=1), "train.nesterov is 1, expected true or false"),
        (tiny(device="tpu"), "device is 'tpu', expected one of 'auto', 'cpu', 'cuda'"),
        (tiny(seed=None), "seed is None, expected a whole number"),
        (tiny(seed="3"), "seed is '3', expected a whole number"),
        (tiny(noise=noise_with(convention="foo")), "noise.convention is 'foo', expected one of 'inclusive'"),
        (tiny(views=ViewsConfig(weak="foo")), "views.weak is 'foo', expected one of 'auto'"),  # type: ignore[arg-type]
        (tiny(views=None), "views is None, expected a ViewsConfig"),
        (tiny(train=SYMMETRIC), "train is NoiseConfig.*, expected a TrainConfig"),
        (tiny(model=ModelConfig(hidden=256)), "model.hidden is 256, expected a list of"),  # type: ignore[arg-type]
        (tiny(data=DataConfig(name=Path("digits"))), r"data.name is PosixPath\('digits'\), expected a text"),  # type: ignore[arg-type]
        (tiny(data=DataConfig(name="a\udcff.npz")), r"data: 'a\\udcff.npz' is neither|config.toml would hold"),
        (tiny(method=Foreign()), "method is a Foreign, which no run could read back; there are: PARS, PARSPaper"),
    ],
)
def test_a_configuration_made_in_python_is_checked_as_a_file_is(
    config: run.RunConfig, said: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=said):
        run.train(config, tmp_path / "deep" / "run")
    assert not list(tmp_path.iterdir())


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    config = replace(with_train(lr=np.float64(0.05), epochs=np.int32(2)), noise=noise_with(rate=np.float32(0.5)))
    plain = tiny(seed=3)
    run.train(replace(config, seed=np.int64(3)), tmp_path / "run")  # type: ignore[arg-type]
    assert run.open_run(tmp_path / "run")[1] == plain
    run.train(plain, tmp_path / "plain")
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "plain")


def test_class_names_that_cannot_be_written_leave_no_folder(tmp_path: Path) -> None:
    for classes, said in ((("a", "b", "\ud800"), r"labels.csv would hold .*ud800"), (("a", "b", 3), "expected texts")):
        with pytest.raises(UserError, match=said):
            run.train(tiny(), tmp_path / "deep" / "run", dataset=replace(features(), classes=classes))  # type: ignore[arg-type]
        assert not list(tmp_path.iterdir())


def test_a_place_for_the_run_is_looked_at_before_the_data(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty and not a run"):
        run.train(tiny(data=DataConfig(name="nope.npz")), tmp_path)
    with pytest.raises(UserError, match=r"cannot make the run folder .*: .*notes.txt is not a folder"):
        run.train(tiny(data=DataConfig(name="nope.npz")), tmp_path / "notes.txt" / "run")


def test_folders_may_be_texts(tmp_path: Path) -> None:
    result = run.train(tiny(), str(tmp_path / "run"))
    assert run.resume(str(tmp_path / "run")) == result
    assert run.load_run(str(tmp_path / "run")).input_shape == (1, 8, 8)


def test_a_run_goes_on_from_another_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = features()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write_npz(Path("mine.npz"), dataset)
    np.save("labels.npy", dataset.train.labels)
    noise = NoiseConfig(kind="file", path="labels.npy")
    with pytest.raises(Killed):
        run.train(tiny(data=DataConfig(name="mine.npz", root="."), noise=noise), "run", callback=StopAfter(1))
    config = run.open_run("run")[1]
    assert [config.data.name, config.data.root, config.noise.path] == [
        str(tmp_path / "here" / "mine.npz"),
        str(tmp_path / "here"),
        str(tmp_path / "here" / "labels.npy"),
    ]
    monkeypatch.chdir(tmp_path)
    assert run.resume(Path("here") / "run")["epochs"] == 2


def test_the_name_of_a_published_set_stays_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()  # in the way, but not meant
    run.train(tiny(), "run")
    assert run.open_run("run")[1].data.name == "digits"


@pytest.mark.parametrize("out", ["run", Path("deep") / "run"])
def test_a_network_that_cannot_be_trained_leaves_no_folder(
    out: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"networks\[0\] returns \[2, 3\] .* expected float logits \[2, 10\]"):
        run.train(tiny(), out, networks=[nn.Sequential(nn.Flatten(), nn.Linear(64, 3))])
    config = tiny(model=ModelConfig(name="mlp", batch_norm=True), train=TrainConfig(epochs=1, batch_size=1))
    with pytest.raises(UserError, match=r"choose another train\.batch_size"):
        run.train(config, out)
    assert not list(tmp_path.iterdir())
