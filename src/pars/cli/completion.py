"""`pars completion SHELL`: a script that completes commands, their flags, and file names."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress

from pars.cli.flags import Parser
from pars.cli.main import COMMANDS

WORDS = {"bench": ("tune", "report")}  # of a command, with flags of their own
Flags = Mapping[str, Sequence[str]]


def command(args: Sequence[str]) -> int:
    parser = Parser(
        prog="pars completion",
        description="Print a script that completes commands and flags in your shell. docs/faq.md says where it goes.",
    )
    parser.add_argument("shell", choices=tuple(SCRIPTS))
    options = parser.parse_args(args)
    print(SCRIPTS[options.shell]({name: flags_of(name) for name in COMMANDS}), end="")
    return 0


def flags_of(name: str) -> list[str]:
    """The flags that the help of a command lists."""
    module = importlib.import_module(f"pars.cli.{name.replace('-', '_')}")
    text = io.StringIO()
    for words in ((), *((word,) for word in WORDS.get(name, ()))):
        with redirect_stdout(text), suppress(SystemExit):
            module.command([*words, "--help"])
    return listed(text.getvalue())


def listed(help_text: str) -> list[str]:
    """Flags at the beginning of lines, as argparse and tyro list them; not those in sentences.

    >>> listed("use --this\\n  -h, --help  show\\n│ --a.b INT   as --c\\n  --mirror, --no-mirror   both")
    ['--a.b', '--help', '--mirror', '--no-mirror']
    """
    plain = re.sub(r"\x1b\[[\d;]*m", "", help_text)
    lines = re.findall(r"^[\s│|]+(?:-\w, )?((?:--[a-z][\w.-]*(?:, )?)+)", plain, re.MULTILINE)
    return sorted({flag for line in lines for flag in line.strip(", ").split(", ")})


def bash(flags: Flags) -> str:
    cases = "\n".join(f'        {name}) flags="{" ".join(of)}" ;;' for name, of in flags.items())
    words = "\n".join(f'        {name}) words="{" ".join(of)}" ;;' for name, of in WORDS.items())
    return f"""\
_pars() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" flags="" words=""
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{" ".join(flags)} --help --version" -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    case "${{COMP_WORDS[1]}}" in
{words}
    esac
    case "$word" in
        -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
        *) [ "$COMP_CWORD" -eq 2 ] && [ -n "$words" ] && COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
    esac
    return 0
}}
complete -o default -F _pars pars
"""


def zsh(flags: Flags) -> str:
    commands = "\n".join(f"            {_quoted(f'{name}:{COMMANDS[name]}')}" for name in flags)
    cases = "\n".join(f"        {name}) flags=({' '.join(of)}) ;;" for name, of in flags.items())
    words = "\n".join(f"        {name}) words_=({' '.join(of)}) ;;" for name, of in WORDS.items())
    return f"""\
#compdef pars
_pars() {{
    local -a flags words_ commands
    if (( CURRENT == 2 )); then
        commands=(
{commands}
        )
        _describe command commands
        return
    fi
    case $words[2] in
{cases}
    esac
    case $words[2] in
{words}
    esac
    if [[ $PREFIX == -* ]]; then
        compadd -- $flags
        return
    fi
    (( CURRENT == 3 && $#words_ )) && compadd -- $words_
    _files
}}
if [ "$funcstack[1]" = _pars ]; then _pars "$@"; else compdef _pars pars; fi
"""


def fish(flags: Flags) -> str:
    lines = ["complete -c pars -n __fish_use_subcommand -f"]
    for name, of in flags.items():
        lines.append(f"complete -c pars -n __fish_use_subcommand -f -a {name} -d {_quoted(COMMANDS[name])}")
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c pars {seen} -a '{word}'" for word in WORDS.get(name, ())]
        lines += [f"complete -c pars {seen} -l {flag.removeprefix('--')}" for flag in of]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "’") + "'"


SCRIPTS: dict[str, Callable[[Flags], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
