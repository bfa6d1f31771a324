"""The fast track: all of CIFAR from pixels with a network made for speed (docs/fast.md)."""

from __future__ import annotations

from dataclasses import replace

from pars.augment import ViewsConfig
from pars.data import DataConfig
from pars.engine import TrainConfig
from pars.method_api import Method, Setting
from pars.methods import PARSFast, by_name
from pars.methods.fixmatch import FixMatch
from pars.models import ModelConfig
from pars.noise import NoiseConfig
from pars.run.config import RunConfig

CIFAR10N = NoiseConfig(kind="file", path="CIFAR-10_human.pt", labels="worse")  # the file is looked for beside the data
GCE = Setting(robust="gce(q=0.7)")  # as from pixels in small (docs/experiments.md): NCE+MAE learns too slowly

LARGE_BATCHES, WIDE = 0.05, 0.5  # PFLOP from which a run has batches of 256, and a network of width 64
LONG = 0.15  # PFLOP from which the teacher of pars-fast is good enough after 0.6 of the run to drop labels by it


def cifar10_fast(noise: NoiseConfig, method: str | None = None) -> RunConfig:
    """All of CIFAR-10 from pixels with a network made for speed: minutes to hours on two CPU cores."""
    return RunConfig(
        data=DataConfig(name="cifar10"),
        noise=noise,
        model=ModelConfig(name="fast_cnn", width=32),
        # A short run learns nothing from views that are too strong. Beyond the border images are mirrored: the averaged
        # weights take BatchNorm's statistics from whole images, and black borders would have others.
        views=ViewsConfig(strong="cutout", cutout=8, pad_mode="reflect", mirror=True),
        train=TrainConfig(
            epochs=10,
            batch_size=256,
            optimizer="muon",  # robust losses have small gradients at first, which slow SGD down
            lr=0.04,
            nesterov=True,
            schedule="cosine",
            ema=0.99,
            ema_ramp=True,
            # Each is a pass over 34 000 or 50 000 images, where a warm-up epoch trains on 50 000.
            evaluate_every=2,
            dynamics_every=5,
        ),
        method=method_for(method or "pars-fast"),
    )


def method_for(name: str) -> Method:
    """A method as all fast presets have it but the one with few labels.

    FixMatch draws half a batch beside each labeled one, not three: its epochs cost two passes, not 7, so that a short
    run has several.
    """
    method = by_name(name, GCE)
    return replace(method, mu=0.5) if isinstance(method, FixMatch) else method


def cifar100_fast(noise: NoiseConfig, method: str | None = None) -> RunConfig:
    """All of CIFAR-100 from pixels with a network made for speed: minutes to hours on two CPU cores."""
    return replace(cifar10_fast(noise, method), data=DataConfig(name="cifar100"))


def cifar10n_fast(noise: NoiseConfig, method: str | None = None) -> RunConfig:
    """CIFAR-10 with the labels people gave (CIFAR-10N, `worse` unless noise is named), fast as cifar10-fast."""
    return cifar10_fast(CIFAR10N if noise.is_none else noise, method)


def cifar10_few_labels_fast(noise: NoiseConfig, method: str | None = None) -> RunConfig:
    """All of CIFAR-10 from pixels with a network made for speed: an hour or so on two CPU cores."""
    config = cifar10_fast(noise, method)
    name = method or "pars-fast"
    return replace(config, train=replace(config.train, batch_size=64), method=few_labels_method_for(name))


def few_labels_method_for(name: str) -> Method:
    """A method as the fast preset with few labels has it.

    Unlabeled rows are in no labeled batch, so `pars-fast` draws batches of its own, many unlabeled rows beside few
    labeled ones. An epoch of its main stage costs ten of the warm-up; so the warm-up may be long, and the robust loss
    takes long to memorize so few labels.
    """
    method = by_name(name, GCE)
    if not isinstance(method, PARSFast):
        return method
    return replace(
        method,
        pool="all",
        temporal_teacher=False,
        sampling="uniform",
        mu=7.0,
        tau=0.9,
        agreement_start=0.8,
        warm_up_share=0.56,
    )


def sized(config: RunConfig, budget: float) -> RunConfig:
    """The network and the batch that a budget (PFLOP) buys methods of one pass an epoch (docs/fast.md).

    A wide network learns more from an image and costs more; small batches make more steps of few images. In a long run
    `pars-fast` drops labels that the teacher does not predict, before the learning rate is so low that wrong labels are
    memorized; a short run does not memorize them and learns more from all labels.
    """
    width = 32 if budget < WIDE else 64
    batch_size = 128 if budget < LARGE_BATCHES else 256
    method = config.method
    if budget >= LONG and isinstance(method, PARSFast) and method == method_for("pars-fast"):
        method = replace(method, agreement_start=0.6)
    model, train = replace(config.model, width=width), replace(config.train, batch_size=batch_size)
    return replace(config, model=model, train=train, method=method)
