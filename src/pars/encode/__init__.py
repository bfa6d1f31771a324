"""Frozen encoders: texts and images to feature vectors, once, with views of every row beside them.

>>> from pars.data import read_table
>>> table = read_table({"says": ["miaow miaow", "woof woof", "miaow", "woof"], "who": ["c", "d", "c", "d"]},
...                    label="who", text="says")
>>> words = encoder("tfidf").fitted(table.texts)
>>> words.encode(["miaow"]).shape
(1, 3)
"""

from pars.encode.batch import Views, encode_rows
from pars.encode.encoder import Encoder, Features, Images, Kind, Rows
from pars.encode.job import Progress, encode_table
from pars.encode.names import NAMES, encoder
from pars.encode.rows import kind_of, published, take, view_of
from pars.encode.saved import load_encoder, save_encoder
from pars.encode.store import check_out

__all__ = [
    "NAMES",
    "Encoder",
    "Features",
    "Images",
    "Kind",
    "Progress",
    "Rows",
    "Views",
    "check_out",
    "encode_rows",
    "encode_table",
    "encoder",
    "kind_of",
    "load_encoder",
    "published",
    "save_encoder",
    "take",
    "view_of",
]
