"""Label noise: corrupting true labels, and the record of it.

`apply` returns given labels and a `NoiseRecord`: convention, nominal and realized rate, seed, confusion, checksum.

>>> import numpy as np
>>> noisy = apply(NoiseConfig(kind="pair", rate=0.5), np.arange(1000) % 10, n_classes=10, seed=1)
>>> noisy.labels.shape, round(noisy.record.realized_rate, 1)
((1000,), 0.5)
"""

from pars.noise.config import NoiseConfig
from pars.noise.corrupt import corrupt_by_features, corrupt_by_map, corrupt_by_matrix, corrupt_uniform
from pars.noise.generate import apply
from pars.noise.record import NoiseRecord, NoisyLabels, describe, labels_sha256
from pars.noise.transition import CIFAR100_SUPERCLASS, class_map, transition_matrix

__all__ = [
    "CIFAR100_SUPERCLASS",
    "NoiseConfig",
    "NoiseRecord",
    "NoisyLabels",
    "apply",
    "class_map",
    "corrupt_by_features",
    "corrupt_by_map",
    "corrupt_by_matrix",
    "corrupt_uniform",
    "describe",
    "labels_sha256",
    "transition_matrix",
]
