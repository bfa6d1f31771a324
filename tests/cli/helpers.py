"""The command in this process, files to give it, and what is on disk before and after."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run.helpers import snapshot

from pars.cli import main

NAMES = np.array(["cat", "dog", "eel"])
# Two epochs of a linear network on 200 digits: a moment.
DIGITS = ("--data.limit", "200", "--train.epochs", "2", "--model.name", "linear")


def pars(*args: object) -> int:
    """Exit code of `pars ARGS`; argparse and tyro leave by SystemExit."""
    try:
        return main([str(arg) for arg in args])
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 1


def process(*args: object, **options: Any) -> subprocess.Popen[str]:
    """`pars ARGS` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "pars", *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        **options,
    )


def one_document(text: str) -> Any:
    """The one JSON document, on the one line, that a text is."""
    assert text.endswith("\n")
    assert text.count("\n") == 1

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def write_features(path: Path, **changes: Any) -> Path:
    """60 rows of 5 features around three centers, labels by name, the first 30 rows to test on; or as changed."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (3 * rng.standard_normal((3, 5))[y] + 0.5 * rng.standard_normal((60, 5))).astype(np.float32)
    content = {"x": x, "y": NAMES[y], "x_test": x[:30], "y_test": NAMES[y[:30]]} | changes
    np.savez(path, **{key: value for key, value in content.items() if value is not None})
    return path


def message(capsys: pytest.CaptureFixture[str]) -> str:
    """What stderr said, tyro's frames and line breaks taken away; stdout has to be empty."""
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return " ".join("".join(c for c in err if c not in "│╭╮╰╯─").split())


def refused(args: Sequence[object], folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The message of a command that must fail and leave `folder` as it is."""
    capsys.readouterr()
    before = snapshot(folder)
    assert pars(*args) == 2
    assert snapshot(folder) == before
    return message(capsys)


@contextmanager
def small_disk(size: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes: the kernel refuses, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
