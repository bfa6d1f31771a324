"""Training from a pack on disk is training on the same pixels in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pars import data, run
from pars.cli.main import main
from pars.data import DataConfig, DiskImages
from pars.engine import TrainConfig
from pars.engine.row_state import check_row_state, row_state_bytes
from pars.errors import UserError
from pars.methods import by_name
from pars.models import ModelConfig
from pars.run import RunConfig


def photos(folder: Path, n: int, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    for i in range(n):
        place = folder / "abc"[i % 3]
        place.mkdir(parents=True, exist_ok=True)
        pixels = (rng.integers(0, 60, (24 + i % 5, 30, 3)) + 90 * (i % 3)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(place / f"{i}.jpg")
    return folder


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("packed")
    source, test = photos(folder / "train", 30, 0), photos(folder / "test", 9, 1)
    assert main(["pack", str(source), str(folder / "pack"), "--test", str(test), "--side", "16"]) == 0
    return folder / "pack"


def config(pack: Path) -> RunConfig:
    return RunConfig(
        data=DataConfig(name=str(pack), holdout=0.2),
        model=ModelConfig(name="small_cnn", width=4),
        method=by_name("pars"),
        train=TrainConfig(epochs=2, batch_size=8, lr=0.05),
    )


def test_a_run_from_disk_has_the_weights_of_a_run_in_memory(pack: Path) -> None:
    on_disk = data.load(DataConfig(name=str(pack)))
    assert isinstance(on_disk.train.inputs, DiskImages)
    assert on_disk.test is not None
    in_memory = replace(
        on_disk,
        train=replace(on_disk.train, inputs=np.asarray(on_disk.train.inputs)),
        test=replace(on_disk.test, inputs=np.asarray(on_disk.test.inputs)),
    )
    first, second = (run.train_or_resume(config(pack), dataset=rows).trainer for rows in (None, in_memory))
    assert first is not None
    assert second is not None
    assert first.history == second.history
    for ours, theirs in zip(first.nets, second.nets, strict=True):
        for name, tensor in ours.average.state_dict().items():
            assert torch.equal(tensor, theirs.average.state_dict()[name]), name


def test_rows_are_those_that_pillow_decodes(pack: Path) -> None:
    images = data.load(DataConfig(name=str(pack))).train.inputs
    assert isinstance(images, DiskImages)
    for row in (29, 3):
        from io import BytesIO

        from PIL import ImageOps

        image = Image.open(BytesIO(images.store.read(int(images.rows[row])))).convert("RGB")
        expected = np.asarray(ImageOps.fit(image, (16, 16), Image.Resampling.BICUBIC)).transpose(2, 0, 1)
        assert np.array_equal(images[np.array([row])][0], expected)
        assert np.array_equal(images[row], expected)
        assert np.array_equal(images[np.arange(len(images)) == row][0], expected)


def test_a_run_folder_of_a_pack_is_evaluated_on_it(
    pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run.train(config(pack), tmp_path / "run", log=print)
    assert "30 rows × 3 classes need 0.0 MB of state in memory" in capsys.readouterr().out
    rows = data.load_rows(str(pack), split="test", classes=("a", "b", "c"))
    found = run.load_run(tmp_path / "run", device="cpu").predict_proba(rows.inputs)
    assert found.shape == (9, 3)
    assert data.load_rows(str(pack), side=12).inputs.shape == (9, 3, 12, 12)
    with pytest.raises(UserError, match="has the classes a, b, c, expected a, b, d"):
        data.load_rows(str(pack), classes=("a", "b", "d"))


def test_a_run_from_a_pack_has_a_report_with_its_images(pack: Path, tmp_path: Path) -> None:
    run.train(config(pack), tmp_path / "run")
    assert main(["report", str(tmp_path / "run"), str(tmp_path / "run.html")]) == 0
    assert "data:image/" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_fit_says_that_a_pack_is_read_by_train(pack: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", str(pack), "--out", str(pack.parent / "fit")]) == 2
    assert "is a pack, which `pars train` reads" in capsys.readouterr().err


def test_a_damaged_image_is_named_by_row_and_file(pack: Path, tmp_path: Path) -> None:
    import shutil

    broken = tmp_path / "pack"
    shutil.copytree(pack, broken)
    images = data.load(DataConfig(name=str(broken))).train.inputs
    assert isinstance(images, DiskImages)
    start, stop = images.store.offsets[7:9].tolist()
    content = bytearray((broken / "data.bin").read_bytes())
    content[start:stop] = bytes(stop - start)
    (broken / "data.bin").write_bytes(content)
    with pytest.raises(UserError, match=r"data.bin: row 7 \(.*jpg\) cannot be read as an image"):
        images.gather(np.arange(10))


def test_the_state_of_all_rows_is_known_beforehand_and_refused_if_too_large() -> None:
    labels = torch.arange(2000) % 10
    elr = by_name("elr")
    bytes_ = row_state_bytes(elr, labels, 10, epochs=3, dynamics=True)
    assert bytes_ == 2000 * (10 * 4 + 37 + 40)  # ELR keeps a float32 probability of each class
    with pytest.raises(UserError, match=r"MB of state in memory, but .* MB are free"):
        check_row_state(elr, torch.zeros(1, dtype=torch.int64).expand(10**9), 1000, epochs=3, dynamics=True)


def test_a_pack_is_not_packed_again(pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pack", str(pack), str(tmp_path / "again")]) == 2
    assert "is a pack already" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
