"""Packs: the images of a data set in one file, with offsets, labels and checksums; written once, read at random.

data.bin      JPEG bytes, one image after the other
offsets.npy   int64 [n + 1], where each image begins; the last number is the size of data.bin
rows.csv      row, id, given label (empty = unlabeled), split (train, validation or test)
pack.json     format, number of rows, classes, shorter side, SHA-256 of each 64 MB of data.bin, Pillow's version
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import PIL
from PIL import Image, ImageOps, UnidentifiedImageError

from pars.data.dataset import UNLABELED, Labels
from pars.data.images import formats
from pars.errors import UserError, one_line
from pars.files import PART, guarded, write_text
from pars.spreadsheet import csv_lines

DATA, OFFSETS, ROWS, ABOUT = "data.bin", "offsets.npy", "rows.csv", "pack.json"
FORMAT = 1
BLOCK = 64 << 20  # bytes that have a checksum of their own
SIDE, QUALITY = 256, 90  # pixels of the shorter side; of JPEG
SPLITS = ("train", "validation", "test")
_AHEAD = 64  # images that threads may be ahead of the file


@dataclass(frozen=True)
class ImageToPack:
    """An image to pack: what a person calls it, its class and split, and its file or the bytes of one."""

    id: str
    label: str | None
    source: Path | bytes
    split: str = "train"


@dataclass(frozen=True)
class Packed:
    """What was packed: the number of rows, the size of data.bin, and the images that could not be read."""

    rows: int
    size: int
    skipped: tuple[str, ...]


def write_pack(
    images: Iterable[ImageToPack],
    out: Path,
    classes: Iterable[str],
    *,
    side: int = SIDE,
    statistics: tuple[Sequence[float], Sequence[float]] | None = None,
    skip_unreadable: bool = False,
    threads: int = 2,
) -> Packed:
    """Write a pack into a new folder; the folder has its name only when it is whole.

    Images are turned upright; those whose shorter side is longer than `side` are shrunk to it, bicubic. A JPEG file
    that needs neither is copied byte for byte, after decoding it once. `statistics`: published mean and deviation per
    channel, if the data has some. An image that cannot be read is a UserError,
    or with `skip_unreadable` left out and counted.
    """
    if side < 1:
        raise UserError(f"side is {side}, expected at least 1 pixel")
    if out.exists():
        raise UserError(f"{out} exists already, expected a new folder")
    folder = out.with_name(out.name + PART)
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    folder.mkdir(parents=True)
    try:
        with guarded(out), ThreadPoolExecutor(threads) as pool:
            encoded_images = _in_order(pool, images, side)
            done = _write(folder, encoded_images, tuple(classes), side, statistics, skip_unreadable=skip_unreadable)
            folder.rename(out)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return done


def _write(
    folder: Path,
    images: Iterable[tuple[ImageToPack, Future[bytes]]],
    classes: tuple[str, ...],
    side: int,
    statistics: tuple[Sequence[float], Sequence[float]] | None,
    *,
    skip_unreadable: bool,
) -> Packed:
    """Write the files of a pack."""
    offsets, blocks, skipped, row = [0], [], list[str](), 0
    digest, filled = hashlib.sha256(), 0
    with (
        (folder / DATA).open("wb") as binary,
        (folder / ROWS).open("w", encoding="utf-8", newline="") as table,
    ):
        table.writelines(csv_lines([("row", "id", "given", "split")]))
        for number, (image, found) in enumerate(images):
            try:
                content = found.result()
            except UserError as error:
                if not skip_unreadable:
                    raise UserError(f"row {number}: {error}; --skip-unreadable leaves such images out") from error
                skipped.append(image.id)
                continue
            binary.write(content)
            offsets.append(offsets[-1] + len(content))
            table.writelines(csv_lines([(row, image.id, image.label or "", image.split)]))
            row += 1
            rest = memoryview(content)
            while rest:
                part = rest[: BLOCK - filled]
                digest.update(part)
                filled, rest = filled + len(part), rest[len(part) :]
                if filled == BLOCK:
                    blocks.append(digest.hexdigest())
                    digest, filled = hashlib.sha256(), 0
    if not row:
        raise UserError(f"no image to pack ({len(skipped)} could not be read)")
    if filled:
        blocks.append(digest.hexdigest())
    np.save(folder / OFFSETS, np.array(offsets, dtype=np.int64))
    about = {"format": FORMAT, "rows": row, "classes": list(classes), "side": side, "skipped": len(skipped)}
    if statistics is not None:
        about |= {"mean": list(statistics[0]), "std": list(statistics[1])}
    about |= {"sha256": blocks, "block": BLOCK, "pillow": PIL.__version__}
    write_text(folder / ABOUT, json.dumps(about, indent=1) + "\n")
    return Packed(row, offsets[-1], tuple(skipped))


def _in_order(
    pool: ThreadPoolExecutor, images: Iterable[ImageToPack], side: int
) -> Iterator[tuple[ImageToPack, Future[bytes]]]:
    """Encode in threads (Pillow releases the interpreter lock), a bounded number of images ahead."""
    waiting: deque[tuple[ImageToPack, Future[bytes]]] = deque()
    source = iter(images)
    for image in itertools.islice(source, _AHEAD):
        waiting.append((image, pool.submit(encoded, image, side)))
    while waiting:
        yield waiting.popleft()
        for image in itertools.islice(source, 1):
            waiting.append((image, pool.submit(encoded, image, side)))


def encoded(image: ImageToPack, side: int) -> bytes:
    """The JPEG bytes of an image, upright, its shorter side at most `side` pixels."""
    try:
        content = image.source if isinstance(image.source, bytes) else image.source.read_bytes()
        with Image.open(io.BytesIO(content), formats=formats()) as opened:
            if opened.mode[0] in "IF":
                raise UserError(f"{image.id} has pixels of more than 8 bits ({opened.mode})")
            is_jpeg, size = opened.format == "JPEG", opened.size
            upright = ImageOps.exif_transpose(opened)
            pixels = upright.convert("L" if upright.mode == "L" else "RGB")
            turned = opened.getexif().get(0x0112, 1) != 1
    except UserError:
        raise
    except UnidentifiedImageError as error:
        raise UserError(f"{image.id} is of no image format that is read") from error
    except Exception as error:  # Pillow raises all kinds
        raise UserError(f"{image.id} cannot be read as an image: {one_line(error)}") from error
    if is_jpeg and min(size) <= side and not turned:
        return content
    if min(pixels.size) > side:
        scale = side / min(pixels.size)
        width, height = (max(side, round(length * scale)) for length in pixels.size)
        pixels = pixels.resize((width, height), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    pixels.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()


@dataclass(frozen=True, eq=False)
class Pack:
    """A pack on disk; of its images nothing is in memory but 8 bytes each, and their labels."""

    folder: Path
    offsets: npt.NDArray[np.int64]  # [n + 1], a memory map
    labels: Labels  # [n]
    test: npt.NDArray[np.bool_]  # [n] rows of the split "test"
    validation: npt.NDArray[np.bool_]  # [n]
    classes: tuple[str, ...]
    side: int
    checksums: tuple[str, ...]
    statistics: tuple[tuple[float, ...], tuple[float, ...]] | None = None  # published mean and deviation per channel

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def data(self) -> Path:
        return self.folder / DATA

    def read(self, row: int) -> bytes:
        """The JPEG bytes of a row."""
        start, stop = self.offsets[row : row + 2].tolist()
        with self.data.open("rb") as file:
            file.seek(start)
            return file.read(stop - start)

    def places(self, rows: npt.NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
        """Where the bytes of rows are in data.bin: (start, length)."""
        starts, stops = self.offsets[rows], self.offsets[rows + 1]
        return tuple(zip(starts.tolist(), (stops - starts).tolist(), strict=True))

    def where(self, row: int) -> str:
        """A row's place, for messages."""
        return f"{self.data}: row {row} ({self.id(row)})"

    def checksum(self) -> str:
        """Of the checksums of data.bin; no image is read."""
        return json.dumps(self.checksums)

    def id(self, row: int) -> str:
        """What a person calls a row; looked up in the file, for messages."""
        with (self.folder / ROWS).open(encoding="utf-8", newline="") as file:
            return next(itertools.islice(csv.reader(file), row + 1, None), ["", "?"])[1]

    def verify(self) -> None:
        """Read all of data.bin and compare it with its checksums; a UserError names the first rows that differ."""
        with self.data.open("rb") as file:
            for number, expected in enumerate(self.checksums):
                if hashlib.sha256(file.read(BLOCK)).hexdigest() != expected:
                    first = int(np.searchsorted(self.offsets, number * BLOCK, side="right")) - 1
                    last = int(np.searchsorted(self.offsets, (number + 1) * BLOCK)) - 1
                    raise UserError(
                        f"{self.data} is damaged: rows {first} to {min(last, len(self) - 1)} do not have the SHA-256 "
                        f"of {self.folder / ABOUT}"
                    )


