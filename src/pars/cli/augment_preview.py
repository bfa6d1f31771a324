"""`pars augment-preview DATA out.png`: what the network sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pars import augment, data
from pars.augment import ViewsConfig
from pars.cli.flags import Parser, add_json_flag, check_unmirrored, parsed
from pars.cli.output import say, show
from pars.cli.predict import check_out
from pars.errors import UserError
from pars.files import expanded, write_atomically
from pars.report import Tile, contact_sheet

MOST_TILES = 2_000  # half a gigabyte of the largest
Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Flags:
    views: ViewsConfig = field(default_factory=lambda: ViewsConfig(strong="randaugment"))


def parser() -> Parser:
    out = Parser(prog="pars augment-preview", add_help=False, allow_abbrev=False)
    out.add_argument("data", metavar="DATA", help="a data set's name, an array file, or an image")
    out.add_argument("out", metavar="OUT.png", type=expanded, help="the contact sheet to write")
    out.add_argument("--rows", type=int, default=4, metavar="N", help="how many images (default: 4)")
    out.add_argument("--first", type=int, default=0, metavar="ROW", help="from which row on (default: 0)")
    out.add_argument("--copies", type=int, default=4, metavar="N", help="views of each kind (default: 4)")
    out.add_argument("--seed", type=int, default=0)
    out.add_argument("--root", help="folder of the data sets")
    add_json_flag(out)
    return out


def command(args: Sequence[str]) -> int:
    about = "Weak and strong views of some images side by side, with what was done under each."
    options, flags = parsed(parser(), Flags, default=Flags(), args=args, about=about)
    check_unmirrored(flags.views)
    if options.out.suffix.lower() != ".png":
        raise UserError(f"{options.out}: the contact sheet is a .png file")
    check_out(options.out, expanded(options.data))
    for name in ("rows", "copies"):
        if getattr(options, name) < 1:
            raise UserError(f"--{name} is {getattr(options, name)}, expected at least 1")
    pixels = images(options.data, options.root, options.first, options.rows)
    if (tiles_wanted := len(pixels) * (1 + 2 * options.copies)) > MOST_TILES:
        raise UserError(
            f"{tiles_wanted} images do not fit on a contact sheet, at most {MOST_TILES} do: fewer --rows or --copies"
        )
    tiles = [[Tile(image, f"row {options.first + row}")] for row, image in enumerate(pixels)]
    for title, changed, captions in augment.example_views(
        flags.views, pixels, copies=options.copies, seed=options.seed
    ):
        for row, image, lines in zip(tiles, changed, captions, strict=True):
            row.append(Tile(image, title, lines))
    sheet = contact_sheet(tiles)
    write_atomically(options.out, lambda beside: sheet.save(beside, "PNG"))
    say(f"wrote {options.out}")
    seen = [[{"view": tile.title, "done": list(tile.lines)} for tile in row] for row in tiles]
    if options.json:
        show(True, {"out": str(options.out), "images": seen}, str)
    return 0


def images(source: str, root: str | None, first: int, count: int) -> Pixels:
    """Some images [n, C, H, W] of a data set, an array file, or one image."""
    if Path(source).suffix.lower() in data.IMAGE_SUFFIXES:
        return data.read_image(Path(source))[None]
    rows = data.load_rows(source, root=root, split="train", labels=False)
    if not rows.is_image:
        raise UserError(f"{source}: rows are feature vectors of {rows.inputs.shape[1]}; only images have a preview")
    if not 0 <= first < len(rows):
        raise UserError(f"--first is {first}, but {source} has rows 0 to {len(rows) - 1}")
    return np.asarray(rows.inputs[first : first + count], dtype=np.uint8)
