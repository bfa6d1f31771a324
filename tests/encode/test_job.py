"""`encode_table`: the files it writes, exact resume, and the changes after which it refuses to resume."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from kills import Killer
from PIL import Image

from pars import data, encode
from pars.augment import ViewsConfig
from pars.data import DataConfig, Table, read_table
from pars.encode import (
    CachedViewsConfig,
    Encoder,
    Progress,
    encode_rows,
    encode_table,
    encoder,
    make_view,
    read_rows,
)
from pars.errors import UserError

T = TypeVar("T")
WORDS = ["card", "lost", "arrive", "where", "my", "is", "when", "fee", "pay", "top"]


def texts(n: int, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    rows = {"t": [" ".join(rng.choice(WORDS, 5)) for _ in range(n)], "y": ["a" if i % 3 else "b" for i in range(n)]}
    return read_table(rows, label="y", text="t")


def image_table(n: int, seed: int = 0) -> Table:
    images = np.random.default_rng(seed).integers(0, 256, (n, 3, 8, 8), dtype=np.uint8)
    return Table("fake", np.arange(n) % 2, ("a", "b"), tuple(map(str, range(n))), array=images)


class StopAfter:
    """Stops a job after a number of batches."""

    def __init__(self, batches: int) -> None:
        self.left = batches
        self.progress = Progress(step=self.step, stopped=lambda: self.left <= 0)

    def step(self, rows: int) -> None:
        self.left -= 1


def test_the_file_holds_every_row_and_every_view_of_it(tmp_path: Path) -> None:
    train, test, pixels = image_table(11), image_table(5, seed=1), encoder("pixels")
    config = ViewsConfig(strong="randaugment")
    assert encode_table(
        train, tmp_path / "f.npz", pixels, test=test, views=CachedViewsConfig(count=2, seed=4, config=config), batch=4
    )
    found = np.load(tmp_path / "f.npz")
    images = train.array
    assert images is not None
    np.testing.assert_array_equal(found["x"], images.reshape(11, -1).astype(np.float32) / 255)
    np.testing.assert_array_equal(found["x_test"], pixels.encode(test.array))
    for place, (kind, copy) in enumerate([("weak", 0), ("weak", 1), ("strong", 0), ("strong", 1)]):
        seen = make_view(images, kind, copy, 0, seed=4, config=config)  # type: ignore[arg-type]
        np.testing.assert_array_equal(found["x_views"][:, place], pixels.encode(seen))
    assert len(np.unique(found["x_views"], axis=1).reshape(11, -1)) == 11
    assert found["y"].tolist() == train.labels.tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.encoder", "f.npz"]


def test_a_folder_holds_the_same_as_memory_maps_and_both_are_data_to_train_on(tmp_path: Path) -> None:
    for name in ("f.npz", "folder"):
        assert encode_table(
            texts(20), tmp_path / name, encoder("tfidf"), test=texts(6, 1), views=CachedViewsConfig(count=1)
        )
    archive = np.load(tmp_path / "f.npz")
    for key in archive.files:
        np.testing.assert_array_equal(archive[key], np.load(tmp_path / "folder" / f"{key}.npy"))
    loaded = [data.load(DataConfig(name=str(tmp_path / name))) for name in ("f.npz", "folder")]
    assert isinstance(loaded[1].train.cached, np.memmap)
    assert loaded[0].classes == ("a", "b")
    assert loaded[0].test is not None
    new = ["where is my card"]
    one, other = (encode.load_encoder(tmp_path / name).encode(new) for name in ("f.encoder", "folder/encoder"))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["f.npz", "folder"])
def test_stopped_after_any_batch_it_resumes_to_the_same_bytes(name: str, tmp_path: Path) -> None:
    def job(out: Path, progress: Progress | None = None) -> bool:
        return encode_table(
            texts(20),
            out,
            encoder("tfidf"),
            test=texts(7, 1),
            views=CachedViewsConfig(count=1),
            batch=4,
            progress=progress,
        )

    for place in ("whole", "cut"):
        (tmp_path / place).mkdir()
    assert job(tmp_path / "whole" / name)
    stops = 0
    while not job(tmp_path / "cut" / name, StopAfter(1).progress):
        stops += 1
        assert sorted(path.name for path in (tmp_path / "cut").iterdir()) == [f"{name}.part"]
    assert stops == 6  # of 5 batches to train on and 2 to test on; the last ends the job
    whole, cut = (contents(tmp_path / place) for place in ("whole", "cut"))
    assert whole == cut


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def slow_pixels(images: Any) -> Any:
    time.sleep(0.002)
    return images.reshape(len(images), -1) / 255


def work(out: str, to: Connection) -> None:
    torch.set_num_threads(1)
    step = Progress(step=lambda rows: to.send_bytes(b"."))
    slow = encoder(slow_pixels, kind="image")
    encode.job.SAVE_SECONDS = 0.0
    encode_table(
        image_table(60),
        Path(out),
        slow,
        test=image_table(20, 1),
        views=CachedViewsConfig(count=1),
        batch=2,
        progress=step,
    )


def test_killed_at_any_moment_it_ends_in_the_same_bytes(tmp_path: Path) -> None:
    killer = Killer(work, ["pars.encode", "pars.augment"])
    rng = np.random.default_rng(2022)
    for place in ("whole", "cut"):
        (tmp_path / place).mkdir()
    assert killer.run(tmp_path / "whole" / "f.npz") == 0
    for kill_after in (0, 3, 9, 14, 7):  # of 40
        assert killer.run(tmp_path / "cut" / "f.npz", kill_after, float(rng.uniform(0, 0.02))) == -9
        assert not (tmp_path / "cut" / "f.npz").exists()
    assert killer.run(tmp_path / "cut" / "f.npz") == 0
    assert contents(tmp_path / "whole") == contents(tmp_path / "cut")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"train": texts(20, 9)}, "different train .rows_blake2b"),
        ({"test": None}, "different test"),
        ({"views": CachedViewsConfig(count=2)}, "different views .count: then 1, now 2"),
        ({"views": CachedViewsConfig(count=1, seed=1)}, "different views .seed"),
        ({"batch": 5}, "batches of 4, not 5"),
        ({"train": replace(texts(20), labels=np.zeros(20, np.int64))}, "different train .labels_blake2b"),
    ],
)
def test_an_unfinished_job_is_resumed_on_the_same_rows_only(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    same: dict[str, Any] = {"train": texts(20), "test": texts(7, 1), "views": CachedViewsConfig(count=1), "batch": 4}

    def job(progress: Progress | None = None, **options: Any) -> bool:
        return encode_table(
            options["train"],
            tmp_path / "f.npz",
            encoder("tfidf"),
            test=options["test"],
            views=options["views"],
            batch=options["batch"],
            progress=progress,
        )

    assert not job(StopAfter(2).progress, **same)
    before = contents(tmp_path)
    with pytest.raises(UserError, match=words):
        job(**same | change)
    assert contents(tmp_path) == before
    assert job(**same)


def test_nothing_that_is_there_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "f.npz").write_text("mine")
    (tmp_path / "g.npz.part").mkdir()
    (tmp_path / "g.npz.part" / "mine.txt").write_text("mine")
    (tmp_path / "h.encoder").mkdir()
    for name, words in (
        ("f.npz", "exists already"),
        ("g.npz", "is not an unfinished job"),
        ("h.npz", r"h\.encoder exists"),
    ):
        with pytest.raises(UserError, match=words):
            encode_table(texts(5), tmp_path / name, encoder("tfidf"))
    with pytest.raises(UserError, match="does not exist"):
        encode_table(texts(5), tmp_path / "no" / "f.npz", encoder("tfidf"))
    assert {str(k): v for k, v in contents(tmp_path).items()} == {"f.npz": b"mine", "g.npz.part/mine.txt": b"mine"}


def test_what_a_killed_call_leaves_behind_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / "f.npz.part").mkdir()
    (tmp_path / "f.npz.part" / ".job.json.1234.part").write_text("{")
    assert encode_table(texts(5), tmp_path / "f.npz", encoder("tfidf"))
    shutil.rmtree(tmp_path / "f.encoder")
    (tmp_path / "f.npz").unlink()
    (tmp_path / "f.npz.part").mkdir()
    (tmp_path / "f.npz.part" / "x.npy").write_bytes(b"half")
    assert encode_table(texts(5), tmp_path / "f.npz", encoder("tfidf"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.encoder", "f.npz"]
    whole = (tmp_path / "f.npz").read_bytes()
    for name in ("x.npy", "done.json"):  # killed after its last byte, while it removed the rest
        (tmp_path / "f.npz.part").mkdir(exist_ok=True)
        (tmp_path / "f.npz.part" / name).write_bytes(b"rest")
    with pytest.raises(UserError, match="exists already"):
        encode_table(texts(5), tmp_path / "f.npz", encoder("tfidf"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.encoder", "f.npz"]
    assert (tmp_path / "f.npz").read_bytes() == whole


def test_damaged_working_files_are_named(tmp_path: Path) -> None:
    def job(progress: Progress | None = None) -> bool:
        return encode_table(texts(20), tmp_path / "f.npz", encoder("tfidf"), batch=4, progress=progress)

    assert not job(StopAfter(2).progress)
    work = tmp_path / "f.npz.part"
    for name, content in (("x.npy", b"half"), ("done.json", b"{"), ("job.json", b"[]")):
        kept = (work / name).read_bytes()
        (work / name).write_bytes(content)
        with pytest.raises(UserError, match=f"{name} is damaged"):
            job()
        (work / name).write_bytes(kept)
    assert job()


class Thread:
    """One of several threads that encode together, as processes do."""

    def __init__(self, rank: int, all_of_them: list[Thread], barrier: threading.Barrier) -> None:
        self.rank, self.size = rank, barrier.parties
        self._all, self._barrier, self._flag = all_of_them, barrier, False
        all_of_them.append(self)

    def in_first(self, function: Callable[[], T]) -> T | None:
        found = function() if self.rank == 0 else None
        self._barrier.wait()
        return found

    def any(self, flag: bool) -> bool:
        self._flag = flag
        self._barrier.wait()
        found = any(each._flag for each in self._all)
        self._barrier.wait()
        return found


def encode_together(
    size: int, out: Path, table: Table, *, stop: Mapping[int, int] | None = None, batch: int = 4
) -> tuple[list[bool], list[int]]:
    """Encode in `size` threads, those in `stop` stopping after so many batches; returns what each returned and did."""
    everyone: list[Thread] = []
    barrier, rows = threading.Barrier(size, timeout=60), [0] * size
    threads = [Thread(rank, everyone, barrier) for rank in range(size)]

    def work(me: Thread) -> bool:
        left = StopAfter((stop or {}).get(me.rank, 1000))

        def step(n: int) -> None:
            rows[me.rank] += n
            left.step(n)

        return encode_table(
            table,
            out,
            encoder("tfidf"),
            test=texts(6, 1),
            views=CachedViewsConfig(count=1),
            batch=batch,
            progress=Progress(step=step, stopped=left.progress.stopped),
            processes=me,
        )

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, threads)), rows


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_several_processes_leave_the_bytes_of_one_whoever_stopped_and_resumed(tmp_path: Path) -> None:
    table = texts(41)
    assert encode_together(1, tmp_path / "one", table) == ([True], [47])
    assert encode_together(3, tmp_path / "three", table)[0] == [True] * 3
    assert files(tmp_path / "three") == files(tmp_path / "one")

    finished, before = encode_together(3, tmp_path / "stopped", table, stop={1: 2})
    assert finished == [False] * 3
    assert before[1] == 8
    assert all(before)  # the others did something, and stopped because one did
    finished, after = encode_together(2, tmp_path / "stopped", table)
    assert finished == [True] * 2
    assert sum(before) + sum(after) == 47  # what was finished is not done again
    assert files(tmp_path / "stopped") == files(tmp_path / "one")


def test_views_do_not_depend_on_the_batch() -> None:
    table = image_table(9)
    rows = read_rows(table, 0, 9, 0)
    for kind in ("weak", "strong"):
        whole = make_view(rows, kind, 1, 0, seed=2)
        parts = [make_view(read_rows(table, a, b, 0), kind, 1, a, seed=2) for a, b in ((0, 4), (4, 9))]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_image_files_are_read_at_the_encoders_size_and_named_when_broken(tmp_path: Path) -> None:
    for i in range(3):
        path = tmp_path / "in" / ("cat" if i else "dog") / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (30 + i, 40), (i, 0, 0)).save(path)
    table = read_table(tmp_path / "in")

    def redness(images: Any) -> Any:
        assert images.shape[1:] == (3, 16, 16)
        return images[:, 0].mean(axis=(1, 2))[:, None]

    assert encode_table(table, tmp_path / "f.npz", encoder(redness, kind="image", size=16))
    assert np.load(tmp_path / "f.npz")["x"].tolist() == [[1], [2], [0]]
    (tmp_path / "in" / "cat" / "2.png").write_bytes(b"broken")
    with pytest.raises(UserError, match=r"row 1: .*2\.png cannot be read as an image"):
        encode_table(table, tmp_path / "g.npz", encoder(redness, kind="image", size=16))


def test_rows_of_another_kind_and_features_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="reads images"):
        encode_table(texts(4), tmp_path / "f.npz", encoder("pixels"))
    with pytest.raises(UserError, match="rows are features already"):
        encode_table(read_table({"x": [1.5, 2.0]}), tmp_path / "f.npz", encoder("tfidf"))

    def bad(rows: Any) -> Any:
        return [[np.nan if "fee" in row else 1.0] for row in rows]

    first = next(i for i, text in enumerate(texts(20).texts or []) if "fee" in text)
    with pytest.raises(UserError, match=rf"row {first}: the encoder bad returns features that are not finite"):
        encode_table(texts(20), tmp_path / "f.npz", encoder(bad, kind="text"), batch=3)


def test_rows_in_memory_are_those_of_the_file(tmp_path: Path) -> None:
    train, views = image_table(11), CachedViewsConfig(count=2, seed=4)
    x, cached = encode_rows(train, encoder("pixels"), views=views, batch=3)
    encode_table(train, tmp_path / "f.npz", encoder("pixels"), views=views)
    found = np.load(tmp_path / "f.npz")
    np.testing.assert_array_equal(found["x"], x)
    assert cached is not None
    np.testing.assert_array_equal(found["x_views"], cached)
    assert encode_rows(train, encoder("pixels"))[1] is None


def test_the_batch_is_smaller_where_memory_is_short() -> None:
    from pars.encode.rows import batch_size
    from pars.machine import free_memory

    large = Encoder("e", "image", lambda rows: rows, size=224, batch=64)
    row = 64 * 4 * 3 * 224 * 224
    assert batch_size(large, 4 * 10 * row) == 10
    assert batch_size(large, 4 * 1000 * row) == 64
    assert batch_size(large, 0) == 1
    assert free_memory() > 1 << 20
