"""Frozen encoders: texts and images to feature vectors, once, with cached views of every row.

`encoder` makes an encoder by name, `encode_rows` encodes a table in memory, `encode_table` into a file.
`fit_preprocessor` chooses how rows of any kind become network inputs.

>>> from pars.data import read_table
>>> table = read_table({"says": ["miaow miaow", "woof woof", "miaow", "woof"], "who": ["c", "d", "c", "d"]},
...                    label="who", text="says")
>>> words = encoder("tfidf").fitted(table.texts)
>>> words.encode(["miaow"]).shape
(1, 3)
"""

from pars.encode.encoder import Encoder, Features, Images, Kind, Rows
from pars.encode.job import Progress, check_output_path, encode_table
from pars.encode.preprocessor import (
    EncoderName,
    Preprocessor,
    fit_preprocessor,
    load_preprocessor,
    save_preprocessor,
)
from pars.encode.registry import NAMES, encoder, load_encoder, save_encoder
from pars.encode.rows import dataset_tables, encode_rows, read_rows, row_kind, table_checksum
from pars.encode.tokens import Tokenizer, text_tokenizer
from pars.encode.views import CachedViewsConfig, default_cached_views, make_view

__all__ = [
    "NAMES",
    "CachedViewsConfig",
    "Encoder",
    "EncoderName",
    "Features",
    "Images",
    "Kind",
    "Preprocessor",
    "Progress",
    "Rows",
    "Tokenizer",
    "check_output_path",
    "dataset_tables",
    "default_cached_views",
    "encode_rows",
    "encode_table",
    "encoder",
    "fit_preprocessor",
    "load_encoder",
    "load_preprocessor",
    "make_view",
    "read_rows",
    "row_kind",
    "save_encoder",
    "save_preprocessor",
    "table_checksum",
    "text_tokenizer",
]
