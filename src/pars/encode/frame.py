"""Pictures small enough to be trained on from their pixels, and the one size they are brought to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pars import data
from pars.data import Table
from pars.encode.encoder import Images

SMALL = 64  # pixels a side; beyond, a network that is trained from scratch costs more than an encoder and knows less


@dataclass(frozen=True)
class Frame:
    """The one shape of all pictures: channels (1 where all are gray, else 3), height, width."""

    channels: int
    height: int
    width: int

    def read(self, table: Table) -> Images:
        """The picture files of a table: uint8 [n, C, H, W], resized until they cover the frame; the middle is taken."""
        assert table.images is not None
        gray, size = self.channels == 1, (self.height, self.width)
        return np.stack(
            [
                data.read_image(path, where=table.row(row), color=not gray, gray=gray, size=size)
                for row, path in enumerate(table.images)
            ]
        )


def common_frame(table: Table) -> Frame | str:
    """The frame of small pictures, as high and as wide as the middle one of them; else which one is not small."""
    assert table.images is not None
    shapes = []
    for row, path in enumerate(table.images):
        channels, height, width = data.image_file_shape(path, where=table.row(row))
        if max(height, width) > SMALL:
            return f"{table.row(row)}: {path} has {width}×{height} pixels"
        shapes.append((channels, height, width))
    every = np.array(shapes)
    return Frame(int(every[:, 0].max()), *(int(side) for side in np.median(every[:, 1:], axis=0)))
