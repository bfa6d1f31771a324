"""A cell as a subprocess: what a worker does, here or on another machine. Nothing but the standard library."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

IN_USE = 75  # exit code of a cell that another process is training (EX_TEMPFAIL)
_TRIES = 3  # of a cell that is killed
_WAIT = 2.0  # seconds between looks at a cell that another process trains
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

_running: set[subprocess.Popen[str]] = set()
_lock = threading.Lock()
_stopped = threading.Event()


def run_pars(arguments: Sequence[str], *, wait: bool = False) -> tuple[int, str, str]:
    """Run `pars ARGUMENTS` in a process with one thread: exit code, stdout and stderr.

    It is started again when a signal ends it that nobody here sent, and resumes then. wait: for the process that
    trains the same cell; else the code is IN_USE.
    """
    command = [sys.executable, "-m", "pars", *arguments]
    tries = 0
    while True:
        # A session of its own: Ctrl-C in the terminal reaches the runner alone, which then stops the cells once.
        with _lock:
            if _stopped.is_set():
                return 130, "", "stopped"
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                env={**os.environ, **_ONE_THREAD},
                start_new_session=True,
            )
            _running.add(process)
        try:
            out, err = process.communicate()
        finally:
            with _lock:
                _running.discard(process)
        if process.returncode == IN_USE and wait and not _stopped.wait(_WAIT):
            continue
        tries += 1
        if process.returncode >= 0 or tries == _TRIES or _stopped.is_set():
            return process.returncode, out, err
        time.sleep(0.1)


def stop_all() -> None:
    """Stop the cells of this process: each saves and ends, and no other begins."""
    with _lock:
        _stopped.set()
        for process in _running:
            process.terminate()


def allow() -> None:
    """Let cells begin again."""
    _stopped.clear()
