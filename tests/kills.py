"""Work in a process of its own, killed after so many signs of life."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

Work = Callable[[str, Connection], None]
"""Gets a path, and sends a byte for every step that it has done."""


class Killer:
    """Processes forked from a server that has imported everything: a new one costs milliseconds, no import of torch."""

    def __init__(self, work: Work, preload: Sequence[str]) -> None:
        self.work = work
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(list(preload))

    def run(self, out: Path, kill_after: int | None = None, delay: float = 0.0) -> int | None:
        """The exit code of the work in `out`: killed `delay` seconds after so many steps, or undisturbed."""
        here, there = self.context.Pipe(duplex=False)
        process = self.context.Process(target=self.work, args=(str(out), there))
        process.start()
        there.close()
        try:
            if kill_after is not None:
                for _ in range(kill_after):
                    assert here.poll(60)
                    here.recv_bytes()
                time.sleep(delay)
                process.kill()
            else:
                drain(here)
            process.join(60)
        finally:
            process.kill()
        return process.exitcode


def drain(pipe: Connection) -> None:
    """Read until the other side is gone."""
    try:
        while pipe.poll(60):
            pipe.recv_bytes()
    except EOFError:
        return
