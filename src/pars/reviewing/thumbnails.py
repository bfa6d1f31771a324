"""Images as they are sent: encoded once, kept in memory and, up to a limit, on disk."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from pars.data import Previews
from pars.data.preview import ImagePreview, Size
from pars.files import write_atomically

IN_MEMORY = 600
MOST_BYTES = 200_000_000
DECODERS = 2  # images decoded at a time: each may need hundreds of megabytes


class Thumbnails:
    """Previews of images. The folder may be deleted at any time."""

    def __init__(self, previews: Previews, folder: Path) -> None:
        self._previews, self._folder = previews, folder
        self._memory: OrderedDict[tuple[int, Size], ImagePreview] = OrderedDict()
        self._lock, self._decoders = threading.Lock(), threading.Semaphore(DECODERS)
        self._used = sum(file.stat().st_size for file in folder.glob("*")) if folder.is_dir() else 0

    def get(self, row: int, size: Size) -> ImagePreview:
        key = (row, size)
        with self._lock:
            if key in self._memory:
                self._memory.move_to_end(key)
                return self._memory[key]
        found = self._from_disk(row) if size == "thumb" else None
        if found is None:
            with self._decoders:
                preview = self._previews.preview(row, size)
            assert isinstance(preview, ImagePreview)
            found = preview
            if size == "thumb" and not found.problem:
                self._to_disk(row, found)
        with self._lock:
            self._memory[key] = found
            while len(self._memory) > IN_MEMORY:
                self._memory.popitem(last=False)
        return found

    def _from_disk(self, row: int) -> ImagePreview | None:
        for suffix, media_type in ((".jpg", "image/jpeg"), (".png", "image/png")):
            with suppress(OSError):
                return ImagePreview((self._folder / f"{row}{suffix}").read_bytes(), media_type)
        return None

    def _to_disk(self, row: int, preview: ImagePreview) -> None:
        with self._lock:
            if self._used + len(preview.content) > MOST_BYTES:
                return
            self._used += len(preview.content)
        suffix = ".jpg" if preview.media_type == "image/jpeg" else ".png"
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._folder / f"{row}{suffix}", lambda beside: beside.write_bytes(preview.content))
