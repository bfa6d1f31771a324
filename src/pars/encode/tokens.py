"""Texts to token numbers, for networks that are trained on texts (`--model.name hf:NAME`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars.errors import UserError, one_line
from pars.files import write_text
from pars.machine import import_optional

LONGEST = 128  # tokens of a text, unless told otherwise; the rest is not read
_INSTALL = "pip install 'pars-lnl[hf]'"
_TEXTS = 4096  # at a time


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """Texts to token numbers int32 [n, length]: cut where they are longer, -1 where they are shorter."""

    library: Any  # of the package tokenizers
    length: int

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        self.library.enable_truncation(self.length)
        out = np.full((len(texts), self.length), -1, dtype=np.int32)
        for start in range(0, len(texts), _TEXTS):
            # A lone surrogate is no text to the library.
            part = [text.encode("utf-8", "replace").decode("utf-8") for text in texts[start : start + _TEXTS]]
            for row, found in enumerate(self.library.encode_batch(part), start):
                out[row, : len(found.ids)] = found.ids
        return out

    def fitted(self, texts: Sequence[str]) -> Tokenizer:
        """As long as the longest of these texts, but not longer: what is padded is computed in vain."""
        tokens = self(texts)
        if len(tokens) > 1 and (tokens == tokens[0]).all():
            raise UserError(
                f"all {len(tokens)} texts become the same {int((tokens[0] >= 0).sum())} tokens, so there is nothing to "
                f"learn from them: is it a network of another language, or are {self.length} tokens too few?"
            )
        return Tokenizer(self.library, max(2, int((tokens >= 0).sum(axis=1).max(initial=0))))

    def save(self, file: Path) -> None:
        """Write the tokenizer as JSON."""
        self.library.enable_truncation(self.length)
        write_text(file, self.library.to_str())


def text_tokenizer(name: str, length: int | None = None) -> Tokenizer:
    """The tokenizer of a network `hf:NAME`. length: tokens of a text at most; by default 128, or what it can read."""
    prefix, _, rest = name.partition(":")
    if prefix != "hf" or not rest:
        raise UserError(f"{name} does not read texts; expected hf:NAME, a text network of transformers")
    if length is not None and (not isinstance(length, int) or length < 1):
        raise UserError(f"{name}: size is {length!r}, expected a number of tokens above 0")
    from pars.models.pretrained import hf_source  # here: it imports torch

    transformers = import_optional("transformers", name, _INSTALL)
    try:
        found = transformers.AutoTokenizer.from_pretrained(hf_source(rest), trust_remote_code=False)
    except Exception as error:  # an unknown name, no connection, no such file: the library raises anything
        raise UserError(
            f"{name} has no tokenizer that can be loaded ({one_line(error)}); expected a text network on the hub, or a "
            "folder with tokenizer.json"
        ) from error
    if not getattr(found, "is_fast", False):
        raise UserError(f"{name}: its tokenizer is not one of the package tokenizers; expected tokenizer.json")
    most = int(min(found.model_max_length, 2**20))
    if length is not None and length > most:
        raise UserError(f"{name} reads texts of at most {most} tokens, size is {length}")
    library = _from_json(found.backend_tokenizer.to_str(), name)
    return Tokenizer(library, min(LONGEST, most) if length is None else max(2, length))


def load_tokenizer(file: Path) -> Tokenizer:
    """The tokenizer that `Tokenizer.save` wrote; nothing in it can run."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is missing or damaged: {error}") from None
    library = _from_json(text, str(file))
    cut = library.truncation
    if not isinstance(cut, dict) or not isinstance(cut.get("max_length"), int):
        raise UserError(f"{file} is damaged: it does not say how long texts are")
    return Tokenizer(library, cut["max_length"])


def _from_json(text: str, where: str) -> Any:
    tokenizers = import_optional("tokenizers", where, _INSTALL)
    try:
        library = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing more precise
        raise UserError(f"{where}: no tokenizer that can be read ({one_line(error)})") from error
    library.no_padding()
    return library
