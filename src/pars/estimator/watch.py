"""Keeps what an epoch's log would hold, and shows progress to whoever asked for it."""

from __future__ import annotations

from typing import Any

from pars.engine import Quiet, Watcher, watcher


class Recorder:
    """A watcher that remembers."""

    def __init__(self, *, verbose: bool) -> None:
        self.lines: list[dict[str, Any]] = []
        self._shown: Watcher = watcher() if verbose else Quiet()

    def start(self, total_steps: int, done_steps: int, title: str) -> None:
        self._shown.start(total_steps, done_steps, title)

    def step(self, images: int) -> None:
        self._shown.step(images)

    def epoch(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        self._shown.epoch(line)

    def stop(self) -> None:
        self._shown.stop()
