"""Batched views, on the device of the batch; every sample has its own parameters.

Drawing is apart from applying. Parameters are drawn on the CPU for the whole global batch from one addressed generator,
and any part of the batch is changed by its part of the parameters: same seed, same pixels, however the batch is cut.

| name | class | for |
|---|---|---|
| crop-flip | `CropFlip` | images, weak |
| resized-crop | `ResizedCrop` | large images, weak |
| cutout | `Cutout` | images, strong: + a square painted over |
| light | `Light` | images, strong: + affine, color, cutout |
| randaugment | `RandAugment` | images, strong: + operations drawn at random, cutout |
| autoaugment | `AutoAugment` | images, strong: + a learned pair of operations |
| dropout | `FeatureDropout` | features: dropout, noise, mixing |
| cached | `Cached` | features: views made before encoding, then dropout |

>>> import torch
>>> from pars.seeds import generator
>>> views = build(ViewsConfig(), image=True, shape=(3, 32, 32), mean=(0.5,) * 3, std=(0.25,) * 3)
>>> x = torch.zeros(6, 3, 32, 32, dtype=torch.uint8)
>>> params = views.weak.draw(generator(0, "views/weak", epoch=1, step=7), len(x), (3, 32, 32))
>>> views.finish(views.weak.apply(x[2:4], rows(params, 2, 4))).shape
torch.Size([2, 3, 32, 32])
"""

from pars.augment.autoaugment import AutoAugment
from pars.augment.cached import Cached, source
from pars.augment.caption import caption
from pars.augment.config import ViewsConfig, build
from pars.augment.crop import CenterCrop, CropFlip, crop_flip
from pars.augment.cutout import Cutout, cut_out
from pars.augment.dropout import FeatureDropout, keep_mask
from pars.augment.finish import AsFloat, Normalize
from pars.augment.light import Light, affine, affine_params
from pars.augment.randaugment import RandAugment
from pars.augment.resized import ResizedCrop
from pars.augment.view import Finish, Identity, Params, TestTimeView, View, Views, rows, to_device

__all__ = [
    "AsFloat",
    "AutoAugment",
    "Cached",
    "CenterCrop",
    "CropFlip",
    "Cutout",
    "FeatureDropout",
    "Finish",
    "Identity",
    "Light",
    "Normalize",
    "Params",
    "RandAugment",
    "ResizedCrop",
    "TestTimeView",
    "View",
    "Views",
    "ViewsConfig",
    "affine",
    "affine_params",
    "build",
    "caption",
    "crop_flip",
    "cut_out",
    "keep_mask",
    "rows",
    "source",
    "to_device",
]
