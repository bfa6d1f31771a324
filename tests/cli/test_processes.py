"""`pars train` and `pars encode` in two processes that torchrun starts: one is killed or told to stop; then resumed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from data.clothing import write_clothing1m

from pars.engine import load_tensors

FLAGS = "--preset digits --data.limit 300 --method elr --noise.rate 0.4 --train.epochs 3 --train.lr 0.01"
ENCODER = """
import os
import time
import numpy as np

def letters(texts):
    time.sleep(float(os.environ.get('SLEEP', 0)))
    return np.array([[len(text), text.count("a")] for text in texts])
"""


def start(*args: str, processes: int = 2) -> subprocess.Popen[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if processes == 2 else []
    return begin([*launcher, "-m", "pars", *args])


def begin(args: list[str], **variables: str) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}
    command, out = [sys.executable, *args], subprocess.DEVNULL
    return subprocess.Popen(command, env=env | variables, stdout=out, stderr=subprocess.PIPE, text=True)


def run_pair(*args: str) -> str:
    """Run two processes without torchrun, as one that knows the same variables would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    both = [begin(["-m", "pars", *args], RANK=str(rank), LOCAL_RANK=str(rank), **here) for rank in (0, 1)]
    return "".join(map(finish, both))


def finish(process: subprocess.Popen[str]) -> str:
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


def wait_for(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    while not condition():
        assert process.poll() is None
        time.sleep(0.02)


def workers(parent: int) -> dict[int, int]:
    """Process number of each rank, from the processes whose parent is torchrun."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1]) != parent:
                continue
            rank = re.search(rb"\0RANK=(\d+)\0", b"\0" + (folder / "environ").read_bytes())
        except OSError:
            continue
        if rank:
            found[int(rank[1])] = int(folder.name)
    return found


def end(running: subprocess.Popen[str], rank: int, sent: signal.Signals) -> str:
    """Send a signal to one rank; all end within a minute. Returns what they said."""
    os.kill(workers(running.pid)[rank], sent)
    _, said = running.communicate(timeout=60)
    assert running.returncode != 0
    return said


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_tensors(run / "model.safetensors")[0]


def test_one_that_is_killed_or_told_to_stop_stops_all_and_two_or_one_resume(tmp_path: Path) -> None:
    whole, stopped, alone = tmp_path / "whole", tmp_path / "stopped", tmp_path / "alone"
    assert "2 processes (cpu)" in run_pair("train", *FLAGS.split(), "--out", str(whole))

    metrics = stopped / "metrics.jsonl"
    running = start("train", *FLAGS.split(), "--out", str(stopped))
    wait_for(running, metrics.exists)
    said = end(running, 1, signal.SIGTERM)
    assert "pars resume" in said, said  # from the first, which was not told
    assert (stopped / "checkpoint.safetensors").exists()
    assert not (stopped / "result.json").exists()

    before = metrics.stat().st_mtime_ns
    running = start("resume", str(stopped))
    wait_for(running, lambda: metrics.stat().st_mtime_ns > before)
    said = end(running, 1, signal.SIGKILL)
    assert re.search(r"rank\s*:\s*1", said), said  # torchrun's report
    assert not (stopped / "result.json").exists()

    shutil.copytree(stopped, alone)
    run_pair("resume", str(stopped))
    finish(start("resume", str(alone), processes=1))
    expected = weights(whole)
    for name, tensor in weights(stopped).items():
        assert torch.equal(tensor, expected[name]), name
    for name, tensor in weights(alone).items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-2, atol=1e-3, msg=name)


def test_clothing1m_has_the_same_losses_in_one_process_and_in_two(tmp_path: Path) -> None:
    root = write_clothing1m(tmp_path / "clothing")
    flags = (
        f"--preset clothing1m --data.name {root} --model.name small_cnn --model.width 2 --method.warm-up 1 "
        "--train.epochs 2 --train.steps-per-epoch 3 --train.batch-size 8 --train.dynamics-every 0"
    )
    finish(start("train", *flags.split(), "--out", str(tmp_path / "one"), processes=1))
    finish(start("train", *flags.split(), "--out", str(tmp_path / "two")))
    one, two = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text("utf-8").splitlines()]
        for name in ("one", "two")
    )
    assert [line["stage"] for line in one] == ["warm-up", "main"]
    for alone, together in zip(one, two, strict=True):
        assert together["losses"] == pytest.approx(alone["losses"], rel=1e-4, abs=1e-6)


def test_two_processes_encode_what_one_does_also_if_one_is_killed(tmp_path: Path) -> None:
    (tmp_path / "slow_letters.py").write_text(ENCODER)
    table = tmp_path / "t.csv"
    table.write_text("text\n" + "".join(f"{'ab' * (row % 7)}{row}\n" for row in range(300)))
    path = os.pathsep.join([str(tmp_path), *(path for path in sys.path if path)])
    common = ["--text", "text", "--encoder", "python:slow_letters:letters", "--batch", "1", "--views", "1"]

    def command(out: str) -> list[str]:
        return ["-m", "pars", "encode", str(table), str(tmp_path / out), *common]

    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    running = begin([*launcher, *command("two.npz")], PYTHONPATH=path, SLEEP="0.05")
    work = tmp_path / "two.npz.part"
    wait_for(running, (work / "done.1.json").exists)  # its first shards are recorded
    said = end(running, 1, signal.SIGKILL)
    assert re.search(r"rank\s*:\s*1", said), said
    assert not (tmp_path / "two.npz").exists()
    assert (work / "done.json").exists()

    finish(begin([*launcher, *command("two.npz")], PYTHONPATH=path))
    finish(begin(command("one.npz"), PYTHONPATH=path))
    one, two = (np.load(tmp_path / name) for name in ("one.npz", "two.npz"))
    assert sorted(one) == sorted(two)
    for name in one:
        assert one[name].tobytes() == two[name].tobytes(), name
    assert sorted(file.name for file in tmp_path.iterdir() if "npz" in file.name) == ["one.npz", "two.npz"]
