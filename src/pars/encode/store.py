"""Features on disk while they are made: a folder of .npy files, filled through memory maps, and how far it has come.

The finished file is either that folder under its name, or one .npz made of it. A folder is read as a memory map, so it
may be larger than memory; an .npz is one file to carry about, and is read whole.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.errors import UserError
from pars.files import PART, guarded, write_atomically, write_text

Array = npt.NDArray[np.generic]
ENCODER = "encoder"  # folder of the saved encoder
PARTS = ("x", "x_views", "x_test")


def check_out(out: Path) -> None:
    """A UserError unless OUT can be made, or gone on with; before the work, and changing nothing."""
    Store(out).check_free()


class Store:
    """The working folder OUT.part: job.json says what is made, done.json how far it is, *.npy hold the rows."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.work = out.with_name(out.name + PART)
        self.job, self.done = self.work / "job.json", self.work / "done.json"
        self.encoder = self.work / ENCODER
        self.maps: dict[str, np.memmap[Any, np.dtype[np.float32]]] = {}

    @property
    def is_file(self) -> bool:
        return self.out.suffix == ".npz"

    @property
    def saved_encoder(self) -> Path:
        """Where the encoder is in the end: beside the file, or inside the folder."""
        return self.out.with_suffix(".encoder") if self.is_file else self.out / ENCODER

    def check_free(self) -> None:
        """Refuse to replace anything that is there. What an earlier call left unfinished is gone on with."""
        if not self.out.parent.is_dir():
            raise UserError(f"{self.out}: the folder {self.out.parent} does not exist")
        if self.job.exists():
            return
        for path in {self.out, self.saved_encoder}:
            if path.exists():
                raise UserError(f"{path} exists already; remove it, or choose another name")
        ours = {self.done.name, ENCODER, *(f"{name}.npy" for name in PARTS)}
        if self.work.exists() and not (
            self.work.is_dir() and all(p.name in ours or p.suffix == PART for p in self.work.iterdir())
        ):
            raise UserError(f"{self.work} is in the way: it is no unfinished job; remove it, or choose another name")

    def begin(self, job: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """Make the files, or open those of the same job; return how many rows of each part are done."""
        if self.job.exists() and self.done.exists():
            done = self._read(self.done)
            if any(type(done.get(name)) is not int or not 0 <= done[name] <= shapes[name][0] for name in shapes):
                raise UserError(f"{self.done} is damaged; remove {self.work} to begin again")
            self._open(shapes)
            return {name: done[name] for name in shapes}
        with guarded(self.work):
            if not self.job.exists() and self.work.exists():
                shutil.rmtree(self.work)  # what a call left that was killed as it began or ended
            self.work.mkdir(exist_ok=True)
            write_text(self.job, json.dumps(job, indent=1) + "\n")
            for name, shape in shapes.items():
                self.maps[name] = np.lib.format.open_memmap(self._file(name), "w+", np.float32, shape)
                _reserve(self._file(name))
        self.save(dict.fromkeys(shapes, 0))
        return dict.fromkeys(shapes, 0)

    def recorded_job(self) -> dict[str, Any] | None:
        """What the unfinished job in the working folder makes; None where there is none."""
        return self._read(self.job) if self.job.exists() else None

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(content, dict):
                return content
        except (OSError, ValueError, RecursionError):
            pass
        raise UserError(f"{path} is damaged; remove {self.work} to begin again")

    def _file(self, name: str) -> Path:
        return self.work / f"{name}.npy"

    def _open(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        for name, shape in shapes.items():
            try:
                found = np.lib.format.open_memmap(self._file(name), "r+")
            except (OSError, ValueError) as error:
                raise UserError(f"{self._file(name)} is damaged ({error}); remove {self.work} to begin again") from None
            if found.shape != shape or found.dtype != np.float32:
                raise UserError(f"{self._file(name)} has shape {list(found.shape)}, expected {list(shape)}")
            self.maps[name] = found

    def save(self, done: Mapping[str, int]) -> None:
        """Rows first, then the note that says they are there."""
        with guarded(self.work):
            for array in self.maps.values():
                array.flush()
        write_text(self.done, json.dumps(dict(done)) + "\n")

    def finish(self, more: Mapping[str, Array]) -> None:
        """Give the finished thing its name. Killed in between, the next call finishes it the same way."""
        if self.is_file:
            arrays: dict[str, Any] = {**self.maps, **more}

            def write(beside: Path) -> None:
                with beside.open("wb") as file:
                    np.savez(file, **arrays)

            if self.encoder.exists():
                shutil.copytree(self.encoder, self.saved_encoder, dirs_exist_ok=True)
            write_atomically(self.out, write)
            self.maps = {}
            self.job.unlink()  # first: without it the rest is known to be of no more use
            shutil.rmtree(self.work)
            return
        for name, array in more.items():
            with guarded(self.work):
                np.save(self._file(name), array, allow_pickle=False)
        self.maps = {}
        self.work.rename(self.out)


def _reserve(path: Path) -> None:
    """Take the room on disk now: on a full one, writing through a memory map would end the process without a word."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
