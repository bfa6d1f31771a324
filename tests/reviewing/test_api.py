"""The calls of the page, by http.client."""

from __future__ import annotations

import csv
import json
import os
import socket
import sqlite3
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from pars.corrections import TableSource
from pars.reviewing import FolderLock, ReviewServer, running_address
from reviewing.helpers import Client, make_items, make_session, serving


@pytest.fixture
def client(tmp_path: Path):  # type: ignore[no-untyped-def]
    with serving(make_session(tmp_path / "review")) as (_, found):
        yield found


def states(client: Client) -> dict[int, tuple[str, int | None]]:
    rows = client.get("/api/items?limit=200&f=" + quote('{"scope": "all"}'))["rows"]
    return {item["row"]: (item["state"], item["label"]) for item in rows}


def test_meta_says_what_is_reviewed(client: Client) -> None:
    found = client.get("/api/meta")
    assert (found["rows"], found["suspects"], found["kind"], found["seq"]) == (100, 40, "text", 0)
    assert found["counts"]["undecided"] == 40
    assert not found["read_only"]


def test_pages_come_in_order_and_the_pairs_count_all_rows(client: Client) -> None:
    items = make_items()
    first = client.get("/api/items?limit=25")
    second = client.get("/api/items?limit=25&offset=25")
    assert [item["row"] for item in first["rows"] + second["rows"]] == items.listed.tolist()
    assert sum(group["n"] for group in first["groups"]) == first["total"] == 40
    worst = [group["expected_wrong"] for group in first["groups"]]
    assert worst == sorted(worst, reverse=True)
    around = client.get(f"/api/items?limit=10&around={items.listed[33]}")
    assert around["offset"] == 30
    by_pair = client.get("/api/items?limit=200&sort=pair")["rows"]
    pairs = [(item["given"], item["suggested"]) for item in by_pair]
    assert len(list(dict.fromkeys(pairs))) == len([p for at, p in enumerate(pairs) if at == 0 or pairs[at - 1] != p])


@pytest.mark.parametrize(
    ("chosen", "passes"),
    [
        ({"given": 1}, lambda item: item["given"] == 1),
        ({"suggested": 2}, lambda item: item["suggested"] == 2),
        ({"quality": [0.1, 0.3]}, lambda item: 0.1 <= item["quality"] <= 0.3),
        ({"text": "TEXT 1"}, lambda item: item["text"].startswith("text 1")),
        ({"state": "drop"}, lambda item: item["state"] == "drop"),
    ],
)
def test_filters_select_what_they_say(client: Client, chosen: dict[str, object], passes) -> None:  # type: ignore[no-untyped-def]
    client.decide(make_items().listed[:5].tolist(), "drop")
    everything = client.get("/api/items?limit=200")["rows"]
    found = client.get("/api/items?limit=200&f=" + quote(json.dumps(chosen)))
    assert {item["row"] for item in found["rows"]} == {item["row"] for item in everything if passes(item)}


@pytest.mark.parametrize(
    "query",
    ["f=nonsense", "f=[]", "f=" + quote('{"given": 99}'), "f=" + quote('{"state": "x"}'), "f=" + quote('{"evil": 1}'),
     "limit=0", "limit=201", "offset=-1", "offset=1e3", "sort=name"],
)  # fmt: skip
def test_a_bad_question_is_answered_400(client: Client, query: str) -> None:
    assert client.raw("GET", f"/api/items?{query}")[0] == 400


def test_a_decision_is_stored_and_the_same_id_counts_once(client: Client) -> None:
    row = int(make_items().listed[0])
    body = {"id": "0123456789", "base_seq": 0, "rows": [row], "action": "accept"}
    status, first = client.post_raw("/api/decide", body)
    assert (status, first["seq"], first["changed"], first["unchanged"]) == (200, 1, 1, 0)
    assert client.post_raw("/api/decide", body)[1]["seq"] == 1
    assert client.post_raw("/api/decide", body | {"action": "drop"})[1]["seq"] == 1
    assert states(client)[row] == ("accept", int(make_items().suggested[row]))


