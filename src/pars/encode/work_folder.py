"""The working folder OUT.part of a job that encodes rows: what is finished, what is left, and how OUT is made of it.

job.json    everything that the result depends on
done.json   finished rows of each array, as ranges [start, stop]; of other processes than the first: done.RANK.json
stop        there while the processes are to stop
*.npy       the arrays, written through memory maps
encoder/    the saved encoder
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

from pars.data import TABLES
from pars.encode.shards import Finished, Shard
from pars.errors import UserError
from pars.files import PART, guarded, write_atomically, write_text

_ENCODER_FOLDER = "encoder"
_ARRAYS = ("x", "x_views", "x_test")
_OTHER_FILES = (*TABLES, ".npy", ".pt", ".pth", ".pkl", ".h5", ".hdf5", ".safetensors", ".zip", ".feather", ".arrow")


class WorkFolder:
    """The working folder OUT.part of a job; `finish` makes OUT from it.

    OUT is the same folder under its final name, or an .npz file made of it. A folder is read as memory maps, so it may
    be larger than memory; an .npz is a single file and is read whole.
    """

    def __init__(self, out: Path, rank: int = 0) -> None:
        self.out = out
        self.folder = out.with_name(out.name + PART)
        self.job, self.stop = self.folder / "job.json", self.folder / "stop"
        self.first_done = self.folder / "done.json"
        self.done = self.folder / f"done.{rank}.json" if rank else self.first_done
        self.finished = Finished()  # by all processes, when the work began
        self._own = Finished()  # what `done` says
        self.encoder = self.folder / _ENCODER_FOLDER
        self.maps: dict[str, np.memmap[Any, np.dtype[np.float32]]] = {}

    @property
    def is_file(self) -> bool:
        """Whether OUT is an .npz file."""
        return self.out.suffix == ".npz"

    @property
    def final_encoder(self) -> Path:
        """Final folder of the encoder: beside the .npz file, or inside the folder."""
        return self.out.with_suffix(".encoder") if self.is_file else self.out / _ENCODER_FOLDER

    def check_free(self) -> None:
        """Raise a UserError if OUT exists, or OUT.part is something else than a job that can be resumed."""
        if (suffix := self.out.suffix.lower()) in _OTHER_FILES:
            raise UserError(
                f"{self.out}: cannot write {suffix}, expected OUT.npz, or the name of a folder without suffix"
            )
        if not self.out.parent.is_dir():
            raise UserError(f"{self.out}: the folder {self.out.parent} does not exist")
        if self.job.exists():
            return
        ours = {self.stop.name, _ENCODER_FOLDER, *(f"{name}.npy" for name in _ARRAYS)}
        done = set(self.folder.glob("done*.json"))
        is_left_over = self.folder.is_dir() and all(
            p.name in ours or p in done or p.suffix == PART for p in self.folder.iterdir()
        )
        if is_left_over and self.out.exists():  # the call that made OUT was killed before it had removed everything
            shutil.rmtree(self.folder, ignore_errors=True)
        for path in {self.out, self.final_encoder}:
            if path.exists():
                raise UserError(f"{path} exists already; remove it, or choose another name")
        if self.folder.exists() and not is_left_over:
            raise UserError(f"{self.folder} is not an unfinished job; remove it, or choose another name")

    def recorded_job(self) -> dict[str, Any] | None:
        """Return the description of the unfinished job; None if there is none."""
        return self._read_json(self.job) if self.job.exists() else None

    def read_job(self) -> dict[str, Any]:
        """Return the description of the job, which has begun."""
        return self._read_json(self.job)

    def begin(self, job: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Create the files, or open those of the unfinished job, joining what its processes finished."""
        if self.job.exists() and self.first_done.exists():
            self._read_finished(shapes)
            self._open_arrays(shapes)
            with guarded(self.folder):
                self.stop.unlink(missing_ok=True)
            self._own = Finished(self.finished.ranges)
            self.save()
            self._remove_others()
            return
        with guarded(self.folder):
            if not self.job.exists() and self.folder.exists():
                shutil.rmtree(self.folder)  # left by a call that was killed while it began or ended
            self.folder.mkdir(exist_ok=True)
            write_text(self.job, json.dumps(job, indent=1) + "\n")
            for name, shape in shapes.items():
                self.maps[name] = np.lib.format.open_memmap(self._array_file(name), "w+", np.float32, shape)
                _allocate(self._array_file(name))
        self.save()

    def open(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Open the files of a job that the first process began."""
        self._read_finished(shapes)
        self._open_arrays(shapes)

    def note(self, shard: Shard) -> None:
        """Remember that a shard is finished; `save` records it."""
        self._own.add(*shard)

    def save(self) -> None:
        """Flush the rows, then record them as finished."""
        with guarded(self.folder):
            for array in self.maps.values():
                array.flush()
        write_text(self.done, json.dumps(self._own.ranges) + "\n")

    def discard(self) -> None:
        """Remove the working folder."""
        self.maps = {}
        shutil.rmtree(self.folder)

    def finish(self, more: Mapping[str, npt.NDArray[np.generic]], every: list[Shard]) -> None:
        """Make OUT from the arrays and `more`. If killed in between, the next call finishes it the same way."""
        for shard in every:
            self.note(shard)
        self.save()
        with guarded(self.folder):
            self._remove_others()
            self.stop.unlink(missing_ok=True)
        if self.is_file:
            arrays: dict[str, Any] = {**self.maps, **more}

            def write(beside: Path) -> None:
                with beside.open("wb") as file:
                    np.savez(file, **arrays)

            if self.encoder.exists():
                shutil.copytree(self.encoder, self.final_encoder, dirs_exist_ok=True)
            write_atomically(self.out, write)
            self.maps = {}
            self.job.unlink()  # first: without it the next call knows that the rest can be deleted
            shutil.rmtree(self.folder, ignore_errors=True)  # the next call may be doing it already
            return
        for name, array in more.items():
            with guarded(self.folder):
                np.save(self._array_file(name), array, allow_pickle=False)
        self.maps = {}
        self.folder.rename(self.out)

    def _read_finished(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Set what all processes finished."""
        for file in sorted(self.folder.glob("done*.json")):
            for name, ranges in self._read_json(file).items():
                if name not in shapes or not _are_ranges(ranges, shapes[name][0]):
                    raise UserError(f"{file} is damaged; remove {self.folder} to start again")
                for start, stop in ranges:
                    self.finished.add(name, start, stop)

    def _remove_others(self) -> None:
        for file in self.folder.glob("done.*.json"):
            file.unlink()

    def _read_json(self, path: Path) -> dict[str, Any]:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(content, dict):
                return content
        except (OSError, ValueError, RecursionError):
            pass
        raise UserError(f"{path} is damaged; remove {self.folder} to start again")

    def _array_file(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def _open_arrays(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        for name, shape in shapes.items():
            file = self._array_file(name)
            try:
                found = np.lib.format.open_memmap(file, "r+")
            except (OSError, ValueError) as error:
                raise UserError(f"{file} is damaged ({error}); remove {self.folder} to start again") from None
            if found.shape != shape or found.dtype != np.float32:
                raise UserError(f"{file} has shape {list(found.shape)}, expected {list(shape)}")
            self.maps[name] = found


def _are_ranges(value: Any, rows: int) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, list)
        and len(each) == 2
        and all(type(end) is int for end in each)
        and 0 <= each[0] < each[1] <= rows
        for each in value
    )


def _allocate(path: Path) -> None:
    """Allocate the disk space of a file now: writing to a memory map on a full disk would kill the process."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
