"""Networks by name. Each has features `features(x) [B, d]` and logits `head(features(x)) [B, K]`.

| name | file | for |
|---|---|---|
| preact_resnet18 | preact_resnet.py | the CIFAR network of the noisy-label papers |
| small_cnn | small_cnn.py | images on a CPU, from 4×4 pixels up |
| fast_cnn | fast_cnn.py | images from 8×8 pixels up, most accuracy per FLOP (docs/fast.md) |
| mlp, linear | mlp.py | features, table rows, flattened small images |
| timm:NAME, hf:NAME, lite0 | named.py, pretrained.py | pre-trained image networks of other libraries |
| hf:NAME | text_network.py | pre-trained text networks, for rows of token numbers |

>>> net = build_model(ModelConfig(name="mlp"), (64,), n_classes=3, seed=0)
>>> net.head.out_features
3
"""

from typing import TYPE_CHECKING

from pars.lazy_package import import_lazily
from pars.models.config import OWN, ModelConfig, build_model

if TYPE_CHECKING:
    from pars.models.backbone import Backbone
    from pars.models.fast_cnn import Convolution, FastCNN
    from pars.models.mlp import MLP, Linear
    from pars.models.named import NamedNetwork, input_statistics
    from pars.models.preact_resnet import PreActResNet18
    from pars.models.small_cnn import SmallCNN
    from pars.models.text_network import TextNetwork

__all__ = [
    "MLP",
    "OWN",
    "Backbone",
    "Convolution",
    "FastCNN",
    "Linear",
    "ModelConfig",
    "NamedNetwork",
    "PreActResNet18",
    "SmallCNN",
    "TextNetwork",
    "build_model",
    "input_statistics",
]

import_lazily(
    __name__,
    {
        "pars.models.backbone": "Backbone",
        "pars.models.fast_cnn": "Convolution, FastCNN",
        "pars.models.mlp": "MLP, Linear",
        "pars.models.named": "NamedNetwork, input_statistics",
        "pars.models.preact_resnet": "PreActResNet18",
        "pars.models.small_cnn": "SmallCNN",
        "pars.models.text_network": "TextNetwork",
    },
)
