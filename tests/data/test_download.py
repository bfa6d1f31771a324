from __future__ import annotations

import hashlib
import io
import re
import socket
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from data.fakes import fake_cifar, md5
from pars.data.cifar import read_cifar
from pars.data.download import download, extract
from pars.errors import UserError

BODY = np.random.default_rng(0).bytes(300_000)
SUM = hashlib.md5(BODY, usedforsecurity=False).hexdigest()


@dataclass
class Server:
    """What a server on 127.0.0.1 should do, and what it was asked."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    cut_after: list[int] = field(default_factory=list)  # bytes sent before the connection drops, per request
    asked: list[str | None] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server(files={"/file": BODY})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append(wanted)
            body = state.files.get(self.path)
            if body is None:
                self.send_error(404)
                return
            start = 0
            if wanted and state.ranges:
                match = re.fullmatch(r"bytes=(\d+)-", wanted)
                assert match
                start = int(match[1])
                if start >= len(body):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(body)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            rest = body[start:]
            self.wfile.write(rest[: state.cut_after.pop(0)] if state.cut_after else rest)

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{http.server_port}/"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    http.shutdown()
    http.server_close()
    thread.join()


def test_whole_file(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    download(server.url + "file", target, md5=SUM)
    assert target.read_bytes() == BODY
    assert [path.name for path in target.parent.iterdir()] == ["file"]


def test_cut_off_transfer_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.cut_after = [100_000, 50_000]
    download(server.url + "file", tmp_path / "file", md5=SUM)
    assert (tmp_path / "file").read_bytes() == BODY
    assert server.asked == [None, "bytes=100000-", "bytes=150000-"]


def test_a_second_call_goes_on_after_a_first_that_failed(server: Server, tmp_path: Path) -> None:
    server.cut_after = [1000] * 4
    with pytest.raises(UserError, match=r"was cut off 4 times, 4 000 bytes so far are kept in .*file\.part; run again"):
        download(server.url + "file", tmp_path / "file", md5=SUM)
    assert not (tmp_path / "file").exists()
    assert (tmp_path / "file.part").read_bytes() == BODY[:4000]
    download(server.url + "file", tmp_path / "file", md5=SUM)
    assert (tmp_path / "file").read_bytes() == BODY
    assert server.asked[-1] == "bytes=4000-"


def test_server_that_knows_no_ranges(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "file.part").write_bytes(b"old")
    download(server.url + "file", tmp_path / "file", md5=SUM)
    assert (tmp_path / "file").read_bytes() == BODY


def test_complete_part_file_needs_no_more_bytes(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(BODY)
    download(server.url + "file", tmp_path / "file", md5=SUM)
    assert (tmp_path / "file").read_bytes() == BODY
    assert not (tmp_path / "file.part").exists()


def test_part_file_longer_than_the_file_is_thrown_away(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(BODY + b"too much")
    download(server.url + "file", tmp_path / "file", md5=SUM)
    assert (tmp_path / "file").read_bytes() == BODY


def test_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.files["/file"] = b"<html>please log in</html>"
    with pytest.raises(UserError, match=rf"has MD5 .*, expected {SUM}"):
        download(server.url + "file", tmp_path / "file", md5=SUM)
    assert list(tmp_path.iterdir()) == []


def test_wrong_checksum_does_not_touch_a_file_already_there(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"precious")
    with pytest.raises(UserError, match=r"expected 0000"):
        download(server.url + "file", tmp_path / "file", md5="0000")
    assert (tmp_path / "file").read_bytes() == b"precious"


def test_file_that_is_not_there(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot fetch .*none \(404 Not Found\).*place it at .*none \(MD5"):
        download(server.url + "none", tmp_path / "none", md5=SUM)


def test_no_network_says_what_to_place_where(tmp_path: Path) -> None:
    with socket.socket() as free:  # a port on which nobody listens
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    target = tmp_path / "file.tar.gz"
    with pytest.raises(
        UserError, match=rf"cannot fetch http://127.0.0.1:{port}/f .*no network.*place it at {target} \(MD5 {SUM}\)"
    ):
        download(f"http://127.0.0.1:{port}/f", target, md5=SUM)
    with pytest.raises(UserError, match="cannot fetch"):
        download(f"http://127.0.0.1:{port}/f", tmp_path / "new" / "file", md5=SUM)
    assert list(tmp_path.iterdir()) == []  # not even a folder


def test_folder_that_cannot_be_made(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("")
    with pytest.raises(UserError, match=r"cannot write"):
        download(server.url + "file", tmp_path / "a-file" / "file", md5=SUM)


def archive_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_only_named_members_are_taken(tmp_path: Path) -> None:
    archive = archive_of(
        tmp_path / "a.tar.gz",
        (tarfile.TarInfo("../../evil"), b"evil"),
        (tarfile.TarInfo("folder/good"), b"good"),
        (tarfile.TarInfo("folder/other"), b"other"),
    )
    extract(archive, {"folder/good": tmp_path / "out" / "good"})
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["good"]
    assert (tmp_path / "out" / "good").read_bytes() == b"good"


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("good")
    info.type, info.linkname = kind, "/etc/passwd"
    archive = archive_of(tmp_path / "a.tar.gz", (info, b""))
    with pytest.raises(UserError, match=r"good is not a file of at most"):
        extract(archive, {"good": tmp_path / "out" / "good"})
    assert not (tmp_path / "out").exists()


def test_oversized_missing_and_cut_off_members(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "a.tar.gz", (tarfile.TarInfo("good"), np.random.default_rng(0).bytes(5000)))
    with pytest.raises(UserError, match=r"at most 4 999 bytes"):
        extract(archive, {"good": tmp_path / "good"}, limit=4999)
    with pytest.raises(UserError, match=r"a\.tar\.gz: better is not in it"):
        extract(archive, {"better": tmp_path / "better"})
    archive.write_bytes(archive.read_bytes()[:2000])
    with pytest.raises(UserError, match=r"cannot be unpacked .*cut off"):
        extract(archive, {"good": tmp_path / "good"})
    assert not (tmp_path / "good").exists()


def test_cifar_is_fetched_unpacked_and_read(server: Server, tmp_path: Path) -> None:
    cifar, _ = fake_cifar(tmp_path / "made")
    layout = cifar.layouts[0]
    packed = tmp_path / layout.archive
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(tmp_path / "made" / layout.folder, layout.folder)
    server.files[f"/{layout.archive}"] = packed.read_bytes()
    cifar = replace(cifar, layouts=(replace(layout, archive_md5=md5(packed)),))
    root = tmp_path / "root"
    fetched = read_cifar(cifar, root, download=True, url=server.url)
    expected = read_cifar(cifar, tmp_path / "made", download=False)
    np.testing.assert_array_equal(fetched.train.inputs, expected.train.inputs)
    assert [path.name for path in root.iterdir()] == [layout.folder]  # the archive is not kept
    read_cifar(cifar, root, download=True, url=server.url)
    assert len(server.asked) == 1  # and not fetched again
    batch = root / layout.folder / "data_batch_3"
    batch.unlink()  # as if the extraction had been interrupted
    read_cifar(cifar, root, download=True, url=server.url)
    assert batch.exists()
    assert len(server.asked) == 2
