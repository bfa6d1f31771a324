"""A folder of images, CLASS/NAME.png, some in the wrong folder; one of them cannot be read.

    python examples/images.py

Writes photos/ and fits it. Images of at most 64 pixels a side are trained on as they are; larger ones need an encoder
(`encoder="lite0"`, `"timm:NAME"`, `"hf:NAME"`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import pars

digits = load_digits(n_class=2)
rng = np.random.default_rng(0)
wrong = rng.random(120) < 0.15
for row, (pixels, digit) in enumerate(zip(digits.images[:120], digits.target[:120], strict=True)):
    folder = Path("photos") / ("zero", "one")[int(digit) ^ int(wrong[row])]
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray((pixels * 15).astype(np.uint8)).save(folder / f"{row:03}.png")
(Path("photos") / "one" / "broken.png").write_bytes(b"not an image")

result = pars.fit("photos", skip_unreadable=True, baseline=False)
print(result)
