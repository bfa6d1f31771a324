"""Images that stay on disk: an array whose rows are read and decoded when they are asked for.

They are those of a pack, or files of their own. Decoding runs in worker processes, which get places in a file,
or paths, and return pixels; nothing in them is random, so their number and their timing cannot change a result.
"""

from __future__ import annotations

import atexit
import hashlib
import io
import json
import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from pars.data.images import formats, image_pixels
from pars.errors import UserError, one_line

Pixels = npt.NDArray[np.uint8]
_KEPT = 8  # batches that are decoded or under way
_KEPT_BYTES = 256 << 20
_CHECKED_AT_ONCE = 64  # images
_SAMPLE = 1000  # images of which statistics are taken


Place = tuple[int, int] | str
"""Where an image's bytes are: start and length in the one file of a pack, or the path of a file of its own."""


class ImageStore(Protocol):
    """Images on disk: a `Pack`, or `ImageFiles`."""

    @property
    def data(self) -> Path | None:
        """The file that places are in; none if each image has its own."""

    def places(self, rows: npt.NDArray[np.int64]) -> tuple[Place, ...]:
        """Where the bytes of rows are."""

    def where(self, row: int) -> str:
        """A row's place, for messages."""

    def checksum(self) -> str:
        """What changes if the images do, known without reading them."""


