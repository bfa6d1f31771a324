"""Frozen encoders: texts and images to feature vectors, once, with views of every row beside them.

>>> from pars.data import read_table
>>> table = read_table({"says": ["miaow miaow", "woof woof", "miaow", "woof"], "who": ["c", "d", "c", "d"]},
...                    label="who", text="says")
>>> words = encoder("tfidf").fitted(table.texts)
>>> words.encode(["miaow"]).shape
(1, 3)
"""

from pars.encode.batch import StoredViews, encode_rows
from pars.encode.encoder import Encoder, Features, Images, Kind, Rows
from pars.encode.job import Progress, encode_table
from pars.encode.names import NAMES, encoder
from pars.encode.preparation import EncoderName, Preparation, prepare, stored_views
from pars.encode.preparation_folder import FILE as PREPARATION
from pars.encode.preparation_folder import load_preparation, save_preparation
from pars.encode.rows import checksum, kind_of, published, take, view_of
from pars.encode.saved import load_encoder, save_encoder
from pars.encode.store import check_out

__all__ = [
    "NAMES",
    "PREPARATION",
    "Encoder",
    "EncoderName",
    "Features",
    "Images",
    "Kind",
    "Preparation",
    "Progress",
    "Rows",
    "StoredViews",
    "check_out",
    "checksum",
    "encode_rows",
    "encode_table",
    "encoder",
    "kind_of",
    "load_encoder",
    "load_preparation",
    "prepare",
    "published",
    "save_encoder",
    "save_preparation",
    "stored_views",
    "take",
    "view_of",
]
