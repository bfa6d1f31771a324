"""Keeps what an epoch's log would hold, and shows progress to whoever asked for it."""

from __future__ import annotations

from typing import Any

from pars.engine import Quiet, Watcher


class Recorder:
    """A watcher that remembers, and tells another."""

    def __init__(self, shown: Watcher | None) -> None:
        self.lines: list[dict[str, Any]] = []
        self._shown = Quiet() if shown is None else shown

    def start(self, total_steps: int, done_steps: int, title: str) -> None:
        self._shown.start(total_steps, done_steps, title)

    def step(self, images: int) -> None:
        self._shown.step(images)

    def epoch(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        self._shown.epoch(line)

    def stop(self) -> None:
        self._shown.stop()
