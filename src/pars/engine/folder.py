"""A run is a folder: open formats, every file replaced whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pars.errors import Diverged, UserError
from pars.files import guarded, halves, remove_halves, write_text
from pars.run_files import RunFiles, read_epochs


class RunFolder(RunFiles):
    """Begins, locks and writes the folder of a run; `RunFiles` lists what is in it."""

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from training in this folder.

        A run that diverges in its first epoch leaves no files: they would only be in the way of the next run.
        """
        with locked(self._lock):
            try:
                yield
            except Diverged as error:
                if error.epoch == 1:
                    self._remove_files()
                raise

    def _remove_files(self) -> None:
        """Remove what a run writes before and in its first epoch."""
        begun = (self.config, *self._before_config, self.metrics, self.checkpoint)
        for path in (*begun, *self.path.glob("rows-*.safetensors"), *halves(self.path)):
            path.unlink(missing_ok=True)

    @property
    def _before_config(self) -> tuple[Path, ...]:
        """What is written before the configuration, which says that a run has begun."""
        return self.inputs, self.plan, self.noise, self.labels

    def _was_killed_beginning(self) -> bool:
        """Whether the folder holds only what a process left that was killed before the run had begun."""
        left = set(self.path.iterdir())
        # The lock shows that the rest is ours: somebody else may call a file labels.csv.
        return self._lock in left and left <= {self._lock, *self._before_config, *halves(self.path)}

    def check_free(self) -> None:
        """Refuse a place where no new run can begin."""
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                self.path.lstat()  # exists() calls a name that cannot be one merely missing
            if self.config.exists():
                raise UserError(
                    f"{self.path} already holds a run; `pars resume {self.path}` continues it, or choose another --out"
                )
            if self.path.exists() and not self.path.is_dir():
                raise UserError(f"{self.path} is a file, expected a folder for the run")
            if self.path.exists() and any(self.path.iterdir()) and not self._was_killed_beginning():
                raise UserError(f"{self.path} is not empty and not a run; choose a new folder with --out")
            above = next(folder for folder in (self.path, *self.path.absolute().parents) if folder.exists())
            if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
                reason = "may not be written" if above.is_dir() else "is not a folder"
                raise UserError(f"cannot make the run folder {self.path}: {above} {reason}")
        except UserError:
            raise
        except (OSError, ValueError) as error:  # a name that is too long, or that no file system takes
            raise UserError(f"cannot make the run folder {str(self.path)!r}: {error}") from error

    @contextmanager
    def begin(self, texts: Mapping[Path, str]) -> Iterator[None]:
        """Make the folder, hold its lock and write the first files, in this order; where that fails, leave nothing.

        Half of a run cannot be resumed, and would be in the way of a whole one. So a run that diverges in its first
        epoch leaves nothing either. Call `check_free` before: what a killed process left is written anew.
        """
        for path, text in texts.items():
            try:
                text.encode("utf-8")
            except UnicodeEncodeError as error:  # half of a surrogate pair, as in a file name of undecodable bytes
                line = text[text.rfind("\n", 0, error.start) + 1 :].split("\n", 1)[0]
                raise UserError(f"{path.name} would hold {line!r}, which is not text that UTF-8 can write") from error
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        try:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(f"cannot make the run folder {self.path}: {error.strerror}") from error
            with self.lock():
                self.check_free()  # once more: another process may have begun a run here since
                self._remove_files()
                self._write_first(texts)
                yield
        except BaseException:
            for folder in made:
                with suppress(OSError):  # not empty: the run had begun
                    folder.rmdir()
            raise

    def _write_first(self, texts: Mapping[Path, str]) -> None:
        try:
            for path, text in texts.items():
                write_text(path, text)
        except BaseException as error:
            for path in texts:
                path.unlink(missing_ok=True)
            if not isinstance(error, UserError | OSError):
                raise
            reason = "no space left on its disk" if isinstance(error, UserError) else error
            raise UserError(f"the run in {self.path} could not be begun, nothing was written: {reason}") from error

    def read_metrics(self) -> list[dict[str, Any]]:
        """The epochs logged so far."""
        return read_epochs(self.metrics)

    def truncate_metrics(self, epochs: int) -> None:
        """Drop lines of epochs after the checkpoint, which will be run and logged again, and half-written files."""
        remove_halves(self.path)
        lines = [line for line in self.read_metrics() if line["epoch"] <= epochs]
        write_text(self.metrics, "".join(json.dumps(line) + "\n" for line in lines))

    def check_never_saved(self, due: int) -> None:
        """Refuse to train from the beginning a run that was saved before, but has lost its checkpoint.

        due: the epoch after which its first checkpoint was to be written.
        """
        logged = len(self.read_metrics())
        if self.model.exists() or logged > due:
            lost = "a trained model" if self.model.exists() else f"{logged} epochs in its log"
            raise UserError(
                f"{self.checkpoint} is missing, but the run has {lost}: resuming would train from the beginning; "
                "put the file back, or train in a new folder"
            )

    def append_metrics(self, line: dict[str, Any]) -> None:
        """Log an epoch."""
        with guarded(self.metrics), self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; a UserError where another process does. The system frees it when its holder dies.

    Two processes that train in one folder would overwrite each other's checkpoints.
    """
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise UserError(f"{path.parent} cannot be written to: {path}: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise UserError(f"{path.parent} is in use by another process; wait until it ends, or stop it") from None
        except OSError:
            break  # a file system without locks: better to train without one than not at all
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                break
        os.close(handle)  # its last holder has just removed it: take the new one
    try:
        yield
    finally:
        # Removed while it is held: whoever opened it meanwhile finds that the name is no longer this file.
        with suppress(OSError):
            path.unlink()
        os.close(handle)
