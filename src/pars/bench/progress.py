"""Progress over cells with the time left: a bar in a terminal, a plain line for each cell elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as RichProgress


class Progress:
    """Plain lines on stderr. `start` before the first cell, `done` after each, `stop` at the end."""

    def start(self, total: int, done: int) -> None:
        self._total, self._done, self._ran, self._began = total, done, 0, time.monotonic()
        if done:
            self._print(f"{done} of {total} cells are in the ledger")

    def done(self, name: str, line: Mapping[str, Any] | None) -> None:
        """A cell is done; `line` is its line of the ledger, none where another runner wrote it."""
        self._done += 1
        self._ran += line is not None
        self._print(f"{self._done}/{self._total} {name}: {outcome(line)} · {self._left()} left")

    def stop(self) -> None:
        pass

    def _left(self) -> str:
        """The time left if the next cells take as long as those so far."""
        each = (time.monotonic() - self._began) / max(1, self._ran)
        return duration(each * (self._total - self._done))

    def _print(self, text: str) -> None:
        with suppress(OSError):  # nobody reads it
            print(text, file=sys.stderr, flush=True)


class Bar(Progress):
    """A rich bar."""

    def __init__(self, console: Console) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
        self._bar = RichProgress(*columns, console=console)

    def start(self, total: int, done: int) -> None:
        self._bar.start()
        self._task = self._bar.add_task("", total=total, completed=done)
        super().start(total, done)

    def done(self, name: str, line: Mapping[str, Any] | None) -> None:
        super().done(name, line)
        self._bar.update(self._task, completed=self._done, description=f"{self._left()} left")

    def stop(self) -> None:
        self._bar.stop()

    def _print(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)


def show_progress() -> Progress:
    """A bar on stderr in a terminal, else plain lines."""
    console = Console(stderr=True)
    return Bar(console) if console.is_terminal else Progress()


def outcome(line: Mapping[str, Any] | None) -> str:
    """A cell's result in a few words."""
    if line is None:
        return "done by another runner"
    if line["status"] != "ok":
        return "failed"
    chosen = line.get("selected") or line["last"]
    seconds = f"{line['seconds']:.0f} s"
    if "accuracy" not in chosen:
        return f"held out {chosen['holdout']:.1f} %, {seconds}"
    last, best = (line[name]["accuracy"] for name in ("last", "best"))
    return f"{chosen['accuracy']:.1f} % (last {last:.1f}, best {best:.1f}), {seconds}"


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(40), duration(600), duration(40_000)
    ('40 s', '10 min', '11 h 07 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
