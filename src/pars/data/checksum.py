"""Is this file the one its publisher put out?"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pars.errors import UserError


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
