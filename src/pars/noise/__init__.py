"""Label noise: which labels are made wrong, how, and the record of it.

`apply(NoiseConfig(kind="symmetric", rate=0.9), true_labels, n_classes, seed=1)` returns the given labels and a
`NoiseRecord` (convention, nominal and realized rate, seed, confusion counts, checksum).
"""

from pars.noise.config import NoiseConfig
from pars.noise.draw import corrupt_by_map, corrupt_by_matrix, corrupt_uniform
from pars.noise.generate import apply
from pars.noise.instance import corrupt_by_features
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
