"""`pars encode`."""

from __future__ import annotations

import csv
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from run.helpers import snapshot

from cli.helpers import message, one_document, pars, process, small_disk

SAID = {"cat": "miaow purr hiss", "dog": "woof wag bark", "eel": "slip swim slide"}


def write_texts(path: Path, n: int, seed: int = 0) -> Path:
    """Rows of three classes that say what such animals say, and something besides."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "who", "id"))
        for row in range(n):
            who = list(SAID)[row % 3]
            words = [*rng.choice(SAID[who].split(), 3), *rng.choice(["the", "a", "now", "then"], 2)]
            writer.writerow((" ".join(words), who, f"row{row}"))
    return path


def test_texts_are_encoded_trained_on_and_predicted_with_the_saved_encoder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, test = write_texts(tmp_path / "train.csv", 90), write_texts(tmp_path / "test.csv", 30, seed=1)
    out = tmp_path / "f.npz"
    columns = ("--text", "text", "--label", "who", "--id", "id")
    assert pars("encode", train, out, *columns, "--test", test, "--views", 2, "--json") == 0
    said, err = capsys.readouterr()
    assert one_document(said) == {"out": str(out), "encoder": "tfidf", "rows": 90, "test_rows": 30, "views": 2}
    assert "no --encoder: TF-IDF" in err  # said aloud
    assert "encode tfidf: 120 of 120" in err
    found = np.load(out)
    assert found["x_views"].shape == (90, 4, found["x"].shape[1])
    assert found["ids"].tolist() == [f"row{row}" for row in range(90)]

    flags = ("--train.epochs", 12, "--train.batch-size", 16, "--model.name", "linear", "--train.lr", 0.1)
    assert pars("train", "--preset", "features", "--data.name", out, *flags, "--out", tmp_path / "run", "--json") == 0
    assert one_document(capsys.readouterr().out)["test"]["ema"]["last"] == 100

    new = tmp_path / "new.jsonl"
    new.write_text("".join(json.dumps({"text": f"now {said} then"}) + "\n" for said in SAID.values()))
    encoded = ("encode", new, tmp_path / "new.npz", "--text", "text", "--encoder", tmp_path / "f.encoder")
    assert pars(*encoded) == 0
    capsys.readouterr()
    assert pars("predict", tmp_path / "run", tmp_path / "new.npz", "--json") == 0
    assert [row["label"] for row in one_document(capsys.readouterr().out)] == list(SAID)


def test_a_folder_of_images_and_a_published_set_are_encoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for at, name in enumerate(("cat/a.png", "cat/b.png", "dog/c.png")):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (12, 12), (0, 100 * at, 0)).save(path)
    assert pars("encode", tmp_path / "in", tmp_path / "f.npz", "--encoder", "pixels", "--views", 1) == 0
    found = np.load(tmp_path / "f.npz")
    assert (found["x"].shape, found["classes"].tolist(), found["y"].tolist()) == ((3, 3072), ["cat", "dog"], [0, 0, 1])
    assert pars("encode", "digits", tmp_path / "d.npz", "--encoder", "pixels", "--limit", 20) == 0
    found = np.load(tmp_path / "d.npz")
    assert (found["x"].shape, found["x_test"].shape) == ((20, 64), (450, 64))
    assert "x_views" not in found


def test_flags_choose_the_views_of_images(tmp_path: Path) -> None:
    flags = ("--encoder", "pixels", "--limit", 10, "--views", 1)
    assert pars("encode", "digits", tmp_path / "a.npz", *flags, "--views.weak", "none", "--views.strong", "none") == 0
    found = np.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(found["x_views"], np.stack([found["x"]] * 2, axis=1))
    assert pars("encode", "digits", tmp_path / "b.npz", *flags) == 0
    assert (np.load(tmp_path / "b.npz")["x_views"] != found["x_views"]).any()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("none.csv", "f.npz", "--text", "text"), "none.csv does not exist"),
        (("t.csv", "f.npz", "--label", "who"), "rows are features already"),
        (("t.csv", "f.npz", "--text", "words"), "no column 'words', expected one of 'text', 'who', 'id'"),
        (("t.csv", "f.npz", "--text", "text", "--encoder", "nonsense"), "unknown encoder 'nonsense'"),
        (("t.csv", "f.npz", "--text", "text", "--encoder", "pixels"), "pixels reads images, but the rows are texts"),
        (("digits", "f.npz"), "--encoder is missing, expected one of"),
        (("digits", "f.npz", "--encoder", "tfidf"), "tfidf reads texts, but the rows are images"),
        (("digits", "f.npz", "--encoder", "pixels", "--views", "-1"), "expected 0 or more"),
        (("digits", "f.npz", "--encoder", "pixels", "--batch", "0"), "batch: 0, expected at least 1"),
        (("digits", "f.npz", "--encoder", "pixels", "--limit", "9999"), "--limit is 9999, but digits has 1347 rows"),
        (("digits", "f.npz", "--encoder", "pixels", "--views.strong", "nonsense"), "nonsense"),
        (
            ("digits", "f.npz", "--encoder", "pixels", "--views", "1", "--views.strong", "dropout"),
            "views.strong: dropout does not fit images",
        ),
        (("digits", "no/f.npz", "--encoder", "pixels"), "the folder no does not exist"),
        (("t.csv", "f.npz", "--text", "text", "--label", "who", "--test", "u.csv"), "is 'fox', expected one of 'cat'"),
    ],
)
def test_mistakes_write_nothing(
    args: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_texts(tmp_path / "t.csv", 12)
    (tmp_path / "u.csv").write_text("text,who,id\nring,fox,1\n")
    before = snapshot(tmp_path)
    assert pars("encode", *args) == 2
    assert words in message(capsys)
    assert snapshot(tmp_path) == before


def test_a_full_disk_is_said_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("encode", "digits", tmp_path / "f.npz", "--encoder", "pixels")
    with small_disk(100_000):
        assert pars(*args) == 2
    assert "no space left to write" in message(capsys)
    assert pars(*args) == 0  # with room again, the same command
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.encoder", "f.npz"]


SLOW = """
import time
def letters(texts):
    time.sleep(0.05)
    return [[len(text)] for text in texts]
"""


def test_ctrl_c_stops_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_texts(tmp_path / "t.csv", 600)
    (tmp_path / "slow_letters.py").write_text(SLOW)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(str(tmp_path))
    out = tmp_path / "f.npz"
    args = ("encode", table, out, "--text", "text", "--encoder", "python:slow_letters:letters", "--batch", 2)
    running = process(*args)
    done = tmp_path / "f.npz.part" / "done.json"
    for _ in range(600):
        if done.exists():
            break
        time.sleep(0.1)
    time.sleep(0.3)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "Run the same command again to resume" in err
    assert 0 < sum(stop - start for start, stop in json.loads(done.read_text())["x"]) < 600
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert pars(*args) == 0
    rows = list(csv.DictReader(table.open()))
    assert np.load(out)["x"][:, 0].tolist() == [len(row["text"]) for row in rows]
    assert sorted(path.name for path in tmp_path.glob("f.*")) == ["f.encoder", "f.npz"]
