"""Each line of the security table in docs/review.md. Every test fails when its measure is taken out."""

from __future__ import annotations

import csv
import http.client
import io
import json
import logging
import re
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from pars.cli.main import main
from pars.data.preview import ImageFilePreviews, ImagePreview, Size
from pars.reviewing import ReviewServer, guard
from reviewing.helpers import Client, make_items, make_session, serving

STATIC = Path(guard.__file__).parent / "static"
ROUTES = ["/", "/static/app.js", "/api/meta", "/api/items", "/api/item/1", "/media/1", "/api/stats", "/api/export.csv",
          "/api/decide", "/nowhere"]  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ReviewServer, Client]]:
    """Nothing is ever decided here."""
    with serving(make_session(tmp_path_factory.mktemp("review"))) as found:
        yield found


def other_address() -> str:
    """An address of this machine that is not 127.0.0.1."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.2"  # Linux: the whole block is this machine


def test_the_socket_is_closed_to_other_addresses(served: tuple[ReviewServer, Client]) -> None:
    server, _ = served
    for address in {other_address(), "127.0.0.2"}:
        with pytest.raises(OSError, match=r"refused|timed out|unreachable"):
            socket.create_connection((address, server.port), timeout=3)
    socket.create_connection(("127.0.0.1", server.port), timeout=3).close()


def test_there_is_no_flag_to_listen_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["review", "run", "--host", "0.0.0.0"]) == 2
    assert "unrecognized arguments: --host" in capsys.readouterr().err


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil", "", "127.0.0.2"]
)
def test_a_foreign_host_is_refused_on_every_route(served: tuple[ReviewServer, Client], path: str, host: str) -> None:
    _, client = served
    for method in ("GET", "POST"):
        assert client.raw(method, path, b"{}", {"Host": host})[0] == 403


@pytest.mark.parametrize("host", ["127.0.0.1:9", "localhost", "localhost:8000", "[::1]:1"])
def test_local_hosts_of_any_port_pass(served: tuple[ReviewServer, Client], host: str) -> None:
    assert served[1].raw("GET", "/api/meta", None, {"Host": host})[0] == 200


def test_a_rebound_page_whose_origin_equals_its_host_is_refused(served: tuple[ReviewServer, Client]) -> None:
    server, client = served
    evil = {"Host": f"evil:{server.port}", "Origin": f"http://evil:{server.port}"}
    assert client.raw("GET", "/api/meta", None, evil)[0] == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_a_foreign_origin_is_refused(served: tuple[ReviewServer, Client], origin: str) -> None:
    _, client = served
    assert client.raw("GET", "/api/meta", None, {"Origin": origin})[0] == 403
    status, _ = client.post_raw("/api/undo", {"id": "0123456789"}, Origin=origin)
    assert status == 403


@pytest.mark.parametrize("path", ROUTES)
def test_without_the_token_nothing_is_shown(served: tuple[ReviewServer, Client], path: str) -> None:
    server, client = served
    assert client.raw("GET", path, cookie=False)[0] == 401
    assert client.raw("GET", path, None, {"Cookie": f"pars_{server.port}=wrong"}, cookie=False)[0] == 401
    assert client.raw("GET", f"{path}?t={client.token}x", cookie=False)[0] == 401


def test_the_token_becomes_a_strict_cookie_and_leaves_the_address(served: tuple[ReviewServer, Client]) -> None:
    server, client = served
    assert len(client.token) >= 43
    status, headers, _ = client.raw("GET", f"/?t={client.token}", cookie=False)
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert cookie.startswith(f"pars_{server.port}={client.token};")
    for part in ("HttpOnly", "SameSite=strict", "Path=/"):
        assert part.lower() in cookie.lower()


def test_the_token_is_in_no_log_and_not_sent_on(tmp_path: Path, caplog: pytest.LogCaptureFixture,
                                                capfd: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    with caplog.at_level(logging.DEBUG), serving(make_session(tmp_path)) as (_, client):
        _, headers, _ = client.raw("GET", f"/?t={client.token}", cookie=False)
        client.raw("GET", "/api/meta")
        assert headers["referrer-policy"] == "no-referrer"
        shown = capfd.readouterr()
        assert client.token not in caplog.text + shown.out + shown.err


def test_tokens_are_compared_in_constant_time() -> None:
    """A timing test would be noise; the comparison is in one place."""
    source = Path(guard.__file__).read_text()
    assert source.count("hmac.compare_digest(") == 1
    assert not re.search(r"(==|!=|\bin\b)\s*self\._token|self\._token\s*(==|!=)", source)


def test_two_servers_at_once_do_not_take_each_others_cookie(tmp_path: Path) -> None:
    with serving(make_session(tmp_path / "1")) as (_, one), serving(make_session(tmp_path / "2")) as (_, two):
        both = f"pars_{one.port}={one.token}; pars_{two.port}={two.token}"  # a browser sends all cookies of a host
        for client in (one, two):
            assert client.raw("GET", "/api/meta", None, {"Cookie": both}, cookie=False)[0] == 200


@pytest.mark.parametrize(
    "change",
    [{"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}, {"X-Pars": "0"},
     {"X-Pars": ""}, {"Origin": "http://localhost:1"}],
)  # fmt: skip
def test_a_simple_request_of_another_page_decides_nothing(
    served: tuple[ReviewServer, Client], change: dict[str, str]
) -> None:
    _, client = served
    body = {"id": "0123456789", "base_seq": 0, "rows": [1], "action": "drop"}
    status, _ = client.post_raw("/api/decide", body, **change)
    assert status in (403, 415)
    assert client.get("/api/meta")["seq"] == 0


def test_a_post_without_an_origin_is_refused(served: tuple[ReviewServer, Client]) -> None:
    _, client = served
    body = json.dumps({"id": "0123456789", "base_seq": 0, "rows": [1], "action": "drop"}).encode()
    headers = {"Content-Type": "application/json", "X-Pars": "1"}
    assert client.raw("POST", "/api/decide", body, headers)[0] == 403
    assert client.get("/api/meta")["seq"] == 0


def test_there_is_no_cors(served: tuple[ReviewServer, Client]) -> None:
    server, client = served
    own = f"http://127.0.0.1:{server.port}"
    for method, path in (("OPTIONS", "/api/decide"), ("OPTIONS", "/"), ("PUT", "/api/decide"), ("DELETE", "/api/meta")):
        headers = {"Origin": own, "Access-Control-Request-Method": "POST"}
        for cookie in (True, False):  # a browser asks without its cookies first
            assert client.raw(method, path, None, headers, cookie=cookie)[0] == 405
    _, headers, _ = client.raw("GET", "/api/meta", None, {"Origin": own})
    assert not [name for name in headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/", "/api/meta", "/static/app.css", "/nowhere"])
@pytest.mark.parametrize("cookie", [True, False])
def test_every_answer_has_the_policy(served: tuple[ReviewServer, Client], path: str, cookie: bool) -> None:
    _, headers, _ = served[1].raw("GET", path, cookie=cookie)
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self'",
        "connect-src": "'self'", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
    }  # fmt: skip
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"


def test_scripts_write_text_and_never_markup() -> None:
    words = "innerHTML outerHTML insertAdjacentHTML document.write DOMParser srcdoc eval( Function( setHTML"
    forbidden = re.compile("|".join(map(re.escape, [*words.split(), "createContextualFragment"])))
    scripts = sorted(STATIC.glob("*.js"))
    assert len(scripts) >= 5
    for script in scripts:
        assert not forbidden.search(script.read_text()), script.name
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"\son\w+=|<style|style=|javascript:", page)  # the policy would block them anyway
    assert re.findall(r'(?:src|href)="(https?:|//)', page) == []


@pytest.mark.parametrize(
    "path",
    ["/media/../../etc/passwd", "/media/..%2f..%2fetc/passwd", "/media/%2e%2e/%2e%2e/etc/passwd", "/media/-1",
     "/media/1e9", "/media/1000000000", "/media/99999999999999999999999", "/media/100", "/media/",
     "/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static//etc/passwd",
     "/media/" + 5000 * "9", "/api/item/" + 5000 * "9", "/media/%D9%A1",
     "/api/item/-1", "/api/item/100", "/api/item/x", "/api/item/1000000000", "/api/export.exe"],
)  # fmt: skip
def test_no_path_comes_from_the_client(images: Client, path: str) -> None:
    assert images.raw("GET", path)[0] == 404


def _bomb(path: Path, side: int = 30_000, *, whole: bool = False) -> None:
    """A PNG that says it has side × side pixels, of which all or only some are there; all black."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(side + 1) * (side if whole else 20))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b""))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """100 image files: a good one, a bomb, SVG and HTML under other names, a damaged one, a missing one."""
    folder = tmp_path_factory.mktemp("images")
    names = [f"{row}.png" for row in range(100)]
    for name in names:
        Image.new("RGB", (300, 200), (200, 10, 10)).save(folder / name)
    _bomb(folder / "1.png")
    (folder / "2.png").write_text('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')
    (folder / "3.png").write_text("<html><script>alert(1)</script></html>")
    (folder / "4.png").write_bytes((folder / "0.png").read_bytes()[:60])
    (folder / "5.png").unlink()
    _bomb(folder / "6.png", 12_000, whole=True)  # below Pillow's own limit
    Image.new("RGB", (300, 200)).save(folder / "8.png", "TGA")  # no format that images are read in
    payload = b"<script>alert(document.cookie)</script>"
    Image.new("RGB", (300, 200)).save(folder / "7.jpg", comment=payload)
    names[7] = "7.jpg"
    previews = ImageFilePreviews([folder / name for name in names])
    with serving(make_session(folder / "review", previews=previews)) as (_, client):
        yield client


@pytest.mark.parametrize("row", [1, 2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("size", ["thumb", "full"])
def test_an_image_that_cannot_be_shown_is_a_placeholder(images: Client, row: int, size: str) -> None:
    began = time.monotonic()
    status, headers, body = images.raw("GET", f"/media/{row}?s={size}")
    assert (status, headers["content-type"]) == (200, "image/png")
    assert Image.open(io.BytesIO(body)).size == (256, 256)
    assert time.monotonic() - began < 10


def test_too_many_pixels_are_not_decoded_whatever_the_limit_of_pillow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, side in (("far.png", 30_000), ("near.png", 12_000), ("just.png", 10_001)):
        _bomb(tmp_path / name, side)
    shown = ImageFilePreviews([tmp_path / "far.png", tmp_path / "near.png", tmp_path / "just.png"])
    assert shown.preview(0).problem == "the image has too many pixels to show"
    assert shown.preview(1).problem == "12000 × 12000 pixels are too many to show"
    assert shown.preview(2).problem == "10001 × 10001 pixels are too many to show"
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)  # as programs with large images of their own do
    assert shown.preview(0).problem == "30000 × 30000 pixels are too many to show"


def test_at_most_two_images_are_decoded_at_a_time(tmp_path: Path) -> None:
    inside, most, lock = [0], [0], threading.Lock()

    class SlowPreviews(ImageFilePreviews):
        def preview(self, row: int, size: Size = "full") -> ImagePreview:
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.05)
            found = super().preview(row, size)
            with lock:
                inside[0] -= 1
            return found

    Image.new("RGB", (30, 20)).save(tmp_path / "one.png")
    previews = SlowPreviews([tmp_path / "one.png"] * 100)
    with serving(make_session(tmp_path / "review", previews=previews)) as (_, client):
        threads = [threading.Thread(target=client.raw, args=("GET", f"/media/{row}")) for row in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most[0] == 2


@pytest.mark.parametrize("path", ["/media/1", "/media/1?s=full", "/media/1?s=thumb"])
def test_texts_are_never_sent_as_media(served: tuple[ReviewServer, Client], path: str) -> None:
    assert served[1].raw("GET", path)[0] == 404


def test_images_are_encoded_again(images: Client) -> None:
    _, headers, body = images.raw("GET", "/media/7?s=full")
    assert b"<script>" not in body
    assert Image.open(io.BytesIO(body)).size == (300, 200)
    assert images.raw("GET", "/media/7?s=full", None, {"If-None-Match": headers["etag"]})[0] == 304


def test_a_large_body_is_refused(served: tuple[ReviewServer, Client]) -> None:
    _, client = served
    with suppress(BrokenPipeError, ConnectionResetError):  # it may hang up before we are done
        assert client.post_raw("/api/decide", {"id": "x" * 1_100_000})[0] == 413
    # Without a length, in chunks.
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    headers = {"Cookie": f"pars_{client.port}={client.token}", "Content-Type": "application/json", "X-Pars": "1",
               "Origin": f"http://{client.host}", "Transfer-Encoding": "chunked"}  # fmt: skip
    try:
        connection.request("POST", "/api/decide", iter([b"x" * 100_000] * 12), headers, encode_chunked=True)
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # it hung up before we were done
    finally:
        connection.close()
    assert client.get("/api/meta")["seq"] == 0


@pytest.mark.parametrize("length", ["1000001", "9" * 18])
def test_a_body_that_is_announced_as_too_large_is_not_waited_for(
    served: tuple[ReviewServer, Client], length: str
) -> None:
    """Nothing of the body is ever sent: only its length can be what is refused."""
    _, client = served
    lines = [f"POST /api/decide HTTP/1.1\r\nHost: {client.host}\r\nContent-Type: application/json\r\nX-Pars: 1\r\n",
             f"Origin: http://{client.host}\r\nCookie: pars_{client.port}={client.token}\r\n",
             f"Content-Length: {length}\r\n\r\n"]  # fmt: skip
    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as connection:
        connection.sendall("".join(lines).encode())
        assert b" 413 " in connection.recv(200)


def test_a_body_of_the_largest_size_is_read(served: tuple[ReviewServer, Client]) -> None:
    status, answer = served[1].post_raw("/api/decide", {"id": "x" * (1_000_000 - len('{"id": ""}'))})
    assert status == 400
    assert "id is missing" in answer["error"]


def test_a_slow_client_is_cut_off_and_does_not_stop_others(
    served: tuple[ReviewServer, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert guard.SECONDS == 30
    monkeypatch.setattr(guard, "SECONDS", 0.5)
    _, client = served
    lines = [f"POST /api/decide HTTP/1.1\r\nHost: {client.host}\r\nContent-Type: application/json\r\nX-Pars: 1\r\n",
             f"Origin: http://{client.host}\r\nCookie: pars_{client.port}={client.token}\r\n",
             "Content-Length: 100\r\n\r\n{"]  # fmt: skip
    slow = [socket.create_connection(("127.0.0.1", client.port), timeout=10) for _ in range(40)]
    for connection in slow:
        connection.sendall("".join(lines).encode())
    assert client.get("/api/meta")["seq"] == 0
    for connection in slow:
        assert b" 408 " in connection.recv(200)
        connection.close()


def test_at_most_16_threads_work_at_a_time(tmp_path: Path) -> None:
    session, inside, most = make_session(tmp_path), [0], [0]
    lock = threading.Lock()

    def slow_stats() -> dict[str, int]:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.2)
        with lock:
            inside[0] -= 1
        return {}

    session.stats = slow_stats  # type: ignore[method-assign]
    with serving(session) as (_, client):
        threads = [threading.Thread(target=client.get, args=("/api/stats",)) for _ in range(48)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most[0] <= 16


def test_a_class_named_like_a_formula_survives_the_round_trip(tmp_path: Path) -> None:
    items = make_items()
    assert items.classes[2] == "=1+1"
    with serving(make_session(tmp_path, items)) as (_, client):
        client.decide([5], "relabel", 2)
        lines = client.raw("GET", "/api/export.csv")[2].decode().splitlines()
        (row,) = csv.DictReader(lines)
        assert (row["label"], row["label_name"]) == ("2", "'=1+1")
        assert json.loads(client.raw("GET", "/api/export.jsonl")[2])["label_name"] == "=1+1"
