"""Recipes by name: functions of the noise that return a whole configuration.

The presets cifar10 and cifar100 are the paper's recipe (its appendix "Implementation Details"); those ending in -fast
(fast.py) and the small ones are for a CPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Protocol

from pars.augment import ViewsConfig
from pars.data import DataConfig
from pars.engine import TrainConfig
from pars.errors import UserError
from pars.method_api import Recipe, Setting
from pars.methods import by_name, recipe
from pars.models import ModelConfig
from pars.noise import NoiseConfig
from pars.run.config import RunConfig, in_shares
from pars.run.fast import cifar10_fast, cifar10_few_labels_fast, cifar10n_fast, cifar100_fast, sized
from pars.run.toml import overlay, plain

# They stand for the file or folder that only the user knows.
OWN_FILES = {"features": "features.npz", "images": "images.npz", "texts": "texts.csv", "clothing1m": "clothing1M"}


class Preset(Protocol):
    """A recipe for some noise and some method (none = the recipe's own)."""

    __doc__: str | None

    def __call__(self, noise: NoiseConfig, method: str | None = None) -> RunConfig: ...


def digits(noise: NoiseConfig, method: str | None = None) -> RunConfig:
    """8×8 digits from scikit-learn, a small CNN: seconds on a CPU."""
    return RunConfig(
        data=DataConfig(name="digits"),
        noise=noise,
        model=ModelConfig(name="small_cnn", width=16),
        train=TrainConfig(epochs=60, batch_size=64, lr=0.05, nesterov=True, ema=0.99, ema_ramp=True),
        method=by_name(method or "pars"),
    )


def fashion_mnist(noise: NoiseConfig, method: str | None = None) -> RunConfig:
    """Fashion-MNIST, a small CNN: minutes on a CPU."""
    return RunConfig(
        data=DataConfig(name="fashion-mnist"),
        noise=noise,
        model=ModelConfig(name="small_cnn"),
        train=TrainConfig(epochs=20, lr=0.05, nesterov=True, ema=0.995, ema_ramp=True),
        method=by_name(method or "pars"),
    )


def cifar10(noise: NoiseConfig, method: str | None = None) -> RunConfig:
    """The paper's CIFAR-10 recipe: 100 epochs, of which 25 warm-up, or 40 above 60 % noise."""
    return published("cifar10", noise, method)


def cifar100(noise: NoiseConfig, method: str | None = None) -> RunConfig:
    """The paper's CIFAR-100 recipe: 100 epochs, 50 of them warm-up, robust loss 10·NCE + MAE."""
    return published("cifar100", noise, method)


def published(data: Literal["cifar10", "cifar100"], noise: NoiseConfig, method: str | None) -> RunConfig:
    """PARS' recipe, and where another method has published its own settings, those."""
    base = RunConfig(
        data=DataConfig(name=data),
        noise=noise,
        model=ModelConfig(name="preact_resnet18"),
        views=ViewsConfig(strong="randaugment"),  # two operations
    )
    return with_published(base, recipe(method or "pars-paper", Setting(data, noise)))


def with_published(base: RunConfig, own: Recipe) -> RunConfig:
    """A configuration with a method and the settings of training and views that were published with it."""
    tables = {"train": own.train, "views": own.views}
    changes = {name: {key: plain(cited.value) for key, cited in table.items()} for name, table in tables.items()}
    return replace(overlay(base, changes), method=own.build())


def clothing1m(noise: NoiseConfig, method: str | None = None) -> RunConfig:
    """The paper's Clothing1M recipe: ResNet-50 of ImageNet, 80 epochs of 1 000 class-balanced batches, 10 of them
    warm-up with SCE. For a GPU. Needs --data.name FOLDER."""
    epochs = 80
    base = RunConfig(
        data=DataConfig(name=OWN_FILES["clothing1m"], side=256),
        noise=noise,
        # The weights that torchvision had when the methods were published, and the statistics of their public code.
        model=ModelConfig(name="timm:resnet50.tv_in1k", normalize="data"),
        views=ViewsConfig(size=224, pad=0, strong="randaugment", operations=4),
        train=TrainConfig(
            epochs=epochs,
            steps_per_epoch=1_000,
            class_balanced=True,
            batch_size=32,
            lr=0.002,
            schedule="steps",
            milestones=(25 / epochs, 50 / epochs, 75 / epochs),
            weight_decay=1e-3,
        ),
    )
    name = method or "pars-paper"
    if recipe(name, Setting("clothing1m")) == recipe(name, Setting("cifar10")):  # nothing is published for Clothing1M
        return replace(base, method=by_name(name, Setting(robust="sce(alpha=10,beta=1,A=-9.21)")))
    own = recipe(name, Setting("clothing1m", noise))
    if "epochs" in own.train and "steps_per_epoch" not in own.train:  # published epochs that are passes over all rows
        base = replace(base, train=replace(base.train, steps_per_epoch=None, class_balanced=False))
    return with_published(base, own)


def low_resource(preset: Preset, labeled: int, steps: int | None) -> Preset:
    """The same recipe with so many labels only, the other rows unlabeled.

    Every method takes as many steps as the preset's own, its stages as shares of them: FixMatch's published length is
    27 times that of PARS.
    """

    def build(noise: NoiseConfig, method: str | None = None) -> RunConfig:
        full, epochs = preset(noise, method), preset(noise).train.epochs
        own = full.method if full.train.epochs == epochs else full.method.in_shares(full.train.epochs)
        train = replace(full.train, epochs=epochs, steps_per_epoch=steps)
        return replace(full, data=replace(full.data, labeled=labeled), train=train, method=own)

    build.__doc__ = f"{preset.__doc__} Here only {labeled} rows have a label."
    return build


def small_cifar10(noise: NoiseConfig, method: str | None = None) -> RunConfig:
    """The first 10 000 CIFAR-10 images from pixels with a small CNN: a development setting for a CPU."""
    return RunConfig(
        data=DataConfig(name="cifar10", limit=10_000),
        noise=noise,
        model=ModelConfig(name="small_cnn", width=16),
        train=TrainConfig(epochs=40, batch_size=64, lr=0.1, nesterov=True, ema=0.99, ema_ramp=True),
        # A small network does not memorize in so few epochs: NCE+MAE is then too slow (docs/experiments.md).
        method=by_name(method or "pars", Setting(robust="gce(q=0.7)", pixels=True)),
    )


def features(noise: NoiseConfig, method: str | None = None) -> RunConfig:
    """Feature vectors from a frozen encoder, an MLP head: seconds to minutes on a CPU. Needs --data.name FILE.npz."""
    return RunConfig(
        data=DataConfig(name=OWN_FILES["features"]),
        noise=noise,
        model=ModelConfig(name="mlp", batch_norm=True),
        views=ViewsConfig(dropout_weak=0.3, dropout_strong=0.5),
        train=TrainConfig(epochs=20, lr=0.03, weight_decay=2e-3, ema=0.97, ema_ramp=True),
        # A head on good features is right where it is sure, so more rows may be used (docs/experiments.md).
        method=by_name(method or "pars", Setting(tau=0.9)),
    )


def images(noise: NoiseConfig, method: str | None = None) -> RunConfig:
    """Your own small images, a small CNN: minutes to hours on a CPU. Needs --data.name FILE.npz."""
    config = small_cifar10(noise, method)
    return replace(config, data=DataConfig(name=OWN_FILES["images"]), model=ModelConfig(name="small_cnn"))


def texts(noise: NoiseConfig, method: str | None = None) -> RunConfig:
    """Your own texts, a text network of transformers. Needs --data.name TABLE --data.text-column COLUMN
    --data.label-column COLUMN --model.name hf:NAME."""
    return RunConfig(
        data=DataConfig(name=OWN_FILES["texts"]),
        noise=noise,
        model=ModelConfig(name="auto"),
        # Adam, and rates of the usual order for such networks; they were not tuned.
        train=TrainConfig(
            epochs=10, batch_size=32, optimizer="adam", lr=1e-3, backbone_lr=5e-5, ema=0.99, ema_ramp=True
        ),
        method=by_name(method or "pars"),
    )


PRESETS: dict[str, Preset] = {
    "digits": digits,
    "fashion-mnist": fashion_mnist,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "digits-low-resource": low_resource(digits, 200, 22),
    "fashion-mnist-low-resource": low_resource(fashion_mnist, 4_000, 469),
    "cifar10-low-resource": low_resource(cifar10, 4_000, 391),
    "cifar100-low-resource": low_resource(cifar100, 10_000, 391),
    "cifar10-small": small_cifar10,
    "cifar10-fast": cifar10_fast,
    "cifar100-fast": cifar100_fast,
    "cifar10n-fast": cifar10n_fast,
    "cifar10-low-resource-fast": low_resource(cifar10_few_labels_fast, 4_000, 196),
    "clothing1m": clothing1m,
    "features": features,
    "images": images,
    "texts": texts,
}
SIZED = ("cifar10-fast", "cifar100-fast", "cifar10n-fast")  # network and batch follow from a budget


def preset(name: str, budget: float = 0.0) -> Preset:
    """A recipe by its name; for a budget in PFLOP its lengths are shares, and some are sized for it."""
    if name not in PRESETS:
        raise UserError(f"unknown preset {name!r}; there are: {', '.join(PRESETS)}")
    recipe = PRESETS[name]
    if not budget:
        return recipe

    def build(noise: NoiseConfig, method: str | None = None) -> RunConfig:
        config = in_shares(recipe(noise, method))
        config = replace(config, train=replace(config.train, budget=budget))
        return sized(config, budget) if name in SIZED else config

    build.__doc__ = recipe.__doc__
    return build
