"""The preprocessor: a fitted transformation from a user's rows to network inputs.

`pars fit`, `pars predict` and the estimator all use it, for texts, images, tables and arrays alike.

On disk it is JSON and safetensors, no code:

preprocessor.json   kind of the rows, shape of images, free-text columns, options of `read_table`
columns.json        numeric and categorical columns of a table
tokenizer.json      of texts that a network reads
encoder/            encoder of texts or images; encoder-0/, … of free-text columns
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from pars import data
from pars.data import ColumnEncoder, Inputs, Table
from pars.encode.encoder import Encoder, Features, Images
from pars.encode.registry import NAMES, encoder, load_encoder, read_description, save_encoder
from pars.encode.rows import encode_rows, row_kind
from pars.encode.tokens import Tokenizer, load_tokenizer, text_tokenizer
from pars.encode.views import CachedViewsConfig
from pars.errors import UserError
from pars.files import expanded, write_text

RowKind = Literal["text", "image", "columns", "array"]
EncoderName = str | Callable[[Any], Any]

PREPROCESSOR_FILE, COLUMNS_FILE, ENCODER_FOLDER = "preprocessor.json", "columns.json", "encoder"
TOKENIZER_FILE = "tokenizer.json"
"""The names of its files; `pars.fit_folder` lists them with those of a fit."""

_DEFAULT_ENCODER = {"text": "tfidf", "image": "lite0"}  # neither needs a network connection
_TFIDF_NOTE = (
    "no encoder was named, so TF-IDF and a truncated SVD are fitted to these texts; a pre-trained encoder is often "
    "more accurate (minilm, for English)"
)
_PLURAL = {"text": "texts", "image": "images", "columns": "columns", "array": "arrays"}
_SMALL_SIDE = 64  # pixels; for larger images a pre-trained encoder costs less than training from scratch


@dataclass(frozen=True)
class ImageShape:
    """The shape to which all images are brought: channels (1 if all are gray, else 3), height, width."""

    channels: int
    height: int
    width: int

    def read(self, table: Table) -> Images:
        """Return the image files of a table as uint8 [n, C, H, W]: resized to cover the shape, then center-cropped."""
        assert table.images is not None
        gray, size = self.channels == 1, (self.height, self.width)
        try:
            return np.stack(
                [
                    data.read_image(path, where=table.row(row), color=not gray, gray=gray, size=size)
                    for row, path in enumerate(table.images)
                ]
            )
        except data.UnreadableImage as error:
            raise data.all_unreadable(error, table.images, table.row) from error


@dataclass(frozen=True, eq=False)
class Preprocessor:
    """Transforms rows of one kind to feature vectors float32 [n, d] or images uint8 [n, C, H, W].

    kind: of the rows, as `Table.kind`.
    encoder: of texts and images; None for columns, arrays, and small images that a network reads as pixels.
    image_shape: of images without an encoder.
    tokenizer: of texts that a network reads as token numbers int32 [n, T].
    columns: numeric and categorical columns of a table.
    text_columns: an encoder for each free-text column of a table.
    read_options: arguments of `data.read_table` for files of such rows.
    note: what was chosen automatically, to show to the user; "" if nothing was.
    """

    kind: RowKind
    encoder: Encoder | None = None
    image_shape: ImageShape | None = None
    tokenizer: Tokenizer | None = None
    columns: ColumnEncoder | None = None
    text_columns: Mapping[str, Encoder] = field(default_factory=dict)
    read_options: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    def transform(
        self, table: Table, views: CachedViewsConfig | None = None, step: Callable[[int], None] | None = None
    ) -> tuple[Inputs, Features | None]:
        """Return the inputs of rows, and features [n, 2N, d] of their cached views if there are any.

        Arrays of features are returned as they are, and so are arrays of images without an encoder.
        views, step: as in `encode_rows`.
        """
        if views is not None:
            self.check_views(views)
        if table.array is not None and (self.encoder is None or table.array.ndim == 2):
            return table.array, table.cached
        if table.kind != self.kind and not (table.kind == "array" and self.kind == "image"):
            raise UserError(f"{table.source} has {_PLURAL[table.kind]}, expected {_PLURAL[self.kind]} as in training")
        if self.encoder is not None:
            return encode_rows(table, self.encoder, views=views, step=step)
        if self.image_shape is not None:
            return self.image_shape.read(table), None
        if self.tokenizer is not None:
            assert table.texts is not None
            return self.tokenizer(table.texts), None
        assert table.columns is not None
        parts = [] if self.columns is None else [self.columns.encode(table.columns)]
        for name, text_encoder in self.text_columns.items():
            texts = data.column_texts(table.columns, name)
            parts.append(encode_rows(_text_table(table, texts), text_encoder)[0])
        return np.concatenate(parts, axis=1), None

    def check_views(self, views: CachedViewsConfig) -> None:
        """Raise a UserError if such views cannot be cached."""
        if views.count < 0:
            raise UserError(f"views: {views.count}, expected 0 or more of each kind")
        if views.count and self.encoder is None:
            raise UserError(f"views: {views.count}, but only texts and images with an encoder can have cached views")

    def read(self, source: Any, *, labels: bool = False, **more: Any) -> Table:
        """Return a file, folder or frame of such rows as a table; other columns are ignored.

        labels: whether to read the label column. more: further arguments of `data.read_table`.
        """
        has_columns = data.is_frame(source) or data.has_columns(expanded(str(source)))
        wanted = {"text", "image", "features", "delimiter", "encoding", "label"} if has_columns else set()
        wanted = wanted | {"unlabeled"} if labels else wanted - {"label"}
        chosen = {name: value for name, value in self.read_options.items() if name in wanted}
        if self.kind == "columns" and has_columns:
            known = [] if self.columns is None else [column.name for column in self.columns.columns]
            chosen["features"] = [*known, *self.text_columns]  # by name: a column of one row may look like a row number
        return data.read_table(source, **chosen | more)


def fit_preprocessor(
    table: Table, chosen: EncoderName | None = None, *, side: int | None = None, network: Any = None
) -> Preprocessor:
    """Return a preprocessor fitted to training rows.

    chosen: name of an encoder, or a function, for texts and images. Without one, texts get TF-IDF, images of at most 64
    pixels per side stay pixels, and larger images get lite0.
    side: image files stay pixels whatever their size: color images of so many pixels per side.
    network: texts become the token numbers of this network, "hf:NAME" or a dict of `ModelConfig` with such a name.

    >>> from pars.data import read_table
    >>> table = read_table({"says": ["miaow miaow", "woof woof", "miaow", "woof"]}, text="says")
    >>> preprocessor = fit_preprocessor(table)
    >>> preprocessor.encoder.name, preprocessor.transform(table)[0].shape
    ('tfidf', (4, 3))
    """
    if table.kind == "columns":
        return _fit_columns(table, chosen)
    if table.kind == "array" and chosen is None:
        return Preprocessor("array")
    kind = row_kind(table)
    if table.texts is not None and len(table.texts) > 1 and len(set(table.texts)) == 1:
        raise UserError(f"{table.source}: all {len(table)} texts are the same, so there is nothing to learn from them")
    if side is not None and kind == "image":
        if chosen is not None:
            raise UserError(f"encoder {chosen} and a network that reads pixels: expected one of them")
        return Preprocessor("image", image_shape=ImageShape(3, side, side))
    if network is not None and kind == "text":
        if chosen is not None:
            raise UserError(f"encoder {chosen} and a network that reads texts: expected one of them")
        settings = network if isinstance(network, Mapping) else {"name": network}
        found = text_tokenizer(str(settings["name"]), settings.get("size"))
        return Preprocessor("text", tokenizer=found.fitted(table.texts or []))
    if chosen is None and kind == "image":
        return _fit_images(table)
    fitted = encoder(_DEFAULT_ENCODER[kind] if chosen is None else chosen, kind=kind).fitted(table.texts or [])
    return Preprocessor(kind, encoder=fitted, note="" if chosen is not None else _TFIDF_NOTE)


def _fit_images(table: Table) -> Preprocessor:
    """Pixels for small images, the default encoder for others."""
    shape = _common_shape(table)
    if isinstance(shape, ImageShape):
        how = f"at {shape.width}×{shape.height}, {'gray' if shape.channels == 1 else 'in color'}"
        note = f"no encoder was named, so a network is trained on the pixels of {len(table)} small images ({how})"
        return Preprocessor("image", image_shape=shape, note=note)
    try:
        default = encoder(_DEFAULT_ENCODER["image"], kind="image")
    except UserError as error:
        others = ", ".join(
            name for name, text in NAMES.items() if "image" in text and name != _DEFAULT_ENCODER["image"]
        )
        raise UserError(f"{shape}, so images need an encoder: {error}; or name another one ({others})") from None
    return Preprocessor(
        "image", encoder=default, note=f"no encoder was named, so {default.name} encodes the images ({shape})"
    )


def _common_shape(table: Table) -> ImageShape | str:
    """Return the median height and width of small images; for larger ones, a text that names the first."""
    assert table.images is not None
    shapes = []
    for row, path in enumerate(table.images):
        try:
            channels, height, width = data.image_file_shape(path, where=table.row(row))
        except data.UnreadableImage as error:
            raise data.all_unreadable(error, table.images, table.row) from error
        if max(height, width) > _SMALL_SIDE:
            return f"{table.row(row)}: {path} has {width}×{height} pixels"
        shapes.append((channels, height, width))
    every = np.array(shapes)
    return ImageShape(int(every[:, 0].max()), *(int(side) for side in np.median(every[:, 1:], axis=0)))


def _fit_columns(table: Table, chosen: EncoderName | None) -> Preprocessor:
    """Numbers and categories by a ColumnEncoder, each free-text column by an encoder of its own."""
    assert table.columns is not None
    free = [name for name in table.columns if name not in table.categorical and data.is_free_text(table.columns[name])]
    if chosen is not None and not free:
        row_kind(table)  # raises: there is nothing to encode
    others = table.columns.only(name for name in table.columns if name not in free)
    codes = [name for name in table.categorical if name in others]
    columns = ColumnEncoder.fit(others, categorical=codes, may_be_empty=bool(free)) if len(others) else None
    text_encoder = encoder(_DEFAULT_ENCODER["text"] if chosen is None else chosen, kind="text") if free else None
    text_columns = {name: _fit_column(text_encoder, table, name) for name in free if text_encoder is not None}
    note = ""
    if free and chosen is None:
        note = f"free texts in {', '.join(map(repr, free))}: TF-IDF and a truncated SVD are fitted to them"
    return Preprocessor(
        "columns",
        columns=columns if columns is not None and columns.columns else None,
        text_columns=text_columns,
        note=note,
    )


def _fit_column(text_encoder: Encoder, table: Table, column: str) -> Encoder:
    assert table.columns is not None
    try:
        return text_encoder.fitted(data.column_texts(table.columns, column))
    except UserError as error:
        raise UserError(f"{table.source}: column {column!r}: {error}") from None


def _text_table(table: Table, texts: list[str]) -> Table:
    """Return a table of texts that messages name like the original."""
    return Table(table.source, table.labels, (), table.ids, texts=texts, lines=table.lines)


def save_preprocessor(preprocessor: Preprocessor, folder: Path) -> None:
    """Save a preprocessor in an existing folder."""
    if preprocessor.columns is not None:
        write_text(folder / COLUMNS_FILE, preprocessor.columns.to_json())
    if preprocessor.encoder is not None:
        save_encoder(preprocessor.encoder, folder / ENCODER_FOLDER)
    for at, text_encoder in enumerate(preprocessor.text_columns.values()):
        save_encoder(text_encoder, folder / f"{ENCODER_FOLDER}-{at}")
    if preprocessor.tokenizer is not None:
        preprocessor.tokenizer.save(folder / TOKENIZER_FILE)
    shape = preprocessor.image_shape
    content = {
        "kind": preprocessor.kind,
        "encoder": preprocessor.encoder is not None,
        "image_shape": None if shape is None else [shape.channels, shape.height, shape.width],
        **({} if preprocessor.tokenizer is None else {"tokenizer": True}),
        "columns": preprocessor.columns is not None,
        "text_columns": list(preprocessor.text_columns),
        "read_options": dict(preprocessor.read_options),
    }
    text = json.dumps(content, indent=1) + "\n"
    write_text(folder / PREPROCESSOR_FILE, text)  # last: it lists the other files


def load_preprocessor(folder: Path, named: EncoderName | None = None) -> Preprocessor:
    """Return the preprocessor saved in a folder.

    named: the encoder, needed if it is a Python function: saved files may not run code.
    """
    content = _read_json(folder / PREPROCESSOR_FILE)
    columns = None
    if content["columns"]:
        try:
            columns = ColumnEncoder.from_json((folder / COLUMNS_FILE).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, UserError) as error:
            raise UserError(f"{folder / COLUMNS_FILE} is missing or damaged: {error}") from None
    shape = content["image_shape"]
    if named is not None and not content["encoder"] and not content["text_columns"]:
        raise UserError(f"{folder} has no encoder, so {named} cannot read the rows")
    return Preprocessor(
        content["kind"],
        encoder=_load_encoder(folder / ENCODER_FOLDER, named) if content["encoder"] else None,
        image_shape=None if shape is None else ImageShape(*shape),
        tokenizer=load_tokenizer(folder / TOKENIZER_FILE) if content.get("tokenizer") is True else None,
        columns=columns,
        text_columns={
            name: _load_encoder(folder / f"{ENCODER_FOLDER}-{at}", named)
            for at, name in enumerate(content["text_columns"])
        },
        read_options=content["read_options"],
    )


def _load_encoder(folder: Path, named: EncoderName | None) -> Encoder:
    if named is None:
        return load_encoder(folder)
    saved = read_description(folder)
    if named != saved["name"]:
        raise UserError(f"{folder} contains the encoder {saved['name']}, so {named} cannot read the rows")
    if not saved["name"].startswith("python:"):
        return load_encoder(folder)
    return encoder(named, kind=saved["kind"], size=saved["size"] or None)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        shape, texts, options = content["image_shape"], content["text_columns"], content["read_options"]
        valid = (
            content["kind"] in get_args(RowKind)
            and isinstance(content["encoder"], bool)
            and isinstance(content["columns"], bool)
            and isinstance(texts, list)
            and all(isinstance(name, str) for name in texts)
            and isinstance(options, dict)
            and all(_is_read_option(value) for value in options.values())
            and (shape is None or _is_image_shape(shape))
        )
        if not valid:
            raise ValueError("expected the content that `pars fit` writes")
        return dict(content)
    except FileNotFoundError:
        raise UserError(f"{file} is missing; it is needed to read rows") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{file} is damaged: {error!r}") from None


def _is_read_option(value: Any) -> bool:
    """Whether a value is a column name, several, or none."""
    return value is None or all(isinstance(name, str) for name in ([value] if isinstance(value, str) else value))


def _is_image_shape(values: Any) -> bool:
    numbers = isinstance(values, list) and len(values) == 3 and all(type(value) is int for value in values)
    return numbers and values[0] in (1, 3) and min(values) >= 1 and max(values) <= 10_000
