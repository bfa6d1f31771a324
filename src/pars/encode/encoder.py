"""The encoder interface: a frozen function from raw rows to feature vectors, and what identifies it."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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
    """Maps rows of one kind to feature vectors, each row by itself.

    name: as `encoder(name)` takes it.
    encode: texts, or uint8 images [n, C, H, W] of any size, to float32 [n, d].
    size: images: side to which image files are resized before views are made of them.
    batch: largest useful batch size.
    identity: what the features depend on, as JSON values: versions, checksums of weights.
    fit: learns from training texts and returns the encoder to use; None if there is nothing to learn.
    save: writes what was learned into a folder, in open formats; None if the name is enough.
    saveable: False for a function passed in Python, which has no name to load it by.
    source: a function or the learned parameters, if the name is not enough to pickle the encoder.
    """

    name: str
    kind: Kind
    encode: Callable[[Any], Features]
    size: int = 0
    batch: int = 32
    identity: Mapping[str, Any] = field(default_factory=dict)
    fit: Callable[[Sequence[str]], Encoder] | None = None
    save: Callable[[Path], None] | None = None
    saveable: bool = True
    source: Any = None

    def __reduce__(self) -> tuple[Callable[..., Encoder], tuple[Any, ...]]:
        """Pickle the source of the encoder, not its network; unpickling needs the same libraries."""
        from pars.encode.registry import unpickle_encoder

        source = self.name if self.source is None else self.source
        return unpickle_encoder, (source, self.kind, self.size, dict(self.identity))

    def fitted(self, rows: Sequence[str]) -> Encoder:
        """Return the encoder to use: fitted to training texts if it learns from them, else itself."""
        return self if self.fit is None else self.fit(rows)


def package_folder(module: str, what: str, install: str) -> Path:
    """Return the folder of an installed package without importing it."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise UserError(f"{what} needs the package {module.replace('_', '-')}, which contains its weights: {install}")
    return Path(spec.origin).parent


def file_checksum(path: Path) -> str:
    """Return the BLAKE2b checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def weights_checksum(module: nn.Module) -> str:
    """Return the BLAKE2b checksum of all weights by name; a hub may change the weights behind a model's name."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().float().numpy()).data)
    return digest.hexdigest()
