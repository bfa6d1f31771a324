"""Every example of README.md and docs/ runs and prints what the page shows; every link leads somewhere.

Only fenced blocks are examples. Those of one page run in order, in one namespace and one folder that holds the files
of `write_example_files`:

- `python` is executed; a `text` block directly below it is compared with what it prints. Doctests (>>>) work too.
- `console`: lines that begin with `$ pars` run in this process; the lines below them, if any, are compared.
- `toml` whose first line is `# NAME.toml` is written to that file and has to be a valid configuration.

In shown output `...` matches anything. A block below `<!-- not run: reason -->` is not run, but it must parse: Python
compiles, the flags of `pars` are read by the command's own parser, a benchmark's file exists.
"""

from __future__ import annotations

import argparse
import doctest
import importlib
import io
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro
from cli.helpers import pars
from PIL import Image

from pars import run
from pars.cli import compare as compare_command
from pars.cli import train as train_command
from pars.errors import UserError
from pars.methods import REGISTRY
from pars.noise import NoiseConfig

ROOT = Path(__file__).parents[1]
PAGES = {page.name: page for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"))}

# Blocks that are not run, by page: a new one should be a decision.
NOT_RUN = {
    "CONTRIBUTING.md": 1,
    "README.md": 1,
    "adding-a-method.md": 1,
    "audit.md": 4,
    "compare.md": 2,
    "encoders.md": 1,
    "estimator.md": 2,
    "experiments.md": 13,
    "faq.md": 1,
    "fast.md": 3,
    "fine-tuning.md": 4,
    "from-dividemix.md": 1,
    "large-data.md": 3,
    "method.md": 4,
    "methods.md": 4,
    "processes.md": 3,
    "protocol.md": 1,
    "review.md": 3,
}
LANGUAGES = ("python", "console", "toml", "text", "csv", "json")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^( *)```(\w*)$")
MARK = re.compile(r"<!-- not run: (.+) -->")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int  # of its first line of text
    language: str
    text: str
    not_run: str | None = None  # the reason
    shown: str | None = None  # what a text block directly below says it prints

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One `$ …` of a console block."""

    args: tuple[str, ...]
    output: str | None  # the file that stdout goes to: `> FILE`
    shown: str


def blocks(page: str, text: str) -> list[Block]:
    found: list[Block] = []
    lines = text.splitlines()
    number = 0
    above = ""  # the last line that is not blank
    while number < len(lines):
        fence = FENCE.match(lines[number])
        if fence is None:
            above = lines[number].strip() or above
            number += 1
            continue
        indent, language = fence.groups()
        end = lines.index(f"{indent}```", number + 1)
        body = "".join(line.removeprefix(indent) + "\n" for line in lines[number + 1 : end])
        if language == "text" and above == "```" and found and found[-1].language == "python":
            found[-1] = Block(**{**vars(found[-1]), "shown": body})
        else:
            mark = MARK.fullmatch(above)
            found.append(Block(page, number + 2, language, body, mark and mark[1]))
        above, number = "```", end + 1
    return found


def commands(block: Block) -> Iterator[Command]:
    """Each command of a console block and the lines shown below it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, shown = part.replace("\\\n", " ").partition("\n")
        args = shlex.split(line, comments=True)
        output = args[-1] if ">" in args else None
        yield Command(tuple(args[: args.index(">")] if ">" in args else args), output, shown)


BLOCKS = {name: blocks(name, page.read_text(encoding="utf-8")) for name, page in PAGES.items()}


def test_blocks_are_found_with_their_mark_their_output_and_their_line() -> None:
    page = "a\n\n<!-- not run: slow -->\n```console\n$ pars x\n```\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n"
    assert blocks("p", page) == [
        Block("p", 5, "console", "$ pars x\n", "slow"),
        Block("p", 9, "python", "print(1)\n", None, "1\n"),
    ]


def test_commands_are_read_as_a_shell_reads_them() -> None:
    text = "$ pars a \\\n    --b 'c d'  # e\nshown\n...\n$ pars f > g.csv\n"
    assert list(commands(Block("p", 1, "console", text))) == [
        Command(("pars", "a", "--b", "c d"), None, "shown\n...\n"),
        Command(("pars", "f"), "g.csv", ""),
    ]


@pytest.mark.parametrize(
    "block",
    [
        Block("p", 1, "python", "print(1)\n", None, "2\n"),
        Block("p", 1, "python", ">>> 1 + 1\n3\n"),
        Block("p", 1, "python", "assert False\n"),
        Block("p", 1, "console", "$ pars --version\n9.9\n"),
        Block("p", 1, "console", "$ pars audit nowhere\n"),
        Block("p", 1, "console", "$ rm -r /\n"),
    ],
    ids=lambda block: block.text.strip(),
)
def test_an_example_that_does_not_do_what_the_page_shows_fails(block: Block) -> None:
    with pytest.raises(AssertionError):
        run_block(block, {})


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_examples_of_a_page_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("PARS_DATA", raising=False)
    write_example_files(tmp_path)
    namespace: dict[str, Any] = {"__name__": "docs"}
    for block in BLOCKS[name]:
        assert block.language in LANGUAGES, f"{block.where}: {block.language or 'no language'}; expected {LANGUAGES}"
        if block.not_run is None:
            run_block(block, namespace)


def run_block(block: Block, namespace: dict[str, Any]) -> None:
    if block.language == "python":
        run_python(block, namespace)
    elif block.language == "console":
        for command in commands(block):
            run_command(block, command)
    elif block.language == "toml":
        read_toml(block)


def run_python(block: Block, namespace: dict[str, Any]) -> None:
    printed = io.StringIO()
    if ">>> " in block.text:
        example = doctest.DocTestParser().get_doctest(block.text, namespace, block.where, block.page, block.line)
        result = doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=printed.write, clear_globs=False)
        assert not result.failed, printed.getvalue()
        namespace.update(example.globs)
        return
    with redirect_stdout(printed):
        exec(compile("\n" * (block.line - 1) + block.text, block.page, "exec", dont_inherit=True), namespace)
    if block.shown is not None:
        compare_output(block, block.shown, printed.getvalue())


def run_command(block: Block, command: Command) -> None:
    assert command.args[0] == "pars", f"{block.where}: {command.args[0]} cannot be run here, mark the block"
    printed, redirected = io.StringIO(), io.StringIO()
    with redirect_stdout(redirected if command.output else printed), redirect_stderr(printed):
        code = pars(*command.args[1:])
    if command.output:
        Path(command.output).write_text(redirected.getvalue(), encoding="utf-8")
    shows_error = command.shown.startswith(f"pars {command.args[1]}: ")
    assert code == (2 if shows_error else 0), f"{block.where}: {shlex.join(command.args)}\n{printed.getvalue()}"
    if command.shown.strip():
        compare_output(block, command.shown, printed.getvalue())


def compare_output(block: Block, shown: str, printed: str) -> None:
    assert doctest.OutputChecker().check_output(shown, printed, OPTIONS), (
        f"{block.where} shows\n{shown}\nand prints\n{printed}"
    )


def read_toml(block: Block) -> None:
    tomllib.loads(block.text)
    name = re.match(r"# (\S+\.toml)\n", block.text)
    if name is not None:
        Path(name[1]).write_text(block.text, encoding="utf-8")
        run.read_toml(Path(name[1]), run.preset("digits")(NoiseConfig()))


MARKED = [block for name in sorted(BLOCKS) for block in BLOCKS[name] if block.not_run is not None]


def test_blocks_that_are_not_run_are_counted() -> None:
    listed = "\n".join(f"{block.where} ({block.language}): {block.not_run}" for block in MARKED)
    print(listed)
    counts = {name: sum(block.page == name for block in MARKED) for name in sorted({block.page for block in MARKED})}
    assert counts == NOT_RUN, f"blocks that are not run:\n{listed}"


@pytest.mark.parametrize("block", MARKED, ids=lambda block: block.where)
def test_blocks_that_are_not_run_parse(block: Block) -> None:
    if block.language == "python":
        compile(block.text, block.page, "exec")
    elif block.language == "console":
        for command in commands(block):
            check_command(command)


def check_command(command: Command) -> None:
    program, *args = [arg for arg in command.args if not re.match("[A-Z]+=", arg)]  # without environment variables
    if program == "pars":
        check_flags(args[0], args[1:])
    elif program == "python" and args[0] == "-m":
        assert (ROOT / "tests" / f"{args[1].replace('.', '/')}.py").is_file(), args[1]
    elif program == "torchrun":
        own = args[args.index("pars") + 1 :]
        check_flags(own[0], own[1:])
    elif program == "python":
        assert (ROOT / args[0]).is_file(), args[0]
    elif program == "pytest":
        missing = [arg for arg in args if arg.startswith("tests/") and not (ROOT / arg).exists()]
        assert not missing
    elif program == "make":
        assert re.search(rf"^{args[0]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    else:
        assert program == "pip"


class _ParsedError(Exception):
    """The flags were read: what follows would work on data that is not here."""


def check_flags(name: str, args: list[str]) -> None:
    """Read a command's flags with its own parser, and do nothing."""
    if name == "train":
        train_command.resolve(*train_command.parser().parse_known_args(args))
    elif name == "compare":
        options, flags = compare_command.parser().parse_known_args(args)
        compare_command.compared_runs(options, flags, Path("compare"))
        compare_command.parse_rates(options)
    else:
        module = importlib.import_module(f"pars.cli.{name.replace('-', '_')}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(argparse.ArgumentParser, "parse_args", stop_after(argparse.ArgumentParser.parse_args))
            patch.setattr(tyro, "cli", stop_after(tyro.cli))
            with pytest.raises(_ParsedError):
                module.command(args)


def stop_after(read: Any) -> Any:
    """The same function, after which the command stops."""

    def stopping(*args: Any, **options: Any) -> None:
        read(*args, **options)
        raise _ParsedError

    return stopping


@pytest.mark.parametrize("flags", ["train --preset digits --bad 1", "fit a.csv --out b --bad 1", "encode a b --bad 1"])
def test_a_wrong_flag_does_not_parse(flags: str) -> None:
    with pytest.raises(UserError, match="--bad"):
        check_flags(*_name_and_args(flags))


@pytest.mark.parametrize("flags", ["train --preset cifar10", "fit a.csv --out b", "encode a b", "compare --budget 1"])
def test_right_flags_parse(flags: str) -> None:
    check_flags(*_name_and_args(flags))


def _name_and_args(flags: str) -> tuple[str, list[str]]:
    name, *args = flags.split()
    return name, args


@pytest.mark.parametrize("name", ["digits", "features"])
def test_the_tables_of_methods_have_the_numbers_of_their_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    every_method = importlib.import_module("benchmarks.every_method")
    assert every_method.table(ROOT / "results" / f"methods-{name}.jsonl") in (ROOT / "docs/methods.md").read_text()


def test_the_table_of_methods_names_every_method() -> None:
    text = PAGES["methods.md"].read_text(encoding="utf-8")
    named = re.findall(r"^\| \[`([^`]+)`\]\(\.\./(src/pars/methods/\w+\.py)\)", text, flags=re.MULTILINE)
    assert {name for name, _ in named} == set(REGISTRY)
    assert {file for _, file in named} == {f"src/pars/methods/{entry.file}" for entry in REGISTRY.values()}


@pytest.mark.parametrize("name", sorted(PAGES))
def test_links_lead_to_files_and_headings(name: str) -> None:
    page = PAGES[name]
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{name}: {target}"
        if anchor:
            assert anchor in anchors(file), f"{name}: {target}; there are {sorted(anchors(file))}"


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def write_example_files(folder: Path) -> None:
    """The files that examples read: texts, a table, features and small images of two or three classes, some mislabeled.

    tickets.csv, new.csv, checked.csv; patients.csv, patients.parquet; mine.npz, features.npz, clean.npz, new.npz;
    images.npz, photos/CLASS/NAME.png.
    """
    rng = np.random.default_rng(0)
    _write_tickets(folder, rng)
    _write_patients(folder, rng)
    _write_arrays(folder, rng)
    for number, image in enumerate(_images(rng, 40)):
        file = folder / "photos" / ("square", "stripe")[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)


WORDS: Mapping[str, str] = {
    "card": "card stolen blocked pin payment declined bank terminal",
    "delivery": "parcel late courier address tracking box delivered damaged",
    "account": "password login email reset username locked profile settings",
}


def _write_tickets(folder: Path, rng: np.random.Generator) -> None:
    topics = list(WORDS)

    def lines(n: int, wrong: float) -> Iterator[str]:
        for number in range(n):
            topic = topics[number % 3]
            body = " ".join(rng.choice(WORDS[topic].split(), 5))
            given = topics[int(rng.integers(3))] if rng.random() < wrong else topic
            yield f"{number},my {body},{given}\n"

    for name, n, wrong in (("tickets.csv", 150, 0.2), ("checked.csv", 30, 0.0), ("new.csv", 6, 0.0)):
        (folder / name).write_text("id,body,topic\n" + "".join(lines(n, wrong)), encoding="utf-8")


def _write_patients(folder: Path, rng: np.random.Generator) -> None:
    pandas = importlib.import_module("pandas")
    sick = np.arange(150) % 2
    age, pressure = 50 + 10 * sick + 5 * rng.standard_normal(150), 120 + 20 * sick + 8 * rng.standard_normal(150)
    ward = np.where(rng.random(150) < 0.3 + 0.4 * sick, "a", "b")
    outcome = np.where(rng.random(150) < 0.15, 1 - sick, sick)
    table = pandas.DataFrame({"age": age.round(), "pressure": pressure.round(), "ward": ward, "outcome": outcome})
    table.to_csv(folder / "patients.csv", index=False)
    table.to_parquet(folder / "patients.parquet")


def _write_arrays(folder: Path, rng: np.random.Generator) -> None:
    names = np.array(["cat", "dog", "eel"])
    y = np.arange(180) % 3
    x = (2 * rng.standard_normal((3, 8))[y] + 0.5 * rng.standard_normal((180, 8))).astype(np.float32)
    given = names[np.where(rng.random(180) < 0.2, rng.integers(3, size=180), y)]
    rows: dict[str, Any] = {"x": x[:120], "y": given[:120], "x_test": x[120:], "y_test": names[y[120:]]}
    np.savez(folder / "mine.npz", **rows)
    np.savez(folder / "features.npz", **rows)
    np.savez(folder / "clean.npz", x=x[120:], y=names[y[120:]])
    np.savez(folder / "new.npz", x=x[120:])
    np.savez(folder / "images.npz", x=_images(rng, 80), y=np.arange(80) % 2)


def _images(rng: np.random.Generator, n: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """[n, 8, 8]: a square and stripes by turns, with noise."""
    square, stripe = np.zeros((8, 8)), np.zeros((8, 8))
    square[2:6, 2:6] = stripe[::2] = 200
    images = np.where((np.arange(n) % 2 == 0)[:, None, None], square, stripe) + 50 * rng.random((n, 8, 8))
    return images.astype(np.uint8)
