"""Ctrl-C: the first one saves and stops after the step under way, a second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupted(Exception):
    """The run was stopped by Ctrl-C; it is saved and can be resumed."""


@contextmanager
def catch_interrupt() -> Iterator[list[bool]]:
    """A list that is empty until the first Ctrl-C."""
    seen: list[bool] = []
    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield seen
        return

    def on_interrupt(number: int, frame: object) -> None:
        seen.append(True)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)