def test_a_label_is_kept_or_accepted_whichever_key_chose_it(client: Client) -> None:
    items = make_items()
    one, two, three = items.listed[:3].tolist()
    client.decide([one], "relabel", int(items.given[one]))
    client.decide([two], "relabel", int(items.suggested[two]))
    other = next(k for k in range(4) if k not in (items.given[three], items.suggested[three]))
    client.decide([three], "relabel", other)
    found = states(client)
    assert [found[row][0] for row in (one, two, three)] == ["keep", "accept", "relabel"]


@pytest.mark.parametrize(
    "change",
    [{"rows": [100]}, {"rows": [-1]}, {"rows": ["1"]}, {"rows": [1, 1]}, {"rows": []}, {"rows": [True]}, {"rows": 1},
     {"action": "explode"}, {"action": "relabel"}, {"action": "relabel", "label": 4}, {"action": "keep", "label": 1},
     {"id": "x"}, {"id": None}, {"base_seq": "0"}, {"base_seq": None}, {"filter": {}}],
)  # fmt: skip
def test_a_bad_decision_changes_nothing(client: Client, change: dict[str, object]) -> None:
    body = {"id": "0123456789", "base_seq": 0, "rows": [1], "action": "accept"} | change
    assert client.post_raw("/api/decide", body)[0] == 400
    assert client.get("/api/meta")["seq"] == 0


def test_a_bulk_takes_all_that_match_or_none(client: Client) -> None:
    items = make_items()
    n = int((items.given[items.listed] == 1).sum())
    body = {"base_seq": 0, "filter": {"given": 1}, "action": "keep"}
    status, answer = client.post_raw("/api/decide", body | {"id": "a" * 10, "expect": n + 1})
    assert (status, f"{n} rows match now" in answer["error"]) == (409, True)
    assert client.get("/api/meta")["counts"]["keep"] == 0
    status, answer = client.post_raw("/api/decide", body | {"id": "b" * 10, "expect": n})
    assert (status, answer["changed"]) == (200, n)
    assert client.post_raw("/api/decide", body | {"id": "b" * 10, "expect": n})[1]["seq"] == answer["seq"]
    assert client.back("/api/undo")[1]["changed"] == n
    assert client.get("/api/meta")["counts"]["undecided"] == 40


def test_a_row_that_another_window_decided_is_a_conflict(client: Client) -> None:
    row = int(make_items().listed[0])
    assert client.decide([row], "keep")[0] == 200
    status, answer = client.decide([row], "accept", base_seq=0)
    assert (status, "another window" in answer["error"]) == (409, True)
    assert states(client)[row][0] == "keep"
    other = int(make_items().listed[1])
    assert client.decide([other], "accept", base_seq=0)[0] == 200  # not touched since


def test_undo_and_redo_go_back_and_forth(client: Client) -> None:
    items = make_items()
    row, other = items.listed[:2].tolist()
    client.decide([row], "keep")
    client.decide([row], "drop")
    client.decide([other], "skip")
    assert client.back("/api/undo")[1]["rows"] == [other]
    assert client.back("/api/undo")[1]["rows"] == [row]
    assert states(client)[row][0] == "keep"
    assert client.back("/api/undo")[1]["rows"] == [row]
    assert states(client)[row][0] == "undecided"
    assert client.back("/api/undo")[0] == 409
    for expected in ("keep", "drop", "drop"):
        assert client.back("/api/redo")[0] == 200
        assert states(client)[row][0] == expected
    assert client.back("/api/redo")[0] == 409
    assert client.back("/api/undo")[0] == 200
    assert client.back("/api/undo")[0] == 200
    assert states(client)[row][0] == "keep"
    client.decide([other], "drop")  # a new decision ends the redo
    assert client.back("/api/redo")[0] == 409


