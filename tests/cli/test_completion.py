"""`pars completion SHELL`, asked in the shells themselves where they are installed."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from cli.helpers import pars
from pars.cli.completion import flags_of
from pars.cli.main import COMMANDS

needs = {
    shell: pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")
    for shell in ("bash", "zsh", "fish")
}


def script(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert pars("completion", shell) == 0
    path = folder / "_pars"
    path.write_text(capsys.readouterr().out)
    return path


def said_by(*command: str, folder: Path) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=folder)
    assert done.stderr == ""
    return done.stdout.split("\n")


@needs["bash"]
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("tr",), ["train"]),
        (("--v",), ["--version"]),
        (("train", "--train.ep"), ["--train.epochs"]),
        (("fit", "--no-b"), ["--no-baseline"]),
        (("bench", "t"), ["tune"]),
        (("predict", "t"), []),  # file names: bash completes them itself
    ],
)
def test_bash(words: tuple[str, ...], expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("bash", tmp_path, capsys)
    typed = f"COMP_WORDS=(pars {' '.join(words)}); COMP_CWORD={len(words)}; _pars; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    said = said_by("bash", "--norc", "-c", f"source {path}; {typed}", folder=tmp_path)
    assert [line for line in said if line] == expected


@needs["fish"]
def test_fish(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("fish", tmp_path, capsys)
    (tmp_path / "table.csv").touch()

    def completed(line: str) -> list[str]:
        said = said_by("fish", "--no-config", "-c", f"source {path}; complete -C '{line}'", folder=tmp_path)
        return [each.partition("\t")[0] for each in said if each]

    assert completed("pars tr") == ["train"]
    assert sorted(completed("pars ")) == sorted(COMMANDS)
    assert completed("pars train --train.ep") == ["--train.epochs"]
    assert completed("pars fit --no-b") == ["--no-baseline"]
    assert "tune" in completed("pars bench tu")
    assert completed("pars fit ta") == ["table.csv"]


@needs["zsh"]
def test_zsh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a terminal, with the tabulator key: both as a file in fpath and as a script that is sourced."""
    script("zsh", tmp_path, capsys)
    (tmp_path / "table.csv").touch()
    for how in ("fpath=($PWD $fpath); autoload -U compinit; compinit -u -D",
                "autoload -U compinit; compinit -u -D; source ./_pars"):  # fmt: skip
        for typed, expected in (
            ("pars tra", "pars train "),
            ("pars train --train.ep", "pars train --train.epochs "),
            ("pars bench tu", "pars bench tune "),
            ("pars fit ta", "pars fit table.csv "),
        ):
            assert zsh_completes(typed, how, tmp_path) == expected


def zsh_completes(typed: str, setup: str, folder: Path) -> str:
    """The line after the tabulator key; a widget of zsh writes it to a file."""
    (folder / "line").unlink(missing_ok=True)
    lines = [setup, "write-line() { print -r -- $BUFFER > line }", "zle -N write-line", "bindkey '^X' write-line",
             "PS1='at prompt: '"]  # fmt: skip
    (folder / "setup.zsh").write_text("\n".join(lines) + "\n")
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.environ["TERM"] = "dumb"
        os.execvp("zsh", ["zsh", "-f", "-i"])
    try:
        os.write(terminal, b"source ./setup.zsh\n")
        heard = b""
        while b"at prompt: " not in heard:
            heard += read(terminal)
        os.write(terminal, typed.encode() + b"\t\x18")
        for _ in range(300):
            if (folder / "line").exists() and (text := (folder / "line").read_text()):
                return text.removesuffix("\n")
            read(terminal)
        raise AssertionError(f"zsh does not answer: {heard!r}")
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
        os.close(terminal)


def read(terminal: int) -> bytes:
    """What zsh has said within a moment."""
    if select.select([terminal], [], [], 0.1)[0]:
        return os.read(terminal, 4096)
    time.sleep(0.01)
    return b""


@pytest.mark.parametrize("command", COMMANDS)
def test_flags_of_every_command_are_found(command: str) -> None:
    flags = flags_of(command)
    assert "--help" in flags
    assert (command == "completion") == (len(flags) == 1)
