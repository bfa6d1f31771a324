"""An encoder on disk, so that new rows are encoded as those of training were: JSON and safetensors, no code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pars.encode.encoder import Encoder, Kind
from pars.errors import UserError
from pars.files import write_text

FILE = "encoder.json"


def save_encoder(encoder: Encoder, folder: Path) -> None:
    """Write the encoder into a folder, which is made."""
    if not encoder.can_be_named:
        raise UserError(
            f"the encoder {encoder.name} is a function without a place to find it again; "
            "put it into a module and name it python:MODULE:FUNCTION"
        )
    folder.mkdir(parents=True, exist_ok=True)
    if encoder.save is not None:
        encoder.save(folder)
    write_text(folder / FILE, json.dumps(description(encoder), indent=1) + "\n")  # last: it makes the folder one


def description(encoder: Encoder) -> dict[str, object]:
    """All that its features depend on, as JSON values."""
    return {"name": encoder.name, "kind": encoder.kind, "size": encoder.size, "identity": dict(encoder.identity)}


def load_encoder(folder: Path) -> Encoder:
    """The encoder that was saved in a folder; refused where it would give other features now."""
    from pars.encode.names import encoder
    from pars.encode.tfidf import TfIdf

    then, file = saved_description(folder), folder / FILE
    name, kind, size = then["name"], then["kind"], then["size"]
    if name.startswith("python:"):
        raise UserError(f"{file} names a function, {name}; name it yourself (--encoder {name}), files may not run code")
    if name == "tfidf":
        return TfIdf.load(folder).encoder()
    if (
        name not in ("minilm", "lite0", "pixels")
        and not name.startswith(("timm:", "hf:"))
        and not name.endswith(".onnx")
    ):
        raise UserError(f"{file} is damaged: it names {name!r}, which is no encoder")
    found = encoder(name, kind=kind, size=size or None)
    check_same_encoder(found, then["identity"], str(folder))
    return found


def saved_description(folder: Path) -> dict[str, Any]:
    """Name, kind, size and identity of the encoder in a folder, checked."""
    file = folder / FILE
    try:
        then = json.loads(file.read_text(encoding="utf-8"))
        name, kind, size = then["name"], then["kind"], then["size"]
        if not isinstance(name, str) or kind not in ("text", "image") or type(size) is not int or size < 0:
            raise ValueError(f"name {name!r}, kind {kind!r}, size {size!r}")
        return {"name": name, "kind": kind, "size": size, "identity": dict(then["identity"])}
    except FileNotFoundError:
        raise UserError(f"{folder} holds no saved encoder: {file} is missing") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{file} is damaged: {error!r}") from None


def rebuilt(source: Any, kind: Kind, size: int, identity: dict[str, object]) -> Encoder:
    """The encoder of a pickle; refused where it would give other features now."""
    from pars.encode.names import encoder
    from pars.encode.tfidf import TfIdf

    if isinstance(source, TfIdf):
        return source.encoder()
    found = encoder(source, kind=kind, size=size or None)
    check_same_encoder(found, identity, "the pickled encoder")
    return found


def check_same_encoder(encoder: Encoder, identity: dict[str, object], where: str) -> None:
    """Checksums must agree; versions of libraries may differ."""
    for key, value in encoder.identity.items():
        if key.endswith("_blake2b") and identity.get(key) != value:
            raise UserError(
                f"{where}: {encoder.name} has other weights now ({key} {value}, then {identity.get(key)}); "
                "its features would not be those of training"
            )