@dataclass(frozen=True, eq=False)
class DiskImages:
    """Color images [n, 3, side, side] on disk, resized to cover the square and center-cropped; or some of their rows.

    It has what arrays have that the library asks of inputs. `images[rows]` decodes; a slice stays on disk.
    """

    store: ImageStore
    rows: npt.NDArray[np.int64]  # of the images
    side: int
    workers: int = 0  # processes; 0: as many as cores, less one
    dtype: np.dtype[np.uint8] = field(default_factory=lambda: np.dtype(np.uint8))
    ndim: int = 4

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.rows), 3, self.side, self.side)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return replace(self, rows=self.rows[index])
        rows = np.asarray(index)
        if rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)
        return self.gather(rows.astype(np.int64)) if rows.ndim else self.gather(rows.astype(np.int64)[None])[0]

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        pixels = self.gather(np.arange(len(self)))
        return pixels if dtype is None else pixels.astype(dtype)

    @property
    def _reader(self) -> _Reader:
        return _reader(self.store.data, self.side, self.workers or max(1, (os.cpu_count() or 2) - 1))

    def prefetch(self, index: npt.NDArray[np.int64]) -> None:
        """Begin to decode rows that will be asked for."""
        self._reader.begin(self._places(index))

    def gather(self, index: npt.NDArray[np.int64]) -> Pixels:
        """The pixels of rows [b]: uint8 [b, 3, side, side]."""
        try:
            return self._reader.pixels(self._places(index))
        except _Unreadable as error:
            row = int(self.rows[index[error.position]])
            raise UserError(
                f"{self.store.where(row)} cannot be read as an image: {error}; mend it, or leave such images out "
                "with --data.skip-unreadable"
            ) from None

    def _places(self, index: npt.NDArray[np.int64]) -> tuple[Place, ...]:
        return self.store.places(self.rows[index])

    def unreadable(self) -> dict[int, str]:
        """The rows of these images that cannot be read, with the reason; decodes all of them once."""
        found: dict[int, str] = {}
        for start in range(0, len(self), _CHECKED_AT_ONCE):
            left = np.arange(start, min(start + _CHECKED_AT_ONCE, len(self)))
            while len(left):
                try:
                    self._reader.pixels(self._places(left))
                    break
                except _Unreadable as error:
                    found[int(left[error.position])] = str(error)
                    left = np.delete(left, error.position)
        return found

    def checksum(self) -> str:
        """Of the images' own checksum, the rows and the side: no image is read."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(f"[{self.store.checksum()}, {self.side}]".encode())
        digest.update(np.ascontiguousarray(self.rows).data)
        return digest.hexdigest()

    def sample(self) -> Pixels:
        """The pixels of at most 1 000 evenly spaced rows, for statistics."""
        return self.gather(np.arange(0, len(self), -(-len(self) // _SAMPLE)))


class _Unreadable(Exception):
    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


@lru_cache(maxsize=8)
def _reader(path: Path | None, side: int, workers: int) -> _Reader:
    """The processes of a file, or those of all files, shared by all splits and parts of the data."""
    return _Reader(path, side, workers)


class _Reader:
    """Worker processes that decode places, and the last batches that they decoded."""

    def __init__(self, path: Path | None, side: int, workers: int) -> None:
        self._shape = (3, side, side)
        code = "from pars.data.disk_images import serve; serve()"
        # Not multiprocessing: it would import the user's script again, or fork a process that has threads.
        command = [sys.executable, "-c", code, str(path or os.devnull), str(side)]
        paths = os.pathsep.join(filter(None, sys.path))  # the same packages, however this process found them
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
        self._workers = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
            for _ in range(workers)
        ]
        self._pools = [ThreadPoolExecutor(1) for _ in self._workers]  # one thread talks to one process
        self._batches: OrderedDict[Any, tuple[Pixels, list[Future[None]]]] = OrderedDict()
        atexit.register(self.close)

    def begin(self, places: tuple[Place, ...]) -> tuple[Pixels, list[Future[None]]]:
        if places in self._batches:
            self._batches.move_to_end(places)
            return self._batches[places]
        out = np.empty((len(places), *self._shape), dtype=np.uint8)
        cuts = np.linspace(0, len(places), len(self._workers) + 1).astype(int).tolist()
        parts = [
            pool.submit(self._ask, worker, places[start:stop], out[start:stop], start)
            for worker, pool, start, stop in zip(self._workers, self._pools, cuts[:-1], cuts[1:], strict=True)
            if stop > start
        ]
        self._batches[places] = out, parts
        most = max(1, min(_KEPT, _KEPT_BYTES // max(1, out.nbytes)))
        while len(self._batches) > most:
            self._batches.popitem(last=False)
        return out, parts

    def pixels(self, places: tuple[Place, ...]) -> Pixels:
        out, parts = self.begin(places)
        for part in parts:
            part.result()
        return out

    def _ask(self, worker: subprocess.Popen[bytes], places: Sequence[Place], out: Pixels, at: int) -> None:
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            worker.stdin.write(json.dumps(places).encode() + b"\n")
            worker.stdin.flush()
            answer = json.loads(worker.stdout.readline())
            if answer is None:
                view = out.reshape(-1).data
                while view:
                    view = view[worker.stdout.readinto(view) or _gone() :]  # type: ignore[attr-defined]
                return
        except (OSError, ValueError) as error:
            raise RuntimeError(f"a decoding process has ended ({one_line(error)}); out of memory?") from error
        raise _Unreadable(at + answer[0], answer[1])

    def close(self) -> None:
        for pool, worker in zip(self._pools, self._workers, strict=True):
            pool.shutdown(wait=False, cancel_futures=True)
            worker.kill()
        self._workers, self._pools = [], []


def _gone() -> int:
    raise OSError("no answer")


def serve() -> None:
    """The worker: lines of places on stdin; on stdout a line `null` and the pixels, or [position, error]."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training process decides when to stop
    path, side = sys.argv[1], int(sys.argv[2])
    with Path(path).open("rb") as file:
        for line in sys.stdin.buffer:
            decoded: list[Pixels] = []
            try:
                for place in json.loads(line):
                    if isinstance(place, str):
                        content = Path(place).read_bytes()
                    else:
                        file.seek(place[0])
                        content = file.read(place[1])
                    decoded.append(decode(content, side))
            except Exception as error:  # Pillow raises all kinds
                sys.stdout.buffer.write(json.dumps([len(decoded), one_line(error)]).encode() + b"\n")
            else:
                sys.stdout.buffer.write(b"null\n")
                for pixels in decoded:
                    sys.stdout.buffer.write(np.ascontiguousarray(pixels).data)
            sys.stdout.buffer.flush()


def decode(content: bytes, side: int) -> Pixels:
    """The pixels of an image's bytes: uint8 [3, side, side], resized to cover the square, the middle of it."""
    try:
        opened = Image.open(io.BytesIO(content), formats=formats())
    except UnidentifiedImageError as error:
        raise UserError("it is of no image format that is read") from error  # Pillow names an address in memory
    with opened:
        return image_pixels(opened, "an image", color=True, size=side)
