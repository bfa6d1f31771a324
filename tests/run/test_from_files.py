"""Training from image files, one by one on disk, is training on the same pixels in memory."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pars import data, run
from pars.cli.main import main
from pars.data import DataConfig, DiskImages
from pars.engine import TrainConfig
from pars.errors import UserError
from pars.methods import by_name
from pars.models import ModelConfig
from pars.run import RunConfig
from pars.run.inputs import check_data_of
from run.test_packed import photos


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder: Path = tmp_path_factory.mktemp("files")
    return photos(folder / "train", 30, 0), photos(folder / "test", 9, 1)


def config(folders: tuple[Path, Path]) -> RunConfig:
    return RunConfig(
        data=DataConfig(name=str(folders[0]), test=str(folders[1]), side=16, holdout=0.2),
        model=ModelConfig(name="small_cnn", width=4),
        method=by_name("pars"),
        train=TrainConfig(epochs=1, batch_size=8, lr=0.05),
    )


def table_of(folder: Path, out: Path) -> Path:
    with out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "what"])
        writer.writerows([path.relative_to(out.parent), path.parent.name] for path in sorted(folder.rglob("*.jpg")))
    return out


def test_files_have_the_pixels_and_the_run_that_arrays_of_them_have(folders: tuple[Path, Path]) -> None:
    dataset = data.load(config(folders).data)
    assert isinstance(dataset.train.inputs, DiskImages)
    assert dataset.test is not None
    paths = sorted(folders[0].rglob("*.jpg"))
    pixels = np.stack([data.read_image(path, color=True, size=16) for path in paths])
    np.testing.assert_array_equal(np.asarray(dataset.train.inputs), pixels)
    assert [dataset.classes[k] for k in dataset.train.labels] == [path.parent.name for path in paths]
    in_memory = replace(
        dataset,
        train=replace(dataset.train, inputs=pixels),
        test=replace(dataset.test, inputs=np.asarray(dataset.test.inputs)),
    )
    first, second = (run.train_or_resume(config(folders), dataset=rows).trainer for rows in (None, in_memory))
    assert first is not None
    assert second is not None
    for name, tensor in first.nets[0].average.state_dict().items():
        assert torch.equal(tensor, second.nets[0].average.state_dict()[name]), name


def test_a_table_of_paths_is_the_folder_it_lists(folders: tuple[Path, Path]) -> None:
    table = table_of(folders[0], folders[0].parent / "photos.csv")
    found = data.load(DataConfig(name=str(table), image_column="file", label_column="what", side=16))
    expected = data.load(DataConfig(name=str(folders[0]), side=16))
    np.testing.assert_array_equal(np.asarray(found.train.inputs), np.asarray(expected.train.inputs))
    np.testing.assert_array_equal(found.train.labels, expected.train.labels)
    with pytest.raises(UserError, match=r"--data.image-column and --data.label-column name its columns"):
        data.load(DataConfig(name=str(table), image_column="file"))


def test_a_run_of_a_table_of_paths_predicts_and_is_evaluated_on_such_a_table(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, test = (table_of(folder, folder.parent / f"{folder.name}.csv") for folder in folders)
    columns = DataConfig(name=str(train), image_column="file", label_column="what", side=16)
    run.train(replace(config(folders), data=columns), tmp_path / "run")
    assert main(["evaluate", str(tmp_path / "run"), str(test)]) == 0
    assert "of 9 rows" in capsys.readouterr().out
    unlabeled = test.with_name("new.csv")
    unlabeled.write_text("\n".join(line.split(",")[0] for line in test.read_text().splitlines()) + "\n")
    for table in (test, unlabeled):
        assert main(["predict", str(tmp_path / "run"), str(table)]) == 0
    first, second = capsys.readouterr().out.split("row,")[1:]
    assert first == second


def test_a_run_of_a_folder_is_resumed_only_with_the_same_files_and_predicts_folders(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = photos(tmp_path / "train", 30, 0)
    run.train(config((train, folders[1])), tmp_path / "run", log=print)
    assert "30 rows × 3 classes need 0.0 MB of state in memory" in capsys.readouterr().out
    assert main(["predict", str(tmp_path / "run"), str(folders[1])]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["id"] for row in rows] == [str(p.relative_to(folders[1])) for p in sorted(folders[1].rglob("*.jpg"))]
    check_data_of(tmp_path / "run", data.load(config((train, folders[1])).data))
    (train / "a" / "0.jpg").write_bytes((train / "a" / "3.jpg").read_bytes() + b"\0")
    with pytest.raises(UserError, match=r"train.inputs_blake2b differs"):
        check_data_of(tmp_path / "run", data.load(config((train, folders[1])).data))


def test_damaged_and_missing_images_are_named_or_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train = photos(tmp_path / "train", 12, 0)
    table = table_of(train, tmp_path / "photos.csv")
    config = DataConfig(name=str(table), image_column="file", label_column="what", side=16)
    (train / "b" / "4.jpg").write_bytes((train / "b" / "4.jpg").read_bytes()[:60])
    with pytest.raises(UserError, match=r"photos.csv: row 6 \(.*b/4.jpg\) cannot be read as an image: .*skip-unread"):
        data.load(config)
    (train / "a" / "9.jpg").unlink()
    with pytest.raises(UserError, match=r"photos.csv: row 3 \(.*a/9.jpg\): no such file"):
        data.load(config)
    found = data.load(replace(config, skip_unreadable=True))
    assert len(found.train) == 10
    assert "2 of 12 images cannot be read and are left out" in caplog.text
    whole = [path for path in sorted(train.rglob("*.jpg")) if path.name != "4.jpg"]
    expected = np.stack([data.read_image(path, color=True, size=16) for path in whole])
    np.testing.assert_array_equal(np.asarray(found.train.inputs), expected)


def test_options_of_images_are_refused_where_there_are_none(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 3), np.float32), y=np.arange(4) % 2)
    with pytest.raises(UserError, match=r"data.side is 8, but .*a.npz has no image files"):
        data.load(DataConfig(name=str(tmp_path / "a.npz"), side=8))
    with pytest.raises(UserError, match=r"data.skip_unreadable is True, but digits has no image files"):
        data.load(DataConfig(skip_unreadable=True))
