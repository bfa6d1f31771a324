"""Memory and time where there are many rows or classes: each case in a process of its own, at three sizes.

    python benchmarks/scale.py score                  # audit.score: 1 M x 10, 200 000 x 1 000, 20 000 x 5 000
    python benchmarks/scale.py neighbors              # votes of the nearest neighbors, 64 features
    python benchmarks/scale.py fit                    # pars fit and pars audit on rows of 8 features, to 1 M
    python benchmarks/scale.py packs                  # training from packs of 20 000 and 200 000 images

Peak memory is that of the process (VmHWM) above what it had before its input was made, input included; of `pars`
commands it is that of the whole process. Time is that of one thread. Adds a line per case to results/scale.jsonl.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

OUT = Path(__file__).resolve().parents[1] / "results" / "scale.jsonl"
SCORES = ((1_000_000, 10), (200_000, 1_000), (20_000, 5_000))
ROWS = (125_000, 500_000, 1_000_000)
PACKS = (20_000, 200_000)


def status(name: str) -> int:
    """Bytes of this process, of /proc."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


def measured(made: Callable[[], Any], work: Callable[[Any], Any]) -> dict[str, float]:
    before = status("VmRSS:")
    given = made()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    size, began, cpu = status("VmRSS:") - before, time.perf_counter(), time.process_time()
    work(given)
    return {
        "input_mb": round(size / 1e6, 1),
        "peak_mb": round((status("VmHWM:") - before) / 1e6, 1),
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
    }


def probabilities(n: int, k: int) -> tuple[Any, Any]:
    """Probabilities [n, K] in float64, and labels a fifth of which are wrong."""
    rng = np.random.default_rng(0)
    true = rng.integers(k, size=n)
    p = np.empty((n, k))
    for start in range(0, n, step := max(1, 2**22 // k)):
        part = p[start : start + step]
        rng.standard_exponential(out=part)
        part[np.arange(len(part)), true[start : start + step]] += k * rng.random(len(part))
        part /= part.sum(axis=1, keepdims=True)
    return p, np.where(rng.random(n) < 0.2, rng.integers(k, size=n), true)


def score(n: int, k: int) -> dict[str, float]:
    from pars import audit

    audit.score(*probabilities(200, 2))  # what is loaded once
    return measured(lambda: probabilities(n, k), lambda given: audit.score(*given))


def neighbors(n: int, k: int) -> dict[str, float]:
    from pars.audit.scoring import neighbor_votes

    def made() -> tuple[Any, Any]:
        rng = np.random.default_rng(0)
        y = rng.integers(k, size=n)
        x = rng.standard_normal((k, 64)).astype(np.float32)[y] + rng.standard_normal((n, 64), dtype=np.float32)
        return x, y

    return measured(made, lambda given: neighbor_votes(given[0], given[1], n_classes=k))


def command(args: list[str], folder: str | None = None) -> dict[str, float]:
    """A command of pars in a process that reports its peak."""
    code = (
        "import sys, time; from pars.cli.main import main; code = main(sys.argv[1:]); "
        "peak = open('/proc/self/status').read().split('VmHWM:')[1].split()[0]; "
        "print('peak', peak, time.process_time(), file=sys.stderr); sys.exit(code)"
    )
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    peak, cpu = done.stderr.rsplit("peak", 1)[1].split()
    return {
        "peak_mb": round(int(peak) * 1024 / 1e6, 1),
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(float(cpu), 1),
    }


def fit(n: int, *flags: str) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=n)
    x = rng.standard_normal((4, 8)).astype(np.float32)[y] * 2 + rng.standard_normal((n, 8), dtype=np.float32)
    y = np.where(rng.random(n) < 0.2, rng.integers(4, size=n), y)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "rows.npz", x=x, y=y)
        of_fit = command(["fit", "rows.npz", "--out", "fit", "--json", *flags], folder)
        epochs = len((Path(folder) / "fit" / "robust" / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        about = {"rows": n, "features": 8, "epochs": epochs, "input_mb": round(x.nbytes / 1e6, 1)}
        lines = [{"case": " ".join(["pars fit", *flags]), **about, **of_fit}]
        of_audit = command(["audit", "fit", "--out", "audit.csv"], folder)
        return [*lines, {"case": "pars audit", "rows": n, "classes": 4, **of_audit}]


def packs(n: int) -> dict[str, Any]:
    from PIL import Image

    from pars.data.pack import ImageToPack, write_pack

    rng = np.random.default_rng(0)
    files = []
    for _ in range(64):  # many rows, few files: what is in an image does not matter here
        small = Image.fromarray(rng.integers(0, 255, (4, 4, 3), dtype=np.uint8))
        content = io.BytesIO()
        small.resize((32, 32), Image.Resampling.BICUBIC).save(content, "JPEG")
        files.append(content.getvalue())
    with tempfile.TemporaryDirectory() as folder:
        rows = (ImageToPack(f"{i}", "abcd"[i % 4], files[i % 64]) for i in range(n))
        done = write_pack(rows, Path(folder) / "pack", "abcd", side=32)
        flags = "--preset images --method ce --model.width 4 --train.epochs 1 --train.steps-per-epoch 50 --out run"
        line = command(["train", *flags.split(), "--data.name", "pack", "--json"], folder)
        return {"pack_mb": round(done.size / 1e6, 1), "state_mb": round(n * (37 + 4 * 4) / 1e6, 1), **line}


def child(case: str, *sizes: int) -> dict[str, Any]:
    """A case in a process of its own."""
    args = [sys.executable, __file__, "child", case, *map(str, sizes)]
    done = subprocess.run(args, capture_output=True, text=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def add(line: dict[str, Any], name: str) -> None:
    line |= {"command": f"python benchmarks/scale.py {name}"}
    with OUT.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(line, flush=True)


def main() -> None:
    if sys.argv[1:2] == ["child"]:
        print(json.dumps({"score": score, "neighbors": neighbors}[sys.argv[2]](*map(int, sys.argv[3:]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=("score", "neighbors", "fit", "packs"))
    parser.add_argument("--classes", type=int, nargs="+", help="score: only these numbers of classes")
    parser.add_argument("--parts", type=int, nargs="+", default=(4, 2, 1), help="score: of the rows, divided by these")
    parser.add_argument("--rows", type=int, nargs="+", help="fit, neighbors: other numbers of rows")
    parser.add_argument("--no-baseline", action="store_true", help="fit: without plain training")
    options = parser.parse_args()
    if options.case == "score":
        for n, k in SCORES:
            if options.classes and k not in options.classes:
                continue
            for part in options.parts:
                line = child("score", n // part, k)
                ratio = round(line["peak_mb"] / line["input_mb"], 2)
                add({"case": "audit.score", "rows": n // part, "classes": k, **line, "peak_ratio": ratio}, "score")
    elif options.case == "neighbors":
        for n in options.rows or ROWS:
            add({"case": "neighbor votes", "rows": n, "features": 64, **child("neighbors", n, 10)}, "neighbors")
    elif options.case == "fit":
        os.environ["OMP_NUM_THREADS"] = "1"
        for n in options.rows or ROWS:
            for line in fit(n, *(["--no-baseline"] if options.no_baseline else [])):
                add(line, "fit")
    else:
        for n in PACKS:
            add({"case": "packs", "rows": n, **packs(n)}, "packs")


if __name__ == "__main__":
    main()
