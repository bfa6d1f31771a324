"""A run goes on with the data, the labels and the networks it began with, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from pars import run
from pars.data import DataConfig, Dataset, Split
from pars.engine import RunFolder
from pars.errors import UserError
from pars.noise import NoiseConfig
from pars.run.inputs import checksum, describe_data
from run.helpers import Killed, StopAfter, features, images, snapshot, tiny, write_npz

NONE = NoiseConfig()


def changed_train(dataset: Dataset, change: Callable[[Split], Split]) -> Dataset:
    return replace(dataset, train=change(dataset.train))


def changed_test(dataset: Dataset, change: Callable[[Split], Split]) -> Dataset:
    assert dataset.test is not None
    return replace(dataset, test=change(dataset.test))


def other_label(split: Split) -> Split:
    return replace(split, labels=np.where(np.arange(len(split)) == 7, (split.labels + 1) % 3, split.labels))


def other_value(split: Split) -> Split:
    inputs = split.inputs.copy()
    inputs[5, 2] = np.nextafter(inputs[5, 2], np.float32(np.inf))
    return replace(split, inputs=inputs)


OTHERS: dict[str, tuple[Callable[[Dataset], Dataset], str]] = {
    "a label": (lambda d: changed_train(d, other_label), "train.labels_sha256 was"),
    "half of the rows": (lambda d: changed_train(d, lambda s: s.first(30)), "train.rows was 60 and is 30"),
    "the last bit of a value": (lambda d: changed_train(d, other_value), "train.inputs_blake2b was"),
    "a class name": (lambda d: replace(d, classes=("a", "b", "z")), "classes was .* and is "),
    "a test label": (lambda d: changed_test(d, other_label), "test.labels_sha256 was"),
    "a test row": (lambda d: changed_test(d, other_value), "test.inputs_blake2b was"),
}


@pytest.mark.parametrize(("change", "said"), OTHERS.values(), ids=OTHERS)
def test_a_file_that_has_changed_is_not_resumed_on(
    change: Callable[[Dataset], Dataset], said: str, tmp_path: Path
) -> None:
    dataset = features()
    file = write_npz(tmp_path / "mine.npz", dataset)
    config = tiny(data=DataConfig(name=str(file)), noise=NONE)
    with pytest.raises(Killed):
        run.train(config, tmp_path / "run", callback=StopAfter(1))
    write_npz(file, change(dataset))
    before = snapshot(tmp_path / "run")
    with pytest.raises(UserError, match=rf"is not the data that the run in .*run began with: {said}"):
        run.resume(tmp_path / "run")
    assert snapshot(tmp_path / "run") == before
    write_npz(file, dataset)
    assert run.resume(tmp_path / "run")["epochs"] == 2


def test_a_label_file_that_has_changed_is_not_resumed_on(tmp_path: Path) -> None:
    labels = run.load_training_data(tiny(noise=NONE)).data.train.labels
    np.save(tmp_path / "labels.npy", labels)
    config = tiny(noise=NoiseConfig(kind="file", path=str(tmp_path / "labels.npy")))
    with pytest.raises(Killed):
        run.train(config, tmp_path / "run", callback=StopAfter(1))
    np.save(tmp_path / "labels.npy", np.where(np.arange(200) == 3, (labels + 1) % 10, labels))
    with pytest.raises(UserError, match=r"its labels after the noise are not those of .*noise.json"):
        run.resume(tmp_path / "run")


def test_data_given_from_python_has_to_be_given_again(tmp_path: Path) -> None:
    config = tiny(noise=NONE)  # it names the digits, on which the run must not go on
    run.train(config, tmp_path / "whole", dataset=features())
    with pytest.raises(Killed):
        run.train(config, tmp_path / "run", dataset=features(), callback=StopAfter(1))
    before = snapshot(tmp_path / "run")
    with pytest.raises(UserError, match=r"dataset was given from Python: .*run.resume\(path, dataset=\.\.\.\)"):
        run.resume(tmp_path / "run")
    with pytest.raises(UserError, match=r"clouds is not the data that the run in .* began with"):
        run.resume(tmp_path / "run", dataset=features(seed=1))
    assert snapshot(tmp_path / "run") == before
    run.resume(tmp_path / "run", dataset=features())
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")
    assert run.load_run(tmp_path / "run").classes == ("a", "b", "c")  # predicting needs no training data


def test_networks_given_from_python_have_to_be_given_again(tmp_path: Path) -> None:
    def mine() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    said = r"networks were given from Python: pass networks=\[\.\.\.\] to .*; the command line cannot"
    with pytest.raises(Killed):
        run.train(tiny(), tmp_path / "run", networks=[mine()], callback=StopAfter(1))
    with pytest.raises(UserError, match=said):
        run.resume(tmp_path / "run")
    run.resume(tmp_path / "run", networks=[mine()])
    with pytest.raises(UserError, match=said):
        run.load_run(tmp_path / "run")
    run.load_run(tmp_path / "run", networks=[mine()])


@pytest.mark.parametrize(
    "text",
    [None, "", "[]", '{"format": 2}', '{"format": 2, "data": {}, "given_from_python": {"dataset": 1}}', "[" * 10**5],
)
def test_without_its_record_a_run_is_not_resumed(text: str | None, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run.train(tiny(), tmp_path / "run", callback=StopAfter(1))
    record = RunFolder(tmp_path / "run").inputs
    record.unlink()
    if text is not None:
        record.write_text(text)
    with pytest.raises(UserError, match=r"inputs.json is (missing|damaged)"):
        run.resume(tmp_path / "run")


def test_a_checksum_depends_on_values_not_on_memory() -> None:
    inputs = images(20).train.inputs
    assert checksum(inputs) == checksum(inputs.copy(order="F")) == checksum(inputs[::-1][::-1])
    assert checksum(inputs) != checksum(inputs[::-1])
    wide = np.zeros((3, 2**23 + 1), np.uint8)  # more than one part
    wide[2, -1] = 1
    assert checksum(wide) != checksum(np.zeros_like(wide))


def test_the_record_is_of_the_data_as_it_was_loaded() -> None:
    dataset = features()
    assert run.load_training_data(tiny(), dataset).data_record == describe_data(dataset)
