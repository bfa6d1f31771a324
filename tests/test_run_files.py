"""A run folder says which format it was written in; other formats are refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pars.errors import UserError
from pars.run_files import VERSION, check_run_format


def test_the_version_that_this_one_writes_is_read(tmp_path: Path) -> None:
    (tmp_path / "inputs.json").write_text(json.dumps({"format": VERSION}))
    check_run_format(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"data": {}}, "was written by an older version of pars: run format 1, this one reads 2; train it again"),
        ({"format": 1}, "an older version"),
        ({"format": 3}, "was written by a newer version of pars: run format 3, this one reads 2; upgrade pars"),
        ({"format": "2"}, r"inputs\.json is damaged: format is '2', expected a whole number"),
        ({"format": True}, "format is True"),
        ({"format": 0}, "format is 0"),
        ([], "format is None"),
    ],
    ids=str,
)
def test_another_version_is_refused(content: object, said: str, tmp_path: Path) -> None:
    (tmp_path / "inputs.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=said) as caught:
        check_run_format(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_missing_or_unreadable_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"inputs\.json is missing"):
        check_run_format(tmp_path)
    for text in ("", "{", "[" * 100_000):
        (tmp_path / "inputs.json").write_text(text)
        with pytest.raises(UserError, match=r"inputs\.json is damaged"):
            check_run_format(tmp_path)
