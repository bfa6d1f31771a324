"""Stop signals (Ctrl-C, kill, a closed terminal): the first one lets the step under way end, so that the work can be
saved; the second stops at once.

This is the only place in pars that handles signals.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = tuple(s for s in signal.Signals if s.name in ("SIGINT", "SIGTERM", "SIGHUP"))  # not all exist everywhere


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
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield seen
    except Interrupted as stop:
        stop.signal = received[0]
        raise
    finally:
        restore()


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
