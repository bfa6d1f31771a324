"""Download published data sets, and verify size and checksum of every file."""

from __future__ import annotations

import hashlib
import http.client
import logging
import ssl
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pars.errors import UserError
from pars.files import write_atomically


def md5_of(path: Path) -> str:
    """MD5 of a file, in hexadecimal: it identifies a published file, it does not protect against forgery."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def read_checked(path: Path, *, md5: str | None, size: int | None, where: str) -> bytes:
    """The bytes of a published file; a UserError when it is missing, of another size or of another MD5."""
    if not path.is_file():
        raise UserError(f"{where}: {path.name} is missing, expected at {path}")
    found = path.stat().st_size
    if size is not None and found != size:
        cause = "the download was cut off?" if found < size else "not the published file?"
        raise UserError(f"{where}: {path.name} is {grouped(found)} bytes, expected {grouped(size)}; {cause} ({path})")
    data = path.read_bytes()
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if md5 is not None and digest != md5:
        raise UserError(
            f"{where}: {path.name} ({grouped(found)} bytes) has MD5 {digest}, expected {md5}; "
            f"the download was damaged or cut off? ({path})"
        )
    return data


def grouped(n: int) -> str:
    """12582912 -> 12 582 912."""
    return f"{n:,}".replace(",", " ")


log = logging.getLogger(__name__)

CHUNK = 1 << 20
ATTEMPTS = 4
TIMEOUT = 30.0  # seconds without a single byte


def download(url: str, target: Path, *, md5: str) -> None:
    """Fetch `url` to `target`. A transfer that was cut off goes on from its `.part` file, now or at the next call."""
    part = target.with_name(target.name + ".part")
    try:
        for attempt in range(ATTEMPTS):
            log.info("downloading %s to %s", url, target)
            if _transfer(url, part):
                break
            log.warning("%s: cut off after %s bytes (try %d)", url, grouped(_size(part)), attempt + 1)
        else:
            raise UserError(
                f"download: {url} was cut off {ATTEMPTS} times, {grouped(_size(part))} bytes so far are kept "
                f"in {part}; run again to go on, or place the file at {target} by hand"
            )
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
        reason = f"{error.code} {error.reason}" if isinstance(error, urllib.error.HTTPError) else str(error)
        raise UserError(
            f"download: cannot fetch {url} ({reason}); no network here? "
            f"Fetch it on another machine and place it at {target} (MD5 {md5})"
        ) from None
    except OSError as error:
        raise UserError(
            f"download: cannot write {part} ({error.strerror or error}); disk full, or no permission?"
        ) from None
    found = md5_of(part)
    if found != md5:
        part.unlink()
        raise UserError(
            f"download: {url} has MD5 {found}, expected {md5}; the publisher's file changed or a proxy answered; "
            f"nothing was kept, {target} was not written"
        )
    part.replace(target)


def _transfer(url: str, part: Path) -> bool:
    """One request; True when the file is complete. Bytes already in `part` are not asked for again."""
    have = _size(part)
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            resumed = response.status == 206 and _range_start(response.headers.get("Content-Range")) == have
            if response.status == 206 and not resumed:
                part.unlink(missing_ok=True)  # not the range asked for: from the beginning, without a range
                return False
            start = have if resumed else 0
            length = response.headers.get("Content-Length")
            part.parent.mkdir(parents=True, exist_ok=True)  # only now: without an answer nothing is left behind
            with part.open("ab" if resumed else "wb") as file:
                try:
                    while chunk := response.read(CHUNK):
                        file.write(chunk)
                except (TimeoutError, ConnectionError, http.client.IncompleteRead):
                    return False
            return length is None or _size(part) == start + int(length)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing after what we have: complete, or not the same file at all
            total = (error.headers.get("Content-Range") or "").rpartition("/")[2]
            if total == str(have):
                return True
            part.unlink()
            return False
        raise


def _range_start(content_range: str | None) -> int | None:
    """ "bytes 100-199/200" -> 100."""
    start = (content_range or "").removeprefix("bytes ").partition("-")[0]
    return int(start) if start.isdigit() else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def extract(archive: Path, files: Mapping[str, Path], *, limit: int = 1 << 30) -> None:
    """Take the named members out of a .tar.gz, each to the path given for it; no other member is looked at.

    Paths come from us, never from the archive, and only regular files of at most `limit` bytes are taken: nothing an
    archive says can write elsewhere. A file appears under its name only when complete.
    """
    left = dict(files)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                if member.name not in left:
                    continue
                if not member.isfile() or member.size > limit:
                    raise UserError(f"{archive}: {member.name} is not a file of at most {grouped(limit)} bytes")
                source = tar.extractfile(member)
                assert source is not None  # a regular file has contents
                target = left.pop(member.name)
                target.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(target, partial(_fill, source.read()))
                if not left:
                    return
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise UserError(f"{archive}: cannot be unpacked ({error}); the download was cut off?") from None
    raise UserError(f"{archive}: {min(left)} is not in it; not the published archive?")


def _fill(data: bytes, beside: Path) -> None:
    beside.write_bytes(data)