def test_exports_stream_and_are_written_with_the_users_table(tmp_path: Path) -> None:
    items = make_items(10, 4, ("cat", "dog"))
    table = "text,y\r\n" + "".join(f'"t{row}",{items.classes[y]}\r\n' for row, y in enumerate(items.given))
    (tmp_path / "t.csv").write_bytes(table.encode())
    source = TableSource(tmp_path / "t.csv", "y", {"text": "text"})
    with serving(make_session(tmp_path / "review", items, source=source)) as (_, client):
        one, two, three, _four = items.listed.tolist()
        client.decide([one], "accept")
        client.decide([two], "drop")
        client.decide([three], "skip")
        lines = client.raw("GET", "/api/export.csv")[2].decode().splitlines()
        assert {int(row["row"]): row["action"] for row in csv.DictReader(lines)} == {one: "accept", two: "drop"}
        assert len(client.raw("GET", "/api/export.jsonl")[2].splitlines()) == 2
        files = client.post_raw("/api/export", {})[1]["files"]
        names = ["corrections.csv", "corrections.jsonl", "labels.csv", "corrected.csv"]
        assert [Path(file).name for file in files] == names
        lines = table.split("\r\n")
        lines[one + 1] = f'"t{one}",{items.classes[items.suggested[one]]}'
        del lines[two + 1]
        assert Path(files[-1]).read_bytes() == "\r\n".join(lines).encode()


def test_quit_writes_the_files_and_ends_the_server(tmp_path: Path) -> None:
    server = ReviewServer(make_session(tmp_path))
    server.start()
    client = Client(server)
    client.decide([int(make_items().listed[0])], "accept")
    assert client.post_raw("/api/quit", {})[0] == 200
    assert server._thread is not None
    server._thread.join(10)
    assert not server._thread.is_alive()
    assert (tmp_path / "corrected.csv").exists()
    server.close()


