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
    "Start": ["fit", "estimator", "audit", "review", "report", "pitfalls", "faq"],
    "By kind of data": ["example-tables", "example-texts", "example-images", "encoders", "views", "fine-tuning",
                        "large-data"],
    "Methods": ["method", "methods", "fast", "compare", "protocol", "results", "example-own_training_loop", "own-loop",
                "adding-a-method", "processes"],
    "Coming from": ["from-cleanlab", "from-dividemix"],
    "Reference": ["architecture", "experiments", "versions", "CHANGELOG", "SECURITY", "CONTRIBUTING"],
}  # fmt: skip
AT_THE_TOP = ("CHANGELOG", "SECURITY", "CONTRIBUTING")  # pages that are not in docs/; README.md is the first page
CONF = """
project, author, html_title = "pars", "The pars authors", "pars"
extensions, html_theme = ["myst_parser"], "furo"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["misc.highlighting_failure"]  # shown output is not always code
html_static_path, html_css_files, html_show_copyright = ["static"], ["pars.css"], False
"""
# Code has up to 120 columns; docstrings and signatures are wrapped, output of commands is not.
CSS = """
@media (min-width: 97em) { .content { width: 60em; } }
body { --code-font-size: 78%; }
.docstring pre { white-space: pre-wrap; }
table.docutils td { vertical-align: top; }
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    source = options.out.resolve().with_name(options.out.name + "-source")
    shutil.rmtree(source, ignore_errors=True)
    write_pages(source)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(source), str(options.out)]
    code = subprocess.run(command).returncode
    for place in () if code else from_elsewhere(options.out):
        print(f"not readable offline: {place}", file=sys.stderr)
        code = 1
    return code


def from_elsewhere(site: Path) -> list[str]:
    """What pages load from another host; links that readers follow may lead there."""
    tag = r'<(?:script|img|iframe|link(?! rel="(?:canonical|author)"))'
    loaded = re.compile(tag + r'\b[^>]*(?:src|href)="(https?:[^"]+)"')
    return [f"{page}: {url}" for page in sorted(site.rglob("*.html")) for url in loaded.findall(page.read_text())]


def write_pages(source: Path) -> None:
    (source / "method-pages").mkdir(parents=True)
    (source / "api").mkdir()
    (source / "static").mkdir()
    (source / "static" / "pars.css").write_text(CSS, encoding="utf-8")
    for folder in ("figures", "images"):
        shutil.copytree(ROOT / "docs" / folder, source / folder)
    for figure in (*(ROOT / "docs").glob("*.svg"), *(ROOT / "docs").glob("*.png")):
        shutil.copy(figure, source / figure.name)
    (source / "conf.py").write_text(CONF, encoding="utf-8")
    for page in (*(ROOT / "docs").glob("*.md"), *(ROOT / f"{name}.md" for name in AT_THE_TOP)):
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
    text = re.sub(r"\]\(\.\./(\w+\.md)", r"](\1", text).replace("](README.md", "](index.md")
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
    return f"````{{code-block}} text\n:class: docstring\n\n{text}\n````\n"


def python(text: str) -> str:
    return f"````{{code-block}} python\n:class: docstring\n\n{text}\n````\n"


def api_page(package: str) -> str:
    """Every public name with its signature and docstring."""
    module = importlib.import_module(package)
    lines = [f"# {package}", "", literal(inspect.getdoc(module) or "")]
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        lines += [f"## {package}.{name}", "", python(f"{name}{signature(value)}")]
        lines += [literal(inspect.getdoc(value) or "")]
        if inspect.isclass(value):
            for method, function in sorted(vars(value).items()):
                if not method.startswith("_") and inspect.isfunction(function):
                    lines += [f"### {name}.{method}", "", python(f"{method}{signature(function)}")]
                    lines += [literal(inspect.getdoc(function) or "")]
    return "\n".join(lines) + "\n"


class Annotation:
    """Shown as it is written in the source, not as a string."""

    def __init__(self, text: object) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text if isinstance(self.text, str) else inspect.formatannotation(self.text)


def signature(value: object) -> str:
    """The arguments of a function or class; one to a line where they do not fit on one."""
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(...)"
    empty = inspect.Signature.empty
    parameters = [
        each if each.annotation is empty else each.replace(annotation=Annotation(each.annotation))
        for each in found.parameters.values()
    ]
    returns = "" if found.return_annotation is empty else f" -> {Annotation(found.return_annotation)!r}"
    one_line = f"{found.replace(parameters=parameters, return_annotation=empty)}{returns}"
    if len(one_line) <= 90:
        return one_line
    lines, star = [], False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not star:
            lines.append("*")
        star = star or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        lines.append(str(each))
    return "(\n" + "".join(f"    {line},\n" for line in lines) + f"){returns}"


def write_index(source: Path) -> None:
    """README.md as the first page; what is beside it, as every page, is in the sidebar."""
    lines = [for_the_site(ROOT / "README.md"), ""]
    topics = {topic: list(names) for topic, names in TOPICS.items()}
    known = {name for names in topics.values() for name in names} | {"index"}
    topics["Reference"] += sorted(page.stem for page in source.glob("*.md") if page.stem not in known)
    for topic, names in topics.items():
        lines += [f"```{{toctree}}\n:caption: {topic}\n:maxdepth: 1\n:hidden:\n", *names, "```", ""]
    for caption, pattern in (("Every method", "method-pages/*"), ("API", "api/*")):
        lines += [f"```{{toctree}}\n:caption: {caption}\n:maxdepth: 1\n:hidden:\n:glob:\n\n{pattern}\n```", ""]
    (source / "index.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
