"""Mutated inputs over every reader: each is read, or refused with a message; no traceback, no hang, bounded memory.

    python tests/campaign/mutations.py --cases 1000 >> results/faults-mutations.jsonl

Files are mutated where it hurts: members of an archive before they are packed again, the header of a safetensors file
with its length put right, so that checksums of the container do not refuse everything at once.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 60  # a case that takes longer hangs; wall clock, on a machine that others use, too
MEGABYTES = 1500  # that the process may take in all, torch included
TOKENS = [b"", b"\0", b"\xff\xfe", b"nan", b"-1", b"1e999", b"9" * 400, b"[" * 2000, b"{", b'"', b",", b"\n", b"\r",
          b"\\ud800", b"\xe9", b"null", b"true", b"../..", b"__import__('os')", b"%s%n", b"\x1b[31m"]  # fmt: skip
Rng = np.random.Generator


def mutate(content: bytes, rng: Rng) -> bytes:
    """One to three random changes: flipped bits, cuts, repeated or exchanged pieces, tokens that readers trip over."""
    out = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(0, len(out) + 1))
        length = int(rng.integers(1, 1 + max(1, min(64, len(out)))))
        match rng.integers(0, 7):
            case 0 if out:
                out[at % len(out)] ^= 1 << int(rng.integers(0, 8))
            case 1:
                del out[at:]
            case 2:
                del out[at : at + length]
            case 3:
                out[at:at] = out[at : at + length] * int(rng.integers(1, 50))
            case 4:
                out[at : at + length] = rng.bytes(length)
            case _:
                out[at:at] = TOKENS[int(rng.integers(0, len(TOKENS)))]
    return bytes(out)


def mutate_zip(content: bytes, rng: Rng) -> bytes:
    """A member changed and packed again with the right checksum, or the archive itself."""
    if rng.random() < 0.3:
        return mutate(content, rng)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(members)[int(rng.integers(0, len(members)))]
    head = 128  # numpy's header: changes there are the interesting ones
    members[name] = mutate(members[name][:head], rng) + members[name][head:]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, data in members.items():
            archive.writestr(each, data)
    return out.getvalue()


def mutate_safetensors(content: bytes, rng: Rng) -> bytes:
    if rng.random() < 0.3:
        return mutate(content, rng)
    length = int.from_bytes(content[:8], "little")
    header = mutate(content[8 : 8 + length], rng)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def mutate_file(path: Path, rng: Rng) -> None:
    content = path.read_bytes()
    by_suffix = {".npz": mutate_zip, ".safetensors": mutate_safetensors}
    path.write_bytes(by_suffix.get(path.suffix, mutate)(content, rng))


# Files to begin with, and who reads them


def make_seeds(folder: Path) -> None:
    """One whole input of each kind."""
    import torch
    from PIL import Image

    from pars import run
    from pars.data import DataConfig
    from pars.engine import Callback, TrainConfig
    from pars.models import ModelConfig

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    rows = [(f"{rng.random():.3f}", "red" if row % 3 else "blue", "ab"[row % 2]) for row in range(30)]
    (folder / "t.csv").write_text("x,color,y\n" + "".join(",".join(row) + "\n" for row in rows))
    (folder / "t.jsonl").write_text("".join(json.dumps({"x": float(a), "text": b, "y": c}) + "\n" for a, b, c in rows))
    try:
        import pyarrow as pa
        from pyarrow import parquet

        table = pa.table(
            {"x": [float(row[0]) for row in rows], "c": [row[1] for row in rows], "y": [r[2] for r in rows]}
        )
        parquet.write_table(table, folder / "t.parquet")
    except ImportError:
        pass
    np.savez(folder / "t.npz", x=rng.random((30, 4)).astype(np.float32), y=np.arange(30) % 2)
    pixels = rng.integers(0, 255, (12, 12, 3), dtype=np.uint8)
    for suffix in ("png", "jpg", "gif", "bmp", "tif", "webp"):
        Image.fromarray(pixels).save(folder / f"p.{suffix}")
    Image.fromarray(np.arange(144, dtype=np.uint16).reshape(12, 12) * 400).save(folder / "deep.png")
    config = run.RunConfig(
        data=DataConfig(name="digits", limit=100),
        model=ModelConfig(name="linear"),
        train=TrainConfig(epochs=2, batch_size=50, checkpoint_seconds=0.0, dynamics_every=1),
        device="cpu",
    )
    run.train(config, folder / "run")
    shutil.copy(folder / "run" / "config.toml", folder / "c.toml")

    class Stop(Callback):
        def __init__(self) -> None:
            self.left = 3

        def step(self, rows: int) -> None:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt

    try:
        run.train(config, folder / "stopped", callback=Stop())
    except BaseException:  # as a kill would: the checkpoint of the last step is there
        assert (folder / "stopped" / "checkpoint.safetensors").exists()


def read_table(path: Path) -> None:
    from pars import data, encode

    table = data.read_table(path, label=None if path.suffix == ".npz" else "y")
    encode.fit_preprocessor(table).transform(table)
    encode.rows.table_checksum(table)


def read_arrays(path: Path) -> None:
    from pars import data

    data.arrays(path)


def read_toml(path: Path) -> None:
    from pars import run

    run.read_toml(path, run.RunConfig())


def read_image(path: Path) -> None:
    from pars import data

    data.image_file_shape(path)
    data.read_image(path, size=16)


def read_run(path: Path) -> None:
    """As `pars inspect`, `audit`, `predict` and `resume` do; one refusing must not hide what the next would do."""
    from pars import audit, report, run
    from pars.errors import UserError

    refused: list[UserError] = []
    for read in (report.read_run, audit.audit_run, lambda p: run.load_run(p, device="cpu"), run.resume):
        try:
            read(path)
        except UserError as error:
            refused.append(error)
    if refused:
        raise refused[0]


def resume_run(path: Path) -> None:
    from pars import run

    run.resume(path)


Reader = Callable[[Path], None]
KINDS: dict[str, tuple[list[str], Reader]] = {
    "csv": (["t.csv"], read_table),
    "jsonl": (["t.jsonl"], read_table),
    "parquet": (["t.parquet"], read_table),
    "npz": (["t.npz"], read_table),
    "npz data set": (["t.npz"], read_arrays),
    "toml": (["c.toml"], read_toml),
    "image": (["p.png", "p.jpg", "p.gif", "p.bmp", "p.tif", "p.webp", "deep.png"], read_image),
    "run folder": (["run"], read_run),
    "checkpoint": (["stopped"], resume_run),
}


def prepare(case: int, kind: str, seeds: Path, folder: Path) -> tuple[Path, str]:
    """A mutated copy of a seed, and what was mutated."""
    rng = np.random.default_rng([2026, case])
    names = KINDS[kind][0]
    name = names[int(rng.integers(0, len(names)))]
    target = folder / name
    if not (seeds / name).is_dir():
        shutil.copy(seeds / name, target)
        mutate_file(target, rng)
        return target, name
    shutil.copytree(seeds / name, target)
    files = sorted(file for file in target.iterdir() if file.is_file() and file.name != "lock")
    if kind == "checkpoint":
        files = [target / "checkpoint.safetensors"]
    file = files[int(rng.integers(0, len(files)))]
    if rng.random() < 0.1:
        file.unlink()
    else:
        mutate_file(file, rng)
    return target, f"{name}/{file.name}"


class Hang(BaseException):
    """Longer than a case may take."""


def stop(number: int, frame: Any) -> None:
    raise Hang


def run_case(case: int, kind: str, seeds: Path) -> dict[str, Any]:
    """The outcome: "read", "refused", or what went wrong."""
    from pars.errors import UserError

    with tempfile.TemporaryDirectory() as name:
        path, what = prepare(case, kind, seeds, Path(name))
        before = path.read_bytes() if path.is_file() else None
        signal.signal(signal.SIGALRM, stop)
        signal.alarm(SECONDS)
        begun = time.monotonic()
        trace = ""
        try:
            KINDS[kind][1](path)
            outcome = "read"
        except UserError as error:
            outcome = "refused" if str(error) else "an empty message"
        except OSError as error:
            outcome = "refused" if error.filename is not None else "traceback"
            trace = "" if outcome == "refused" else traceback.format_exc()
        except Hang:
            outcome, trace = "hang", traceback.format_exc()
        except Exception:
            outcome, trace = "traceback", traceback.format_exc()
        finally:
            signal.alarm(0)
        if before is not None and path.read_bytes() != before:
            outcome = "damaged the file"
    seconds = time.monotonic() - begun
    return {"case": case, "kind": kind, "what": what, "outcome": outcome, "seconds": round(seconds, 2), "trace": trace}


def check_seeds(seeds: Path, kinds: Sequence[str]) -> None:
    """Whole inputs are read: otherwise that mutated ones are refused would say nothing."""
    for kind in kinds:
        names, reader = KINDS[kind]
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                copy = shutil.copytree if (seeds / name).is_dir() else shutil.copy
                copy(seeds / name, Path(folder) / name)
                reader(Path(folder) / name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    options = parser.parse_args()
    kinds = options.kinds
    found: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as name:
        seeds = Path(name)
        make_seeds(seeds)
        check_seeds(seeds, kinds)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for case in range(options.first, options.first + options.cases):
            kind = kinds[case % len(kinds)]
            done = run_case(case, kind, seeds)
            found[kind, done["outcome"]] += 1
            if done["outcome"] not in ("read", "refused"):
                print(
                    f"case {case}: {kind}, {done['what']}: {done['outcome']}\n{done['trace']}",
                    file=sys.stderr,
                    flush=True,
                )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    outcomes: Counter[str] = Counter()
    for (_, outcome), count in found.items():
        outcomes[outcome] += count
    line = {
        "command": f"python tests/campaign/mutations.py --cases {options.cases} --first {options.first}",
        "cases": options.cases,
        "outcomes": dict(outcomes),
        "by_kind": {kind: {out: n for (k, out), n in sorted(found.items()) if k == kind} for kind in kinds},
        "peak_megabytes": peak,
        "megabytes_before": before // 1024,
        "bounded": peak < MEGABYTES,
    }
    print(json.dumps(line))
    return 0 if set(outcomes) <= {"read", "refused"} and peak < MEGABYTES else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
