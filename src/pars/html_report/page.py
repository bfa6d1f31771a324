"""Fill the template and write the page."""

from __future__ import annotations

from pathlib import Path

import jinja2

from pars import __version__
from pars.errors import UserError
from pars.files import write_text
from pars.html_report.content import read_page
from pars.html_report.model import Page

SUFFIXES = (".html", ".htm")


def write_report(path: str | Path, out: str | Path, *, top: int | None = None) -> Path:
    """Write the report of a folder of `pars fit` or of a run to one HTML file, and return its path.

    The file has everything inside: no script, no font and no image is fetched. top: suspects to show;
    by default the flagged ones, at most 100.
    """
    file = Path(out)
    if file.suffix.lower() not in SUFFIXES and (file.is_file() or not file.exists()):  # a pipe or a device may be meant
        raise UserError(f"{file}: a report is an .html file, such as {file.with_suffix('.html')}")
    if file.is_dir():
        raise UserError(f"{file} is a folder, expected a file to write, such as {file / 'report.html'}")
    if not file.parent.is_dir():
        raise UserError(f"{file}: the folder {file.parent} does not exist")
    if top is not None and top < 0:
        raise UserError(f"top is {top}, expected 0 or more")
    write_text(file, render(read_page(Path(path), top=top)))
    return file


def render(page: Page) -> str:
    """The page as HTML. Every text is escaped by the template; only charts are markup."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pars.html_report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(page=page, version=__version__)
