"""What an encoder is: a frozen function from raw rows to feature vectors, and what identifies it."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from pars.errors import UserError

if TYPE_CHECKING:
    from torch import nn

Kind = Literal["text", "image"]
Images = npt.NDArray[np.uint8]  # [n, C, H, W]
Rows = Sequence[str] | Images
Features = npt.NDArray[np.float32]  # [n, d]


@dataclass(frozen=True, eq=False)
class Encoder:
    """Rows of one kind to feature vectors, each row by itself.

    name: as `encoder(name)` takes it. encode: texts, or uint8 images [n, C, H, W] of any size, to float32 [n, d].
    size: images: side that picture files are brought to before views are made of them.
    batch: most rows at a time that make it faster.
    identity: what the features depend on, as JSON values: versions, checksums of weights.
    fit: learn from training rows and return the encoder to use; None where there is nothing to learn.
    save: write what was learned into a folder, in open formats; None where the name says all.
    source: what it is made of where its name does not say: a function, or what was learned. For pickling.
    """

    name: str
    kind: Kind
    encode: Callable[[Any], Features]
    size: int = 0
    batch: int = 32
    identity: Mapping[str, Any] = field(default_factory=dict)
    fit: Callable[[Sequence[str]], Encoder] | None = None
    save: Callable[[Path], None] | None = None
    can_be_named: bool = True  # a function handed over in Python cannot be found again by its name
    source: Any = None

    def __reduce__(self) -> tuple[Callable[..., Encoder], tuple[Any, ...]]:
        """A pickle holds what the encoder is made of, not the network: who reads it needs the same libraries."""
        from pars.encode.saved import rebuilt

        source = self.name if self.source is None else self.source
        return rebuilt, (source, self.kind, self.size, dict(self.identity))

    def fitted(self, rows: Sequence[str]) -> Encoder:
        """The encoder to use, after it has seen the training rows where it wants to."""
        return self if self.fit is None else self.fit(rows)


def needed(module: str, what: str, install: str) -> ModuleType:
    """An optional library, or one sentence that says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        reason = "" if importlib.util.find_spec(module.partition(".")[0]) is None else f" ({error})"
        raise UserError(f"{what} needs {module.partition('.')[0]}{reason}: {install}") from None


def package_folder(module: str, what: str, install: str) -> Path:
    """Where an installed package lies, without running any of it."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise UserError(f"{what} needs the package {module.replace('_', '-')}, whose weights are inside it: {install}")
    return Path(spec.origin).parent


def file_checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def weights_checksum(module: nn.Module) -> str:
    """BLAKE2b of all weights by name: the same name may stand for other weights tomorrow."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().float().numpy()).data)
    return digest.hexdigest()
