"""Pre-trained networks in the estimator and in `pars fit`; their weights are random here."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pars import PARSClassifier, run
from pars.cli.main import main
from pars.errors import UserError

TINY = "timm:test_resnet"
needs_timm = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")


def photos(folder: Path, n: int) -> tuple[list[Path], list[str]]:
    rng, paths, labels = np.random.default_rng(0), [], []
    for i in range(n):
        labels.append("ab"[i % 2])
        (folder / labels[-1]).mkdir(parents=True, exist_ok=True)
        pixels = (rng.integers(0, 90, (70, 80, 3)) + 160 * (i % 2)).clip(0, 255).astype(np.uint8)
        paths.append(folder / labels[-1] / f"{i}.png")
        Image.fromarray(pixels).save(paths[-1])
    return paths, labels


@needs_timm
def test_the_estimator_trains_a_network_of_timm_on_image_files(tmp_path: Path) -> None:
    paths, labels = photos(tmp_path, 24)
    network = {"name": TINY, "weights": "none", "size": 32}
    model = PARSClassifier(network=network, epochs=2, random_state=0).fit(paths, labels)
    assert model.config_.model.name == TINY
    assert model.config_.train.backbone_lr == 0.002
    assert model.model_.input_shape == (3, 32, 32)
    assert model.predict_proba(paths[:3]).shape == (3, 2)


@needs_timm
def test_pars_fit_trains_both_networks_of_that_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos(tmp_path / "photos", 60)
    out = tmp_path / "fit"
    flags = ["--network", TINY, "--weights", "none", "--size", "32", "--out", str(out), "--json"]
    assert main(["fit", str(tmp_path / "photos"), *flags]) == 0
    assert json.loads(capsys.readouterr().out)["out"] == str(out)
    for part in ("robust", "plain"):
        assert run.open_run(out / part)[1].model.name == TINY
    assert main(["predict", str(out), str(tmp_path / "photos")]) == 0


def test_weights_without_a_network_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos(tmp_path / "photos", 4)
    assert main(["fit", str(tmp_path / "photos"), "--weights", "w.pt", "--out", str(tmp_path / "fit")]) == 2
    assert "--weights and --size are those of --network" in capsys.readouterr().err


def test_an_encoder_beside_such_a_network_is_refused(tmp_path: Path) -> None:
    paths, labels = photos(tmp_path, 4)
    with pytest.raises(UserError, match="expected one of them"):
        PARSClassifier(network=TINY, encoder="pixels").fit(paths, labels)
