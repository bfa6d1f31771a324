"""Augmentation: weak and strong views of whole batches, on the device of the batch, with parameters per sample.

Drawing is separate from applying. Parameters are drawn on the CPU for the whole global batch, from a generator
addressed by (seed, stream, epoch, step). Any part of the batch is augmented by its part of the parameters, so the same
seed gives the same pixels however the batch is split.

| name | class | for |
|---|---|---|
| crop-flip | `CropFlip` | images, weak |
| resized-crop | `ResizedCrop` | large images, weak |
| cutout | `Cutout` | images, strong: crop, then a filled square |
| light | `Light` | images, strong: crop, then affine map, color jitter, cutout |
| randaugment | `RandAugment` | images, strong: crop, then random operations, cutout |
| autoaugment | `AutoAugment` | images, strong: crop, then a learned pair of operations |
| dropout | `FeatureDropout` | features: dropout, noise, mixing |
| cached | `CachedView` | features: views made before encoding, then dropout |
| dropout | `TokenDropout` | texts as token numbers |

>>> import torch
>>> from pars.seeds import generator
>>> views = build_views(ViewsConfig(), image=True, shape=(3, 32, 32), mean=(0.5,) * 3, std=(0.25,) * 3)
>>> x = torch.zeros(6, 3, 32, 32, dtype=torch.uint8)
>>> params = views.weak.draw(generator(0, "views/weak", epoch=1, step=7), len(x), (3, 32, 32))
>>> views.finish(views.weak.apply(x[2:4], slice_params(params, 2, 4))).shape
torch.Size([2, 3, 32, 32])
"""

from pars.augment.config import ViewsConfig, build_views, caption, example_views
from pars.augment.crop import CenterCrop, CropFlip, Cutout, PadMode, ResizedCrop, crop_flip, cut_out
from pars.augment.features import CachedView, FeatureDropout, gather_rows
from pars.augment.light import Light, affine, affine_params
from pars.augment.policies import AutoAugment, RandAugment
from pars.augment.tokens import TokenDropout
from pars.augment.view import (
    AsFloat,
    Finish,
    Identity,
    Normalize,
    Params,
    TestTimeView,
    View,
    Views,
    slice_params,
    to_device,
)

__all__ = [
    "AsFloat",
    "AutoAugment",
    "CachedView",
    "CenterCrop",
    "CropFlip",
    "Cutout",
    "FeatureDropout",
    "Finish",
    "Identity",
    "Light",
    "Normalize",
    "PadMode",
    "Params",
    "RandAugment",
    "ResizedCrop",
    "TestTimeView",
    "TokenDropout",
    "View",
    "Views",
    "ViewsConfig",
    "affine",
    "affine_params",
    "build_views",
    "caption",
    "crop_flip",
    "cut_out",
    "example_views",
    "gather_rows",
    "slice_params",
    "to_device",
]