def is_pack(path: Path) -> bool:
    return (path / ABOUT).is_file()


def open_pack(folder: Path) -> Pack:
    """Open a pack; a UserError if it is not whole. The checksums are compared by `Pack.verify` only."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        if about["format"] != FORMAT:
            raise UserError(f"{folder} is a pack of format {about['format']}, expected {FORMAT}")
        classes, side, sums = tuple(about["classes"]), int(about["side"]), tuple(map(str, about["sha256"]))
        offsets = np.load(folder / OFFSETS, mmap_mode="r", allow_pickle=False)
        size, rows = (folder / DATA).stat().st_size, int(about["rows"])
        if offsets.shape != (rows + 1,) or offsets.dtype != np.int64 or offsets[0] != 0 or (np.diff(offsets) < 1).any():
            raise UserError(f"{folder / OFFSETS} is damaged: expected {rows + 1} growing int64 numbers")
        if offsets[-1] != size:
            raise UserError(f"{folder / DATA} has {size} bytes, expected {offsets[-1]}; the copy was cut off?")
        statistics = None
        if "mean" in about:
            mean, std = (tuple(map(float, about[name])) for name in ("mean", "std"))
            if len(mean) != 3 or len(std) != 3 or not all(0 < value <= 1 for value in (*mean, *std)):
                raise UserError(f"{folder / ABOUT}: mean and std are {mean} and {std}, expected three shares each")
            statistics = mean, std
        labels, splits = _read_rows(folder / ROWS, classes, rows)
    except UserError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{folder} is not a whole pack: {one_line(error)}") from error
    validation, test = (splits == SPLITS.index(name) for name in ("validation", "test"))
    return Pack(folder, offsets, labels, test, validation, classes, side, sums, statistics)


def _read_rows(file: Path, classes: tuple[str, ...], n: int) -> tuple[Labels, npt.NDArray[np.int8]]:
    numbers = {name: number for number, name in enumerate(classes)} | {"": UNLABELED}
    labels, splits = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int8)
    row = -1
    with file.open(encoding="utf-8", newline="") as lines:
        reader = csv.reader(lines)
        next(reader, None)
        for row, line in enumerate(reader):
            if row >= n or len(line) != 4 or line[2] not in numbers or line[3] not in SPLITS:
                raise UserError(
                    f"{file}: row {row} is {line}, expected row, id, a class and one of {', '.join(SPLITS)}"
                )
            labels[row], splits[row] = numbers[line[2]], SPLITS.index(line[3])
    if row + 1 != n:
        raise UserError(f"{file} has {row + 1} rows, expected {n}")
    return labels, splits
