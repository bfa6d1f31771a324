"""The report as one HTML file without outside resources: the text of docs/results.md, figures, and sources."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from pars.bench.figures import figures
from pars.bench.ledger import Line
from pars.bench.markdown import results_page
from pars.bench.published import PUBLISHED
from pars.bench.scales import SCALES

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 84rem; padding: 0 1rem; color: #1a1a1a }
h1, h2, h3 { line-height: 1.2 } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: 13px; margin: .5rem 0 1rem }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #e4e4e4; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff }
th { vertical-align: bottom; white-space: normal } tr:hover td { background: #f5f8fb }
figure { margin: 1rem 0 } figcaption { font-weight: 600 } svg { max-width: 100%; height: auto }
"""


def html_page(lines: Sequence[Line]) -> str:
    """The whole page."""
    out = ["<!doctype html>", '<html lang="en"><head><meta charset="utf-8"><title>pars: results</title>']
    out += [f"<style>{_STYLE}</style></head><body>", *_from_markdown(results_page(lines))]
    for scale in SCALES:
        drawn = list(figures(lines, scale))
        if drawn:
            out.append(f"<h2>Figures, scale <code>{scale}</code></h2>")
        for title, svg in drawn:
            out.append(f"<figure><figcaption>{html.escape(title)}</figcaption>{svg}</figure>")
    out += ["<h2>Sources of published numbers</h2>", "<ul>"]
    out += [f"<li>{html.escape(source)}</li>" for source in sorted({each.source for each in PUBLISHED.values()})]
    return "\n".join([*out, "</ul>", "</body></html>"]) + "\n"


def _from_markdown(text: str) -> Iterator[str]:
    """HTML of the part of Markdown that `results_page` uses: headings, tables, lists, paragraphs."""
    for block in re.split(r"\n\n+", text.strip()):
        rows = block.splitlines()
        if block.startswith("<!--"):
            continue
        if heading := re.match(r"(#+) (.*)", block):
            level = len(heading[1])
            yield f"<h{level}>{_inline(heading[2])}</h{level}>"
        elif block.startswith("| "):
            head, _, *body = ([_inline(cell) for cell in row.strip("| ").split(" | ")] for row in rows)
            yield (
                '<div class="wide"><table><thead><tr>' + "".join(f"<th>{cell}</th>" for cell in head) + "</tr></thead>"
            )
            yield from ("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in body)
            yield "</table></div>"
        elif block.startswith("- "):
            yield "<ul>" + "".join(f"<li>{_inline(row.removeprefix('- '))}</li>" for row in rows) + "</ul>"
        else:
            yield f"<p>{_inline(' '.join(rows))}</p>"


def _inline(text: str) -> str:
    text = html.escape(text, quote=False)
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
    text = re.sub(r"`(.+?)`", r"<code>\1</code>", text)
    return re.sub(r"\[(.+?)\]\((.+?)\)", r"\1", text)
