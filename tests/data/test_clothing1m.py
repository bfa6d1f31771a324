"""Clothing1M's published layout, on a stand-in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from data.clothing import CLASSES, write_clothing1m
from pars import data
from pars.cli.main import main
from pars.data import TRUSTED, DataConfig, DiskImages
from pars.errors import UserError


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clothing1m(tmp_path_factory.mktemp("clothing"), train=42, validation=4, test=5, side=40)


def test_lists_and_labels_are_those_of_the_files(root: Path) -> None:
    found = data.load(DataConfig(name=str(root), side=32))
    assert found.classes == CLASSES
    assert found.test is not None
    noisy = dict(line.rsplit(" ", 1) for line in (root / "noisy_label_kv.txt").read_text().splitlines())
    clean = dict(line.rsplit(" ", 1) for line in (root / "clean_label_kv.txt").read_text().splitlines())
    assert found.train.labels[:42].tolist() == [int(noisy[key]) for key in noisy]
    keys = list(clean)[3:]
    assert found.train.labels[42:].tolist() == [int(clean[key]) for key in keys[:4]]
    assert found.test.labels.tolist() == [int(clean[key]) for key in keys[4:]]
    assert found.train.checked is not None
    assert (found.train.checked == TRUSTED).tolist() == [False] * 42 + [True] * 4
    assert isinstance(found.train.inputs, DiskImages)
    expected = data.read_image(root / keys[1], color=True, size=32)
    np.testing.assert_array_equal(found.train.inputs[np.array([43])][0], expected)
    assert found.mean == (0.6959, 0.6537, 0.6371)


def test_a_pack_of_it_is_the_same_data(root: Path, tmp_path: Path) -> None:
    assert main(["pack", str(root), str(tmp_path / "pack"), "--side", "32"]) == 0
    first, second = (data.load(DataConfig(name=str(path), side=32)) for path in (root, tmp_path / "pack"))
    assert (first.classes, first.mean, first.std) == (second.classes, second.mean, second.std)
    for ours, theirs in ((first.train, second.train), (first.test, second.test)):
        assert ours is not None
        assert theirs is not None
        np.testing.assert_array_equal(ours.labels, theirs.labels)
        difference = np.asarray(ours.inputs).astype(float) - np.asarray(theirs.inputs)
        assert np.abs(difference).mean() < 8  # a pack's images are compressed once more
    assert first.train.checked is not None
    np.testing.assert_array_equal(first.train.checked, second.train.checked)


def test_damaged_key_files_are_named_by_file_and_line(tmp_path: Path) -> None:
    root = write_clothing1m(tmp_path, train=14, validation=2, test=2, side=10)
    lines = (root / "noisy_label_kv.txt").read_text().splitlines()
    (root / "noisy_label_kv.txt").write_text("\n".join(lines[:3]) + "\n" + lines[3][:-1] + "14\n")
    with pytest.raises(UserError, match=r"noisy_label_kv.txt: line 4 is .* a class from 0 to 13"):
        data.load(DataConfig(name=str(root)))
    (root / "noisy_label_kv.txt").write_text("\n".join(lines[:3]) + "\n")
    with pytest.raises(UserError, match=r"noisy_train_key_list.txt: line 4: 'images/.*' has no label"):
        data.load(DataConfig(name=str(root)))
    (root / "noisy_label_kv.txt").write_text("\n".join(lines) + "\n")
    gone = root / lines[5].rsplit(" ", 1)[0]
    gone.unlink()
    with pytest.raises(UserError, match=r"row 5 \(.*jpg\): no such file"):
        data.load(DataConfig(name=str(root)))
