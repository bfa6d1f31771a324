"""`torchrun -m pars train`: one process of two is killed, then the run is resumed with two and with one."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

from pars.engine import load_tensors

FLAGS = "--preset digits --data.limit 300 --method elr --noise.rate 0.4 --train.epochs 3 --train.lr 0.01"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "pars"]


def start(*args: str, processes: int = 2) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}
    launcher = TORCHRUN if processes == 2 else ["-m", "pars"]
    return subprocess.Popen(
        [sys.executable, *launcher, *args], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> str:
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


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


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_tensors(run / "model.safetensors")[0]


def test_a_killed_process_stops_all_and_the_run_resumes_with_two_or_one(tmp_path: Path) -> None:
    whole, killed, alone = tmp_path / "whole", tmp_path / "killed", tmp_path / "alone"
    said = finish(start("train", *FLAGS.split(), "--out", str(whole)))
    assert "2 processes (cpu)" in said

    running = start("train", *FLAGS.split(), "--out", str(killed))
    metrics = killed / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_text().count("\n") >= 1):
        assert running.poll() is None
        time.sleep(0.02)
    os.kill(workers(running.pid)[1], signal.SIGKILL)
    died = time.monotonic()
    _, said = running.communicate(timeout=60)
    assert running.returncode != 0
    assert time.monotonic() - died < 60
    assert re.search(r"rank\s*:\s*1", said), said  # torchrun's report
    assert not (killed / "result.json").exists()

    shutil.copytree(killed, alone)
    finish(start("resume", str(killed)))
    finish(start("resume", str(alone), processes=1))
    expected = weights(whole)
    for name, tensor in weights(killed).items():
        assert torch.equal(tensor, expected[name]), name
    for name, tensor in weights(alone).items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-2, atol=1e-3, msg=name)
