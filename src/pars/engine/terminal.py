"""Between a run and the terminal it was started from: progress on stderr, and stop signals.

Progress is a bar in a terminal, a line per epoch elsewhere. It is a `Callback`, the base class for whatever is to be
called in the course of training.

Of stop signals (Ctrl-C, kill, a closed terminal) the first one lets the step under way end, so that the work can be
saved; the second stops at once. This is the only place in pars that handles signals.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SIGNALS = tuple(s for s in signal.Signals if s.name in ("SIGINT", "SIGTERM", "SIGHUP"))  # not all exist everywhere


class Callback:
    """Base class for whatever is to be called in the course of training; does nothing."""

    def start(self, total_steps: int, done_steps: int, title: str) -> None:
        """Training begins, or is resumed after `done_steps`."""

    def step(self, rows: int) -> None:
        """A step on so many rows is done."""

    def epoch(self, line: dict[str, Any]) -> None:
        """An epoch is done; `line` is what metrics.jsonl has of it."""

    def stop(self) -> None:
        """Training has ended, or was interrupted."""


class Lines(Callback):
    """A plain line per epoch, with the rate and the time left."""

    def start(self, total_steps: int, done_steps: int, title: str) -> None:
        self._title, self._total, self._done, self._images = title, total_steps, done_steps, 0
        self._from, self._began = done_steps, time.monotonic()

    def step(self, rows: int) -> None:
        self._done += 1
        self._images += rows

    def epoch(self, line: dict[str, Any]) -> None:
        parts = [f"epoch {line['epoch']}", line["stage"]]
        parts += [f"{key} {value:.3f}" for key, value in line["losses"].items()]
        if "test" in line:
            parts.append(f"test {line['test']['ema']:.2f} % (without EMA {line['test']['raw']:.2f} %)")
        if "holdout" in line:
            parts.append(f"held-out noisy {line['holdout']['ema']:.2f} %")
        selection = line["selection"].get("pseudo")
        if selection:
            parts.append(f"selected {100 * selection['selected'] / selection['rows']:.0f} %")
            if "pseudo_accuracy_selected" in selection:
                parts.append(f"of them right {100 * selection['pseudo_accuracy_selected']:.1f} %")
        self._print(" · ".join(parts))

    def _print(self, text: str) -> None:
        spent = time.monotonic() - self._began
        left = spent / max(1, self._done - self._from) * (self._total - self._done)
        rate = f"{self._images / max(spent, 1e-9):.0f} rows/s, {left:.0f} s left"
        with suppress(OSError):  # the reader is gone (`2>&1 | head -1`), or the log's disk is full: no reason to stop
            print(f"{self._title}: {text} · {rate}", file=sys.stderr, flush=True)


class TimedLines(Lines):
    """A plain line every ten seconds and at the end, for work without epochs; what is counted is rows."""

    every = 10.0

    def start(self, total_steps: int, done_steps: int, title: str) -> None:
        super().start(total_steps, done_steps, title)
        self._printed = self._began

    def step(self, rows: int) -> None:
        self._done += rows
        self._images += rows
        if self._done == self._total or time.monotonic() - self._printed > self.every:
            self._print(f"{self._done} of {self._total}")
            self._printed = time.monotonic()


class Bar(Callback):
    """A rich progress bar with rate, time left and current accuracy."""

    def __init__(self, console: Console, *, by_rows: bool = False) -> None:
        self._console, self._by_rows = console, by_rows

    def start(self, total_steps: int, done_steps: int, title: str) -> None:
        columns = (
            TextColumn("{task.description}", style="bold", markup=False),  # a title may hold brackets
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[rate]:.0f} rows/s  {task.fields[note]}", markup=False),
        )
        self._progress = Progress(*columns, console=self._console)
        self._progress.start()
        self._task = self._progress.add_task(title, total=total_steps, completed=done_steps, rate=0.0, note="")
        self._images, self._began = 0, time.monotonic()

    def step(self, rows: int) -> None:
        self._images += rows
        rate = self._images / max(time.monotonic() - self._began, 1e-9)
        self._progress.update(self._task, advance=rows if self._by_rows else 1, rate=rate)

    def epoch(self, line: dict[str, Any]) -> None:
        """Show the shortest answer to "how is it going?", for a narrow terminal."""
        split = next((name for name in ("test", "holdout") if name in line), None)
        accuracy = "" if split is None else f", {split} {line[split]['ema']:.1f} %"
        self._progress.update(self._task, note=f"{line['stage']}{accuracy}")

    def stop(self) -> None:
        self._progress.stop()


def show_progress(*, epochs: bool = True) -> Callback:
    """The callback that shows progress on stderr: a bar in a terminal, else a line per epoch.

    epochs: false for work that has none. Then a line is printed every ten seconds, and `start` counts rows, not steps.
    """
    console = Console(stderr=True)
    if console.is_terminal:
        return Bar(console, by_rows=not epochs)
    return Lines() if epochs else TimedLines()


class Interrupted(Exception):
    """The work was stopped by a signal. What was done is saved, where there is a folder to save it in."""

    signal: int = signal.SIGINT

    @property
    def exit_code(self) -> int:
        """What a shell shows for a process that died of the signal: 130 for Ctrl-C, 143 for kill."""
        return 128 + self.signal


@contextmanager
def catch_interrupt() -> Iterator[list[bool]]:
    """Give a list that is empty until the first signal; who finds it filled saves and raises `Interrupted`."""
    seen: list[bool] = []
    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield seen
        return
    # One that is ignored stays so: nohup ignores SIGHUP, and a shell SIGINT for what it starts in the background.
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    before = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    received: list[int] = []

    def on_signal(number: int, frame: object) -> None:
        seen.append(True)
        received.append(number)
        for each, handler in before.items():  # the next one stops at once
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield seen
    except Interrupted as stop:
        if received:  # else another process was told to stop
            stop.signal = received[0]
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def resend_interrupt() -> Iterator[None]:
    """Send a signal that stopped training once more, now that its usual handler is back.

    For training inside somebody else's program, which has nothing to save: Ctrl-C becomes a KeyboardInterrupt there.
    """
    try:
        yield
    except Interrupted as stop:
        signal.raise_signal(stop.signal)
        raise KeyboardInterrupt from stop
