"""Install a wheel in an empty environment and run the quickstart there, offline and without the repository.

    python tools/check_wheel.py dist/pars_lnl-*.whl [--constraints constraints.txt] [--keep FOLDER]

Prints what was done, one line each; exit code 1 where something fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

LARGEST = 2_000_000  # bytes of a wheel
ROOT = Path(__file__).resolve().parents[1]
NO_NETWORK = """
import socket, sys
def refuse(*args, **options):
    raise OSError("no network in this check")
socket.socket.connect = socket.create_connection = refuse
"""
QUICKSTART = """
import time
begun = time.perf_counter()
import pars
seconds = time.perf_counter() - begun
import sys
assert "torch" not in sys.modules and seconds < 1, seconds
assert "site-packages" in pars.__file__, pars.__file__
print(f"import pars: {seconds:.3f} s")
import numpy as np
from sklearn.datasets import load_digits
(X, y), rng = load_digits(return_X_y=True), np.random.default_rng(0)
noisy = np.where(rng.random(1347) < 0.4, rng.integers(10, size=1347), y[:1347])
from pars import PARSClassifier
model = PARSClassifier(random_state=0).fit(X[:1347], noisy)
score = model.score(X[1347:], y[1347:])
print(f"quickstart: {score:.2f} accuracy, {model.audit().noise_rate:.0%} of the labels look wrong")
assert score > 0.9
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--constraints", type=Path, default=ROOT / "constraints.txt")
    parser.add_argument("--keep", type=Path, help="folder for the environment (default: a temporary one)")
    options = parser.parse_args()
    wheel = options.wheel.resolve()
    size, names = wheel.stat().st_size, zipfile.ZipFile(wheel).namelist()
    print(f"{wheel.name}: {size} bytes, {len(names)} files")
    if size > LARGEST:
        print(f"expected at most {LARGEST} bytes")
        return 1
    if stray := [name for name in names if name.startswith(("tests", "benchmarks", "results", "docs"))]:
        print(f"not meant to be in a wheel: {stray[:5]}")
        return 1
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        return check(wheel, folder.resolve(), options.constraints.resolve())


def check(wheel: Path, folder: Path, constraints: Path) -> int:
    """Install and run; nothing of this repository is on the path, and connections are refused."""
    environment, work = folder / "env", folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    if not (environment / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    begun = time.monotonic()
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(constraints)]
    subprocess.run([*install, str(wheel)], check=True)
    print(f"installed in an empty environment in {time.monotonic() - begun:.0f} s")
    (environment / "offline").mkdir(exist_ok=True)
    (environment / "offline" / "sitecustomize.py").write_text(NO_NETWORK)
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PARS_"))}
    clean |= {"PYTHONPATH": str(environment / "offline"), "HF_HUB_OFFLINE": "1"}
    for command in (
        [str(environment / "bin" / "pars"), "--version"],
        [str(environment / "bin" / "pars"), "methods", "--json"],
        [python, "-c", QUICKSTART],
        [str(environment / "bin" / "pars"), "demo", "--epochs", "1"],
    ):
        done = subprocess.run(command, cwd=work, env=clean, capture_output=True, text=True)
        shown = " ".join(part if "\n" not in part else "QUICKSTART" for part in command[:3]).replace(
            str(environment), ""
        )
        print(f"{'passed' if not done.returncode else 'FAILED'}: {shown}: {done.stdout.strip()[-160:]}")
        if done.returncode:
            print(done.stderr[-2000:])
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
