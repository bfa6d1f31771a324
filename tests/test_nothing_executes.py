"""A payload in every kind of file that is read from outside: it is refused or taken for data, and never runs."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pars
from pars import data, encode, losses, noise, report, run
from pars.data.restricted_pickle import read_pickled_dict
from pars.errors import UserError
from pars.fitting import audit_fit, load_predictor
from pars.noise import NoiseConfig


class Mine:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    return tmp_path / "made-by-a-payload"


@pytest.fixture
def payload(victim: Path) -> bytes:
    return pickle.dumps(Mine(victim))


def test_the_payload_is_real(payload: bytes, victim: Path) -> None:
    pickle.loads(payload)
    assert victim.exists()


def object_array(victim: Path) -> np.ndarray[Any, Any]:
    array = np.empty(4, dtype=object)
    array[:] = [Mine(victim)] * 4
    return array


@pytest.mark.parametrize("name", ["rows.npz", "rows.npy"])
def test_in_a_file_of_arrays(name: str, tmp_path: Path, victim: Path, payload: bytes) -> None:
    file = tmp_path / name
    for content in ("objects", "pickle"):
        if content == "pickle":
            file.write_bytes(payload)
        elif name.endswith("z"):
            np.savez(file, x=object_array(victim), y=np.arange(4) % 2)
        else:
            np.save(file, object_array(victim), allow_pickle=True)
        for read in (data.read_table, lambda path: data.load_rows(str(path))):
            with pytest.raises(UserError, match=name):
                read(file)
    assert not victim.exists()


def test_in_a_folder_of_arrays(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "rows").mkdir()
    np.save(tmp_path / "rows" / "x.npy", np.zeros((4, 2), np.float32))
    np.save(tmp_path / "rows" / "y.npy", object_array(victim), allow_pickle=True)
    with pytest.raises(UserError, match="Python objects"):
        data.read_table(tmp_path / "rows")
    assert not victim.exists()


@pytest.mark.parametrize("zipped", [True, False])
def test_in_labels_of_cifar_n(zipped: bool, tmp_path: Path, victim: Path) -> None:
    content = pickle.dumps({"worse_label": Mine(victim), "clean_label": Mine(victim)}, protocol=2)
    file = tmp_path / "CIFAR-10_human.pt"
    if zipped:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("archive/data.pkl", content)
    else:
        file.write_bytes(content)
    with pytest.raises(UserError, match=r"CIFAR-10_human\.pt"):
        data.human_labels(file, "worse", true_labels=np.zeros(4, np.int64), n_classes=2)
    assert not victim.exists()


def test_in_a_batch_of_cifar(tmp_path: Path, victim: Path) -> None:
    with pytest.raises(UserError, match="refused"):
        read_pickled_dict(pickle.dumps({"data": Mine(victim)}), "data_batch_1")
    assert not victim.exists()


def test_in_a_file_of_noisy_labels(tmp_path: Path, victim: Path) -> None:
    np.save(tmp_path / "labels.npy", object_array(victim), allow_pickle=True)
    for kind in ("file", "matrix"):
        config = NoiseConfig(kind=kind, path=str(tmp_path / "labels.npy"))
        with pytest.raises(UserError, match=r"labels\.npy"):
            noise.apply(config, np.zeros(4, np.int64), 2, seed=0)
    assert not victim.exists()


def test_in_a_loss_and_in_a_configuration(tmp_path: Path, victim: Path) -> None:
    code = f"__import__('os').mkdir({str(victim)!r})"
    with pytest.raises(UserError):
        losses.parse(code)
    for text in (f'[method]\nkind = "{code}"', "[method]\nkind = 'os.system'", f'[train]\nepochs = "{code}"'):
        (tmp_path / "c.toml").write_text(text)
        with pytest.raises(UserError, match=r"c\.toml"):
            run.read_toml(tmp_path / "c.toml", run.RunConfig())
    assert not victim.exists()


def test_in_tables(tmp_path: Path, victim: Path) -> None:
    code = f"__import__('os').mkdir('{victim}')"
    (tmp_path / "t.csv").write_text(f'text,y\n"{code}",a\n"={code}",b\n')
    line = json.dumps({"text": {"__reduce__": code}, "y": "a", "py/object": "os.mkdir"})
    (tmp_path / "t.jsonl").write_text(line + "\n" + line.replace('"a"', '"b"') + "\n")
    assert data.read_table(tmp_path / "t.csv", text="text", label="y").texts == [code, f"={code}"]
    with pytest.raises(UserError, match="holds a dict, expected a text"):
        data.read_table(tmp_path / "t.jsonl", text="text", label="y")
    assert not victim.exists()


def test_in_the_types_of_a_parquet_file(tmp_path: Path, victim: Path, payload: bytes) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    about = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": payload}
    schema = pa.schema([pa.field("x", pa.int64(), metadata=about), pa.field("y", pa.string())], {b"pandas": payload})
    parquet.write_table(pa.table({"x": [1, 2, 3, 5], "y": list("abab")}, schema=schema), tmp_path / "t.parquet")
    assert len(data.read_table(tmp_path / "t.parquet", label="y")) == 4
    assert not victim.exists()


def test_in_an_image_that_asks_for_ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow runs `gs` to read PostScript, whatever the file is called."""
    tools = tmp_path / "tools"
    tools.mkdir()
    ran = tmp_path / "ran"
    (tools / "gs").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (tools / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    drawing = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n0 0 8 8 rectfill\nshowpage\n"
    for name in ("a.png", "b.jpg"):
        (tmp_path / name).write_text(drawing)
        with pytest.raises(UserError, match="cannot be read as an image"):
            data.read_image(tmp_path / name)
    assert not ran.exists()


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fit of texts, with a saved TF-IDF encoder."""
    out = tmp_path_factory.mktemp("fit") / "texts"
    words = [f"{'card' if row % 2 else 'parcel'} number {row} is late" for row in range(40)]
    pars.fit(words, ["ab"[row % 2] for row in range(40)], method="ce", encoder="tfidf", out=out, baseline=False)
    return out


@pytest.mark.parametrize(
    "name",
    ["rows.npz", "content.json", "preprocessor.json", "encoder/encoder.json", "encoder/vocabulary.json",
     "encoder/tfidf.safetensors", "robust/config.toml", "robust/inputs.json", "robust/metrics.jsonl",
     "robust/labels.csv", "robust/result.json", "robust/checkpoint.safetensors", "robust/model.safetensors",
     "robust/dynamics.safetensors", "robust/rows-train.safetensors", "files.json", "job.json"],
)  # fmt: skip
def test_in_place_of_any_file_of_a_fit(name: str, texts: Path, tmp_path: Path, victim: Path, payload: bytes) -> None:
    out = shutil.copytree(texts, tmp_path / "fit")
    assert (out / name).exists()
    (out / name).write_bytes(payload)
    readers = (load_predictor, audit_fit, lambda path: report.read_run(path / "robust"),
               lambda path: run.resume(path / "robust"))  # fmt: skip
    for read in readers:
        with suppress(UserError):
            read(out)
    assert not victim.exists()


def test_a_saved_encoder_cannot_name_a_function(
    texts: Path, tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil.py").write_text(f"import os\nos.mkdir({str(victim)!r})\ndef encode(rows): return [[0.0]]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    out = shutil.copytree(texts, tmp_path / "fit")
    (out / "files.json").unlink()  # even where nothing is checked by its checksum
    file = out / "encoder" / "encoder.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"name": "python:evil:encode"}))
    for read in (load_predictor, lambda path: encode.load_encoder(path / "encoder")):
        with pytest.raises(UserError, match="names a function, python:evil:encode; saved files may not run code"):
            read(out)
    assert not victim.exists()


def test_weights_in_a_pickle_are_not_read(tmp_path: Path, victim: Path, payload: bytes) -> None:
    pytest.importorskip("timm")
    (tmp_path / "w.bin").write_bytes(payload)
    with pytest.raises(UserError, match=r"must be a \.safetensors file"):
        encode.encoder(f"timm:resnet18@{tmp_path / 'w.bin'}", kind="image")
    (tmp_path / "w.safetensors").write_bytes(payload)
    with pytest.raises(UserError, match="cannot be built"):
        encode.encoder(f"timm:resnet18@{tmp_path / 'w.safetensors'}", kind="image")
    assert not victim.exists()


def test_in_an_onnx_file(tmp_path: Path, victim: Path, payload: bytes) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "net.onnx").write_bytes(payload)
    with pytest.raises(UserError, match=r"net\.onnx"):
        encode.encoder(str(tmp_path / "net.onnx"), kind="image")
    assert not victim.exists()


def test_a_comparison_and_an_unfinished_encoding(tmp_path: Path, victim: Path, payload: bytes) -> None:
    (tmp_path / "compare.json").write_bytes(payload)
    with pytest.raises(UserError, match="is none of `pars compare`"):
        run.check_comparison(tmp_path, {"seed": 0})
    table = data.read_table({"t": [f"word {row}" for row in range(8)]}, text="t")
    (tmp_path / "x.npz.part").mkdir()
    (tmp_path / "x.npz.part" / "job.json").write_bytes(payload)
    with pytest.raises(UserError, match=r"job\.json is damaged"):
        encode.encode_table(table, tmp_path / "x.npz", encode.encoder("tfidf"))
    assert not victim.exists()


def test_zip_members_do_not_leave_their_file(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((4, 2), np.float32))
    with zipfile.ZipFile(tmp_path / "rows.npz", "w") as archive:
        archive.writestr("../../x.npy", buffer.getvalue())
    with pytest.raises(UserError, match=r"none of x, y"):
        data.read_table(tmp_path / "rows.npz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.npz"]
