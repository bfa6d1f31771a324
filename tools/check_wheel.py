"""Install a wheel in an empty environment and run its README there, offline and without the repository.

    python tools/check_wheel.py dist/pars_lnl-*.whl [--constraints constraints.txt] [--keep FOLDER]

Prints what was done, one line each; exit code 1 where something fails, where the quickstart prints something else than
the README shows, or where `pars demo` ends far from the README's results.
"""

from __future__ import annotations

import argparse
import email
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

LARGEST = 2_000_000  # bytes of a wheel
ROOT = Path(__file__).resolve().parents[1]
NO_NETWORK = """
import socket, sys
def refuse(*args, **options):
    raise OSError("no network in this check")
socket.socket.connect = socket.create_connection = refuse
"""
IMPORT = """
import time
begun = time.perf_counter()
import pars
seconds = time.perf_counter() - begun
import sys
assert "torch" not in sys.modules and seconds < 1, seconds
assert "site-packages" in pars.__file__, pars.__file__
print(f"import pars: {seconds:.3f} s")
"""
QUICKSTART = re.compile(r"```python\n(.+?)```\n\n```text\n(.+?)```", re.DOTALL)  # and what it prints
DIGITS = re.compile(r"^\| 8×8 digits, 50 % random \| (.+?) \| (.+?) \| \*\*(.+?)\*\* \|$", re.MULTILINE)
POINTS = 3.0  # between the demo's one seed and the mean of three in the README


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
    page = readme(wheel)
    quickstart, digits = QUICKSTART.search(page), DIGITS.search(page)
    if quickstart is None or digits is None:
        print("the README in the wheel has no quickstart with its output, or no results on digits")
        return 1
    program = str(environment / "bin" / "pars")
    checks: list[tuple[str, list[str], Callable[[str], str | None]]] = [
        ("pars --version", [program, "--version"], anything),
        ("pars methods", [program, "methods", "--json"], anything),
        ("import pars", [python, "-c", IMPORT], anything),
        ("quickstart", [python, "-c", quickstart[1]], lambda printed: differs(printed, quickstart[2])),
        ("pars demo", [program, "demo", "--json"], lambda printed: far_off(printed, digits.groups())),
    ]
    for name, command, wrong in checks:
        done = subprocess.run(command, cwd=work, env=clean, capture_output=True, text=True)
        complaint = f"exit code {done.returncode}\n{done.stderr[-2000:]}" if done.returncode else wrong(done.stdout)
        print(f"{'FAILED' if complaint else 'passed'}: {name}: {done.stdout.strip()[-160:]}", flush=True)
        if complaint:
            print(complaint)
            return 1
    return 0


def readme(wheel: Path) -> str:
    """The page that the package index shows of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return str(email.message_from_string(archive.read(name).decode()).get_payload())


def anything(printed: str) -> str | None:
    return None if printed.strip() else "nothing is printed"


def differs(printed: str, shown: str) -> str | None:
    """The accuracies and counts are those of the README to their last digit: versions and seeds are pinned."""
    return None if printed.split() == shown.split() else f"the README shows\n{shown}"


def far_off(printed: str, shown: Sequence[str]) -> str | None:
    """The last accuracies of the demo against the means in the README: plain training, robust loss alone, PARS."""
    found = [json.loads(printed)[method]["last"] for method in ("ce", "warmup", "pars")]
    close = all(abs(value - float(mean)) <= POINTS for value, mean in zip(found, shown, strict=True))
    return None if close else f"{found} instead of {list(shown)}, more than {POINTS} points apart"


if __name__ == "__main__":
    sys.exit(main())
