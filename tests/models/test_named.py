"""Networks of timm and transformers as backbones that are trained; weights are random, for nothing is downloaded."""

from __future__ import annotations

import copy
import importlib.util
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.testing import assert_close

from pars import run
from pars.data import Dataset, Split
from pars.engine import TrainConfig
from pars.engine.optimizer import make_optimizer
from pars.errors import UserError
from pars.methods import by_name
from pars.models import ModelConfig, build_model, input_statistics
from pars.models.named import NamedNetwork
from pars.models.pretrained import import_timm, load_weights, read_state_dict
from pars.run import RunConfig

TINY = "test_resnet"  # of timm, made for tests


@pytest.fixture(scope="module")
def timm() -> Any:
    if importlib.util.find_spec("timm") is None:  # not importorskip: timm alone cannot be imported without torchvision
        pytest.skip("timm is not installed")
    return import_timm("the test")


@pytest.fixture(scope="module")
def weights(timm: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with its classifier of 1000 classes, as libraries publish them."""
    torch.manual_seed(7)
    net = timm.create_model(TINY, pretrained=False)
    path: Path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_file(net.state_dict(), path)
    return path


def network(weights: Path | str, **settings: Any) -> NamedNetwork:
    config = ModelConfig(name=f"timm:{TINY}", weights=str(weights), **settings)
    built = build_model(config, (3, 32, 32), 4, seed=0)
    assert isinstance(built, NamedNetwork)
    return built


def test_features_are_those_of_the_library_with_the_files_weights(timm: Any, weights: Path) -> None:
    torch.manual_seed(7)
    reference = timm.create_model(TINY, pretrained=False, num_classes=1000).eval()
    ours, x = network(weights).eval(), torch.randn(2, 3, 32, 32)
    expected = reference.forward_features(x).mean((2, 3))
    assert_close(ours.features(x), expected, rtol=1e-4, atol=1e-5)
    assert_close(ours(x), ours.head(ours.features(x)))
    assert ours.head.out_features == 4


def test_a_gray_image_is_three_equal_channels_and_size_resizes(weights: Path) -> None:
    ours, x = network(weights, size=64).eval(), torch.randn(2, 1, 32, 32)
    large = torch.nn.functional.interpolate(x.expand(-1, 3, -1, -1), (64, 64), mode="bicubic", align_corners=False)
    assert_close(ours(x), ours(large))


def test_only_the_head_depends_on_the_seed_when_weights_are_given(weights: Path) -> None:
    config = ModelConfig(name=f"timm:{TINY}", weights=str(weights))
    first, second = (build_model(config, (3, 32, 32), 4, seed=seed) for seed in (0, 1))
    same = {name for name, t in first.state_dict().items() if torch.equal(t, second.state_dict()[name])}
    assert first.state_dict().keys() - same == {"head.weight", "head.bias"}
    random = [build_model(replace(config, weights="none"), (3, 32, 32), 4, seed=seed) for seed in (0, 0, 1)]
    one, again, other = (net.state_dict()["backbone.conv1.0.weight"] for net in random)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_a_frozen_backbone_never_changes_not_even_its_batch_statistics(weights: Path) -> None:
    net = network(weights, frozen=True)
    before = copy.deepcopy(net.backbone.state_dict())
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    net(torch.randn(4, 3, 32, 32)).square().sum().backward()
    optimizer.step()
    for name, tensor in net.backbone.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert net.head.weight.grad is not None


def test_backbone_and_head_have_learning_rates_of_their_own(weights: Path) -> None:
    net = network(weights)
    optimizer = make_optimizer(net, nn.ModuleDict(), TrainConfig(lr=0.1, backbone_lr=0.01))
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert rates.keys() == {id(p) for p in net.parameters()}
    for name, weight in net.named_parameters():
        assert rates[id(weight)] == (0.1 if name.startswith("head.") else 0.01), name


def test_beginning_anew_means_the_weights_it_came_with(weights: Path) -> None:
    net = network(weights)
    before = copy.deepcopy(net.state_dict())
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(1.0)
    net.restart()
    after = net.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items() if name.startswith("backbone."))
    assert not torch.equal(after["head.weight"], before["head.weight"])


@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: {"state_dict": {f"module.{k}": v for k, v in d.items()}}])
def test_a_state_dict_of_torch_is_read_also_inside_a_checkpoint(tmp_path: Path, wrap: Any) -> None:
    source, target = nn.Linear(3, 2), nn.Linear(3, 2)
    torch.save(wrap(source.state_dict()), tmp_path / "w.pt")
    load_weights(target, tmp_path / "w.pt", "it")
    assert torch.equal(source.weight, target.weight)


class Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("executed"),))


def test_a_pickle_with_code_is_refused_and_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": Evil()}, "evil.pt")
    Path("plain.pt").write_bytes(pickle.dumps({"weight": Evil()}))
    for name in ("evil.pt", "plain.pt"):
        with pytest.raises(UserError, match="is not a file of weights, is damaged, or holds more than tensors"):
            read_state_dict(Path(name), "it")
    assert not Path("executed").exists()


def test_bad_weights_are_named(tmp_path: Path) -> None:
    net = nn.Linear(3, 2)
    with pytest.raises(UserError, match="there is no file of weights"):
        load_weights(net, tmp_path / "none.safetensors", "it")
    (tmp_path / "junk.safetensors").write_bytes(b"junk")
    with pytest.raises(UserError, match=r"junk.safetensors is not a file of weights"):
        load_weights(net, tmp_path / "junk.safetensors", "it")
    save_file({"weight": torch.zeros(2, 3)}, tmp_path / "part.safetensors")
    with pytest.raises(UserError, match=r"no weights for 1 of its 2 tensors \(bias"):
        load_weights(net, tmp_path / "part.safetensors", "it")
    save_file({"weight": torch.zeros(2, 4), "bias": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(UserError, match=r"weight is \[2, 4\] in the file, \[2, 3\] in the network"):
        load_weights(net, tmp_path / "other.safetensors", "it")


@pytest.mark.parametrize(
    ("config", "shape", "said"),
    [
        (ModelConfig(name="small_cn"), (3, 8, 8), "model.name is 'small_cn'; did you mean 'small_cnn'"),
        (ModelConfig(name="timm:"), (3, 8, 8), "model.name is 'timm:'; expected auto"),
        (ModelConfig(name="timm:resnet18", size=0), (3, 8, 8), "model.size is 0"),
    ],
)
def test_bad_names_and_sizes_are_refused(config: ModelConfig, shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        build_model(config, shape, 4, seed=0)


def test_what_the_library_cannot_build_is_refused(timm: Any) -> None:
    for name, shape, said in (
        ("timm:no_such_network", (3, 32, 32), "model timm:no_such_network cannot be built"),
        (f"timm:{TINY}", (10,), "needs images"),
        (f"timm:{TINY}", (4, 32, 32), "needs images of 1 or 3 channels, these have 4"),
    ):
        with pytest.raises(UserError, match=said):
            build_model(ModelConfig(name=name, weights="none"), shape, 4, seed=0)


def rows(n: int = 24) -> Dataset:
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 3
    images = (rng.integers(0, 100, (n, 3, 32, 32)) + 70 * labels[:, None, None, None]).clip(0, 255).astype(np.uint8)
    return Dataset("rows", Split(images, labels, labels), Split(images[:6], labels[:6], labels[:6]), ("a", "b", "c"))


def test_a_run_fine_tunes_and_its_folder_predicts_without_the_weights_file(
    weights: Path, tmp_path: Path, timm: Any
) -> None:
    moved = tmp_path / "w.safetensors"
    moved.write_bytes(weights.read_bytes())
    config = RunConfig(
        model=ModelConfig(name=f"timm:{TINY}", weights=str(moved)),
        method=by_name("pars"),
        train=TrainConfig(epochs=2, batch_size=8, lr=0.01, backbone_lr=0.001, dynamics_every=0),
    )
    trained = run.train_or_resume(config, tmp_path / "run", dataset=rows())
    expected = trained.classifier().predict_proba(rows().train.inputs)
    moved.unlink()
    loaded = run.load_run(tmp_path / "run", device="cpu")
    assert torch.equal(loaded.predict_proba(rows().train.inputs), expected)
    assert loaded.mean == input_statistics(f"timm:{TINY}", 3)[0]  # of pre-training, not of these images


def test_an_image_model_of_transformers_is_trained(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    config = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic")
    model = transformers.ResNetModel(config)
    model.save_pretrained(tmp_path)
    net = build_model(ModelConfig(name=f"hf:{tmp_path}"), (3, 32, 32), 3, seed=0).eval()
    x = torch.randn(2, 3, 32, 32)
    assert_close(net.features(x), model.eval()(x).pooler_output.flatten(1), rtol=1e-4, atol=1e-5)
    net.train()(x).sum().backward()
    assert all(weight.grad is not None for weight in net.parameters() if weight.requires_grad)
    text = transformers.BertModel(
        transformers.BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    )
    text.save_pretrained(tmp_path / "text")
    with pytest.raises(UserError, match="reads input_ids, expected a model of images"):
        build_model(ModelConfig(name=f"hf:{tmp_path / 'text'}"), (3, 32, 32), 3, seed=0)
