"""A finished fit or run as one HTML file that anyone can open: `pars report` (docs/report.md)."""

from pars.html_report.page import render, write_report

__all__ = ["render", "write_report"]
