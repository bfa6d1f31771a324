"""A command that writes a file never writes over the rows it read, over its run, or over a file of another kind."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cli.helpers import pars, refused
from cli.test_bad_input import write_pets

FIT = ("--label", "kind", "--method", "logistic-regression", "--no-baseline")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table and its fit."""
    folder = tmp_path_factory.mktemp("desk")
    write_pets(folder / "pets.csv")
    write_pets(folder / "new.csv", n=10)
    assert pars("fit", folder / "pets.csv", *FIT, "--out", folder / "fitted") == 0
    return folder


@pytest.mark.parametrize("out", ["new.csv", "pets.csv", "link.csv"])
def test_predictions_do_not_replace_the_rows_or_those_of_training(
    out: str, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (desk / "link.csv").unlink(missing_ok=True)
    (desk / "link.csv").symlink_to(desk / "new.csv")
    said = refused(("predict", desk / "fitted", desk / "new.csv", "--out", desk / out), desk, capsys)
    assert f"{desk / out} has the rows themselves and would be lost" in said


@pytest.mark.parametrize("name", ["labels.parquet", "labels.png", "labels.npz"])
def test_predictions_are_not_written_under_the_name_of_another_format(
    name: str, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(("predict", desk / "fitted", desk / "new.csv", "--out", desk / name), desk, capsys)
    assert f"--out {desk / name}: predictions are text, expected a name such as predictions.csv" in said


@pytest.mark.parametrize("name", ["job.json", "fit.json", "columns.json", "content.json", "files.json"])
def test_predictions_do_not_replace_a_part_of_the_fit(
    name: str, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = desk / "fitted" / name
    said = refused(("predict", desk / "fitted", desk / "new.csv", "--out", out), desk, capsys)
    assert f"--out {out} is a part of {desk / 'fitted'}" in said


def test_predictions_may_be_kept_in_the_folder_of_the_fit_and_written_again(desk: Path, tmp_path: Path) -> None:
    fitted = shutil.copytree(desk / "fitted", tmp_path / "fitted")
    for _ in range(2):
        assert pars("predict", fitted, desk / "new.csv", "--out", fitted / "new-labels.csv") == 0


@pytest.mark.parametrize("out", ["pets.csv", "fitted/columns.json", "report"])
def test_a_report_is_an_html_file(out: str, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(("report", desk / "fitted", desk / out), desk, capsys)
    assert f"{desk / out}: a report is an .html file, such as {(desk / out).with_suffix('.html')}" in said


@pytest.mark.parametrize(
    ("flag", "name", "suffix"), [("--markdown", "ledger.jsonl", ".md"), ("--html", "pets.csv", ".html")]
)
def test_a_report_of_the_ledger_is_of_its_kind(
    flag: str, name: str, suffix: str, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(("bench", "report", "--ledger", desk / "ledger.jsonl", flag, desk / name), desk, capsys)
    assert f"{flag} is {desk / name}, expected a name that ends in {suffix}" in said


def test_an_audit_does_not_replace_the_table_of_its_fit(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_pets(tmp_path / "audit.csv")
    assert pars("fit", table, *FIT, "--out", tmp_path / "fitted") == 0
    said = refused(("audit", tmp_path / "fitted", "--out", tmp_path), tmp_path, capsys)
    assert f"{table} has the rows themselves and would be lost" in said


def test_a_contact_sheet_does_not_replace_its_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = tmp_path / "a.png"
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(image)
    assert f"{image} has the rows themselves" in refused(("augment-preview", image, image), tmp_path, capsys)
