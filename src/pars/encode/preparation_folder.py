"""A preparation on disk, beside the runs that were trained on its rows: JSON and safetensors, no code.

preparation.json   kind of the rows, size of pictures, columns of free texts, how files are read
columns.json       numbers and categories of a table
encoder/           of texts and pictures; encoder-0/, … of columns of free texts
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

from pars.data import ColumnEncoder
from pars.encode.encoder import Encoder
from pars.encode.frame import Frame
from pars.encode.names import encoder
from pars.encode.preparation import EncoderName, Preparation, RowKind
from pars.encode.saved import load_encoder, save_encoder, saved_description
from pars.errors import UserError
from pars.files import write_text

FILE, COLUMNS, ENCODER = "preparation.json", "columns.json", "encoder"


def save_preparation(preparation: Preparation, folder: Path) -> None:
    """Write it into a folder that is there."""
    if preparation.columns is not None:
        write_text(folder / COLUMNS, preparation.columns.to_json())
    if preparation.encoder is not None:
        save_encoder(preparation.encoder, folder / ENCODER)
    for at, of_texts in enumerate(preparation.texts.values()):
        save_encoder(of_texts, folder / f"{ENCODER}-{at}")
    frame = preparation.frame
    content = {
        "kind": preparation.kind,
        "encoder": preparation.encoder is not None,
        "frame": None if frame is None else [frame.channels, frame.height, frame.width],
        "columns": preparation.columns is not None,
        "texts": list(preparation.texts),
        "reading": dict(preparation.reading),
    }
    write_text(folder / FILE, json.dumps(content, ensure_ascii=False, indent=1) + "\n")  # last: it says what is there


def load_preparation(folder: Path, named: EncoderName | None = None) -> Preparation:
    """What was saved in a folder. `named`: the encoder, where it is a function, which files may not name."""
    content = _read(folder / FILE)
    columns = None
    if content["columns"]:
        try:
            columns = ColumnEncoder.from_json((folder / COLUMNS).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, UserError) as error:
            raise UserError(f"{folder / COLUMNS} is missing or damaged: {error}") from None
    frame = content["frame"]
    return Preparation(
        content["kind"],
        encoder=_encoder(folder / ENCODER, named) if content["encoder"] else None,
        frame=None if frame is None else Frame(*frame),
        columns=columns,
        texts={name: _encoder(folder / f"{ENCODER}-{at}", named) for at, name in enumerate(content["texts"])},
        reading=content["reading"],
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        frame, texts, reading = content["frame"], content["texts"], content["reading"]
        right = (
            content["kind"] in get_args(RowKind)
            and isinstance(content["encoder"], bool)
            and isinstance(content["columns"], bool)
            and isinstance(texts, list)
            and all(isinstance(name, str) for name in texts)
            and isinstance(reading, dict)
            and all(_is_reading(value) for value in reading.values())
            and (frame is None or _is_frame(frame))
        )
        if not right:
            raise ValueError("expected what `pars fit` writes")
        return dict(content)
    except FileNotFoundError:
        raise UserError(f"{file} is missing: it says how rows are read") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{file} is damaged: {error!r}") from None


def _is_reading(value: Any) -> bool:
    """A column, several, or none."""
    return value is None or all(isinstance(name, str) for name in ([value] if isinstance(value, str) else value))


def _is_frame(values: Any) -> bool:
    numbers = isinstance(values, list) and len(values) == 3 and all(type(value) is int for value in values)
    return numbers and values[0] in (1, 3) and min(values) >= 1 and max(values) <= 10_000


def _encoder(folder: Path, named: EncoderName | None) -> Encoder:
    if named is None:
        return load_encoder(folder)
    saved = saved_description(folder)
    if named != saved["name"]:
        raise UserError(f"{folder} holds the encoder {saved['name']}, so rows cannot be read by {named}")
    if not saved["name"].startswith("python:"):
        return load_encoder(folder)
    return encoder(named, kind=saved["kind"], size=saved["size"] or None)
