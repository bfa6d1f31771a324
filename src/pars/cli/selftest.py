"""`pars selftest DATA --flip 0.1`: known mistakes hidden in the user's own labels, and how many were found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pars import proof
from pars.cli.fit import add_fit_flags, fitted, going_on, read
from pars.cli.flags import Parser
from pars.cli.output import show

if TYPE_CHECKING:
    from pars.proof import Found


def command(args: Sequence[str]) -> int:
    parser = Parser(prog="pars selftest", description="Flip some of your labels, and see how many of them are found.")
    add_fit_flags(parser)
    parser.add_argument("--flip", type=float, default=0.1, metavar="SHARE", help="of the labels (default: 0.1)")
    options = parser.parse_args(args)
    table = read(options, options.data)
    labels = proof.flipped(table.labels, len(table.classes), options.flip, options.seed)

    def work() -> int:
        result = fitted(options, table, labels, true=table.labels)
        found = proof.judge(result, table.labels, labels)
        show(options.json, {"out": str(options.out), **found.summary()}, lambda: text(found, options.method))
        return 0

    return going_on(work)


def text(found: Found, method: str) -> str:
    return "\n".join(
        [
            f"{found.flipped} labels were flipped to another class at random; {found.flagged} labels were called wrong",
            f"  found: {100 * found.recall:.1f} % of the flipped ones (ranked by suspicion: AUROC {found.auroc:.3f})",
            f"  precision: at least {100 * found.precision:.1f} %; the others may have been wrong before",
            f"  mended: {100 * found.restored:.1f} % of those found got their own label back as suggestion",
            "  accuracy on held-out labels as they were: "
            f"{method} {100 * found.robust:.1f} %, plain training {100 * found.plain:.1f} %",
        ]
    )