def test_the_address_can_be_opened_as_soon_as_it_is_known(tmp_path: Path) -> None:
    """`pars review` prints it before the server runs: a connection waits until then and is not refused."""
    server = ReviewServer(make_session(tmp_path))
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as early:
        early.sendall(f"GET /api/meta HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        server.start()
        try:
            assert b" 401 " in early.recv(200)
        finally:
            files = server.close()
    assert server.close() == files != []  # ends once


def test_decisions_are_there_after_a_restart(tmp_path: Path) -> None:
    row = int(make_items().listed[0])
    with serving(make_session(tmp_path)) as (_, client):
        client.decide([row], "drop")
    with serving(make_session(tmp_path)) as (_, client):
        assert states(client)[row][0] == "drop"
        assert client.get("/api/meta")["last"][0]["row"] == row


def test_a_full_disk_is_reported_and_nothing_changes(tmp_path: Path) -> None:
    session = make_session(tmp_path, make_items(3000, 3000))
    with serving(session) as (_, client):
        client.decide([1], "keep")
        database = session.store._db
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own limit: "database or disk is full"
        body = {"id": "b" * 10, "base_seq": client.seq, "filter": {}, "expect": 3000, "action": "drop"}
        status, answer = client.post_raw("/api/decide", body)
        assert (status, "full" in answer["error"]) == (507, True), answer
        database.execute("PRAGMA max_page_count = 1000000")
        counts = client.get("/api/meta")["counts"]
        assert (counts["keep"], counts["undecided"]) == (1, 2999)
        assert client.decide([2], "drop")[0] == 200


def test_a_review_that_cannot_be_replaced_keeps_the_old_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = make_session(tmp_path)
    first = session.export()[0].read_text()
    session.store.decide("x" * 10, [1], [4], [-1])

    def fail(*args: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        session.export()
    assert (tmp_path / "corrections.csv").read_text() == first
    assert not list(tmp_path.glob("*.part"))
    session.close()


def test_one_process_reviews_a_folder_and_a_second_finds_its_address(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    assert lock.held
    assert not FolderLock(tmp_path).held
    assert running_address(tmp_path) is None
    with serving(make_session(tmp_path)) as (server, _):
        assert running_address(tmp_path) == server.url
        assert (tmp_path / "address.json").stat().st_mode & 0o077 == 0
    assert running_address(tmp_path) is None
    lock.release()
    assert FolderLock(tmp_path).held


def test_a_review_of_other_labels_is_refused(tmp_path: Path) -> None:
    make_session(tmp_path).close()
    with pytest.raises(Exception, match="a review of other rows or labels"):
        make_session(tmp_path, make_items(seed=1))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "review.sqlite").write_bytes(b"not a database, but long enough to look like one" * 50)
    with pytest.raises(Exception, match=r"review\.sqlite cannot be opened"):
        make_session(tmp_path)


def test_a_read_only_review_shows_and_does_not_decide(tmp_path: Path) -> None:
    from pars.data.preview import TextPreviews
    from pars.reviewing import ReviewSession

    items = make_items()
    writer = make_session(tmp_path, items)
    writer.store.decide("x" * 10, [1], [4], [-1])
    session = ReviewSession(items, TextPreviews(["t"] * 100), tmp_path, read_only=True)
    with serving(session) as (_, client):
        assert client.get("/api/meta")["read_only"]
        assert states(client)[1][0] == "drop"
        assert client.decide([2], "keep")[0] == 403
    writer.close()


def test_the_journal_is_durable(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    assert session.store._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert session.store._db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL
    session.store.decide("x" * 10, [1], [4], [-1])
    session.store.undo("y" * 10)
    assert sqlite3.connect(tmp_path / "review.sqlite").execute("SELECT count(*) FROM decision").fetchone()[0] == 2
    session.close()


def test_a_blind_question_shows_neither_given_nor_suggested(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.draw_sample(10)
    sample = session.store.sample()
    assert sample is not None
    with serving(session) as (_, client):
        page = client.get("/api/items?sample=1&limit=200")
        assert [item["row"] for item in page["rows"]] == sample.rows.tolist()
        asked = sample.rows.tolist()
        for body in (
            client.raw("GET", "/api/items?sample=1")[2],
            *(client.raw("GET", f"/api/item/{row}")[2] for row in asked),
        ):
            for secret in (b"given", b"suggested", b"quality", b"choices", b"because"):
                assert secret not in body  # fmt: skip
        shown = {item["row"] for item in client.get("/api/items?limit=200&f=" + quote('{"scope":"all"}'))["rows"]}
        assert not shown & set(asked)
        client.decide([asked[0]], "blind", 1)
        assert client.raw("GET", f"/api/item/{asked[0]}")[2].count(b"given")  # decided: nothing to hide any more
        assert b"given" not in client.raw("GET", f"/api/item/{asked[0]}?sample=1")[2]


def test_a_finished_sample_gives_three_shares_and_a_trusted_test_set(tmp_path: Path) -> None:
    items = make_items(400, 100)
    session = make_session(tmp_path, items)
    session.draw_sample(60)
    sample = session.store.sample()
    assert sample is not None
    for row in sample.rows.tolist():  # the suggestion is right on the list, the given label off it
        label = items.suggested[row] if row in items.listed else items.given[row]
        session.decide({"id": f"sample-{row}", "base_seq": session.store.seq, "rows": [row], "action": "blind",
                        "label": int(label)})  # fmt: skip
    found = session.stats()["sample"]
    assert found["precision"]["value"] == 1
    assert found["missed"]["value"] == 0
    assert found["noise_rate"]["value"] == pytest.approx(0.25)
    assert found["noise_rate"]["low"] < 0.25 <= found["noise_rate"]["high"]
    assert found["trusted"] == 60
    session.export()
    labels = np.array([row["sample"] for row in csv.DictReader((tmp_path / "labels.csv").open())])
    assert set(np.flatnonzero(labels == "random")) == set(sample.drawn_from("all").tolist())
    session.close()
