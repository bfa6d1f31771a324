"""What a fit or an audit ends with."""

from __future__ import annotations

from pathlib import Path

from pars.cli.suspects import next_steps


def test_the_proposed_review_has_rows_to_show_even_if_none_is_flagged() -> None:
    made_by = ["pars", "fit", "my rows.csv", "--label", "y"]
    flagged, none = (next_steps(Path("out-2"), made_by, any_flagged=some).split("\n") for some in (True, False))
    assert flagged[1] == "  pars review out-2   # check the suspects, correct them"
    assert none[1] == "  pars review out-2 --top 20   # check the least probable labels all the same"
    again = "pars fit 'my rows.csv' --label y --out out-3 --labels out-2/review/labels.csv"
    assert flagged[2:] == none[2:]
    assert flagged[3].startswith(f"  {again}   #")
