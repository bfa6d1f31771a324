"""`pars pack SRC OUT`: images into one file that training reads at random."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pars import data
from pars.cli.flags import Parser, add_json_flag
from pars.cli.output import say, show
from pars.data.pack import SIDE, ImageToPack, is_pack, open_pack, write_pack
from pars.errors import UserError
from pars.files import expanded


def parser() -> Parser:
    out = Parser(prog="pars pack", description=__doc__, allow_abbrev=False)
    out.add_argument(
        "source", metavar="SRC", type=expanded, help="a folder class/name.jpg, a table, such a .tar, or Clothing1M"
    )
    out.add_argument("out", metavar="OUT", type=expanded, nargs="?", help="a new folder")
    out.add_argument("--label", metavar="COLUMN", help="of a table: the given labels")
    out.add_argument("--image", metavar="COLUMN", help="of a table: paths of images, relative to it")
    out.add_argument("--test", metavar="SRC", type=expanded, help="further images, with right labels, to test on")
    out.add_argument("--side", type=int, default=SIDE, help="longest shorter side in pixels (default: %(default)s)")
    out.add_argument("--skip-unreadable", action="store_true", help="leave out images that cannot be read")
    out.add_argument("--check", action="store_true", help="compare the pack SRC with its checksums")
    add_json_flag(out)
    return out


def command(args: Sequence[str]) -> int:
    options = parser().parse_args(args)
    if options.check:
        if not is_pack(options.source):
            raise UserError(f"{options.source} is not a pack: pack.json is missing")
        pack = open_pack(options.source)
        pack.verify()
        show(options.json, {"rows": len(pack), "whole": True}, lambda: f"{options.source}: {len(pack)} rows, whole")
        return 0
    if options.out is None:
        raise UserError("OUT is missing: the new folder; see pars pack --help")
    images, classes = _images(options.source, options.label, options.image, "train")
    is_published = data.is_clothing1m(options.source)
    if options.test is not None and is_published:
        raise UserError(f"{options.source} is Clothing1M, which has a test list of its own: leave --test away")
    if options.test is not None:
        more, test_classes = _images(options.test, options.label, options.image, "test")
        if unknown := sorted(set(test_classes) - set(classes)):
            raise UserError(f"{options.test} has the class {unknown[0]!r}, which {options.source} does not have")
        images = [*images, *more] if isinstance(images, list) else _chained(images, more)
    done = write_pack(
        images,
        options.out,
        classes,
        side=options.side,
        statistics=data.CLOTHING1M_STATISTICS if is_published else None,
        skip_unreadable=options.skip_unreadable,
        threads=os.cpu_count() or 2,
    )
    if done.skipped:
        say(f"{len(done.skipped)} images could not be read and were left out, the first is {done.skipped[0]}")
    result = {"out": str(options.out), "rows": done.rows, "bytes": done.size, "skipped": len(done.skipped)}
    show(options.json, result, lambda: f"{done.rows} images, {done.size / 1e6:.1f} MB, in {options.out}")
    return 0


def _chained(*parts: Iterator[ImageToPack] | list[ImageToPack]) -> Iterator[ImageToPack]:
    for part in parts:
        yield from part


def _images(
    source: Path, label: str | None, image: str | None, split: str
) -> tuple[Iterator[ImageToPack] | list[ImageToPack], tuple[str, ...]]:
    if data.is_clothing1m(source):
        return data.clothing1m_images(source)
    if source.suffix == ".tar":
        return _from_tar(source, split)
    if is_pack(source):
        raise UserError(f"{source} is a pack already, expected images")
    table = data.read_table(source, label=label, image=image)
    if table.images is None:
        raise UserError(f"{source} has no images, expected a folder, a .tar, or a table with --image COLUMN")
    names = (*table.classes, None)  # -1 picks the last: unlabeled
    rows = zip(table.images, table.labels.tolist(), strict=True)
    return [ImageToPack(str(path), names[label_], path, split) for path, label_ in rows], table.classes


def _from_tar(source: Path, split: str) -> tuple[Iterator[ImageToPack], tuple[str, ...]]:
    """Images class/name.jpg of an archive, in its order; nothing is unpacked to disk."""
    try:
        with tarfile.open(source) as archive:
            names = [
                (member.name, Path(member.name).parent.name)
                for member in archive
                if member.isfile() and member.name.lower().endswith(data.IMAGE_SUFFIXES)
            ]
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(f"{source} cannot be read as an archive: {error}") from error
    if any(not name for _, name in names) or not names:
        raise UserError(f"{source}: expected images class/name.jpg in it")

    def read() -> Iterator[ImageToPack]:
        with tarfile.open(source) as archive:
            for member in archive:
                if member.isfile() and member.name.lower().endswith(data.IMAGE_SUFFIXES):
                    opened = archive.extractfile(member)
                    assert opened is not None
                    yield ImageToPack(member.name, Path(member.name).parent.name, opened.read(), split)

    return read(), tuple(sorted({name for _, name in names}))
