"""Every file of examples/ runs from an empty folder, and says what it promises."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PRINTS = {
    "tables.py": r"([89]\d|100)% of the wrong labels are flagged, \d% of the right ones",
    "texts.py": r"\['delivery', 'account'\]",
    "images.py": r"Estimated noise rate: \d+\.\d % of 120 labels",
    "own_training_loop.py": r"10\*nce\+mae: (8\d|9\d)\.\d%",
}


def test_every_example_is_listed() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PRINTS)


@pytest.mark.filterwarnings("ignore::pars.errors.EncoderChosenWarning")
@pytest.mark.parametrize("name", sorted(PRINTS))
def test_an_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    out = capsys.readouterr().out
    assert re.search(PRINTS[name], out), out
