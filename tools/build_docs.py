"""Build the documentation site with Sphinx: strict (a warning is an error) and offline.

    python tools/build_docs.py build/docs

The pages of docs/, with pages made here: one for each method of the registry, the API from docstrings, the examples,
the changelog. Links to source files become plain text, those of the table of methods lead to the method's page.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pars", "pars.audit", "pars.losses", "pars.noise", "pars.augment", "pars.data", "pars.encode",
            "pars.fitting", "pars.run", "pars.method_api", "pars.models", "pars.report", "pars.classic")  # fmt: skip
TOPICS = {
    "Start": ["README", "fit", "estimator", "audit", "review", "report", "pitfalls", "faq"],
    "By kind of data": ["example-tables", "example-texts", "example-images", "encoders", "views", "fine-tuning",
                        "large-data"],
    "Methods": ["method", "methods", "fast", "compare", "protocol", "example-own_training_loop", "own-loop",
                "adding-a-method", "processes"],
    "Coming from": ["from-cleanlab", "from-dividemix"],
    "Reference": ["architecture", "experiments", "versions", "CHANGELOG", "SECURITY", "CONTRIBUTING"],
}  # fmt: skip
CONF = """
project, author, html_title = "pars", "The pars authors", "pars"
extensions, html_theme = ["myst_parser"], "furo"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["misc.highlighting_failure"]  # shown output is not always code
html_static_path = []
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    source = options.out.resolve().with_name(options.out.name + "-source")
    shutil.rmtree(source, ignore_errors=True)
    write_pages(source)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(source), str(options.out)]
    return subprocess.run(command).returncode


def write_pages(source: Path) -> None:
    (source / "method-pages").mkdir(parents=True)
    (source / "api").mkdir()
    for folder in ("figures", "images"):
        shutil.copytree(ROOT / "docs" / folder, source / folder)
    for figure in (*(ROOT / "docs").glob("*.svg"), *(ROOT / "docs").glob("*.png")):
        shutil.copy(figure, source / figure.name)
    (source / "conf.py").write_text(CONF, encoding="utf-8")
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "SECURITY"))]
    for page in (*pages, ROOT / "CONTRIBUTING.md"):
        (source / page.name).write_text(for_the_site(page), encoding="utf-8")
    for example in sorted((ROOT / "examples").glob("*.py")):
        write_example(example, source)
    write_methods(source)
    for package in PACKAGES:
        (source / "api" / f"{package}.md").write_text(api_page(package), encoding="utf-8")
    write_index(source)


def for_the_site(page: Path) -> str:
    """A page with links that lead somewhere in the site, and languages that the highlighter knows."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"\[(`[^`]+`)\]\(\.\./src/pars/methods/\w+\.py\)", method_link, text)
    text = re.sub(r"\[([^\]]+)\]\((?:\.\./)?(?:src|tests|examples|constraints)[^)]*\)", r"\1", text)
    text = re.sub(r"\]\(docs/([\w-]+\.md)", r"](\1", text)
    text = re.sub(r"\]\(\.\./(\w+\.md)", r"](\1", text)
    return text.replace("```csv", "```text")


def method_link(found: re.Match[str]) -> str:
    from pars.methods import REGISTRY

    name = found[1].strip("`")
    return f"[{found[1]}](method-pages/{name}.md)" if name in REGISTRY else found[1]


def write_example(example: Path, source: Path) -> None:
    code = example.read_text(encoding="utf-8")
    title = example.stem.replace("_", " ").capitalize()
    text = f"# Example: {title}\n\n`examples/{example.name}`, run by the tests.\n\n```python\n{code}```\n"
    (source / f"example-{example.stem}.md").write_text(text, encoding="utf-8")


def write_methods(source: Path) -> None:
    """A page for each method: what the registry says, its hyper-parameters, its docstring."""
    from pars.method_api import Setting, describe
    from pars.methods import REGISTRY

    for name, entry in REGISTRY.items():
        line, method = describe(entry), entry.recipe(Setting()).build()
        paper = f"[{line.paper}]({line.link})" if line.link else line.paper
        lines = [
            f"# {name}: {line.title}",
            "",
            f"{paper}. {line.summary[:1].upper()}{line.summary[1:]}.",
            "",
            "| | |",
            "|---|---|",
        ]
        facts = {"networks": line.networks, "stages": ", ".join(line.stages), "cost": f"{line.cost:g}",
                 "needs": ", ".join(line.needs) or "–", "differs from its public code": line.differs or "–",
                 "source": f"`{line.file}`"}  # fmt: skip
        lines += [f"| {key} | {value} |" for key, value in facts.items()]
        lines += ["", "## Hyper-parameters", "", "| field | default here |", "|---|---|"]
        lines += [
            f"| `{field.name}` | `{getattr(method, field.name)!r}` |".replace("||", "|") for field in fields(method)
        ]
        lines += ["", "## In the code", "", literal(inspect.getdoc(type(method)) or "")]
        (source / "method-pages" / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def literal(text: str) -> str:
    return f"````text\n{text}\n````\n"


def api_page(package: str) -> str:
    """Every public name with its signature and docstring."""
    module = importlib.import_module(package)
    lines = [f"# {package}", "", literal(inspect.getdoc(module) or "")]
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        lines += [f"## {package}.{name}", "", f"````python\n{name}{signature(value)}\n````", ""]
        lines += [literal(inspect.getdoc(value) or "")]
        if inspect.isclass(value):
            for method, function in sorted(vars(value).items()):
                if not method.startswith("_") and inspect.isfunction(function):
                    lines += [f"### {name}.{method}", "", f"````python\n{method}{signature(function)}\n````", ""]
                    lines += [literal(inspect.getdoc(function) or "")]
    return "\n".join(lines) + "\n"


def signature(value: object) -> str:
    try:
        return str(inspect.signature(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(...)"


def write_index(source: Path) -> None:
    lines = [
        "# pars",
        "",
        "Train accurate classifiers when some of your labels are wrong, and find out which ones are.",
        "",
    ]
    topics = {topic: list(names) for topic, names in TOPICS.items()}
    known = {name for names in topics.values() for name in names} | {"index"}
    topics["Reference"] += sorted(page.stem for page in source.glob("*.md") if page.stem not in known)
    for topic, names in topics.items():
        lines += [f"```{{toctree}}\n:caption: {topic}\n:maxdepth: 1\n", *names, "```", ""]
    for caption, pattern in (("Every method", "method-pages/*"), ("API", "api/*")):
        lines += [f"```{{toctree}}\n:caption: {caption}\n:maxdepth: 1\n:glob:\n\n{pattern}\n```", ""]
    (source / "index.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
