"""Feature vectors whose labels are wrong, with the right ones beside them: made noise and people's own.

Arrays come from files that are not part of the project (benchmarks/encode_cifar10.py makes the first):
cifar10-lite0.npz; DATA/CIFAR-10_human.pt; TEXT/banking77/{train,test}.csv, TEXT/hausa_news/*.tsv.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pars import data, noise
from pars.noise import NoiseConfig

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sources:
    """Where the files are."""

    features: Path
    root: Path
    text: Path


@dataclass(frozen=True, eq=False)
class NoisySet:
    """Training rows with given and right labels, and clean rows to test on. Shapes: x [n, d], labels [n]."""

    x: Floats
    given: Labels
    true: Labels
    x_test: Floats
    y_test: Labels
    seed: int  # of the noise, and of all who learn from it

    @property
    def wrong(self) -> float:
        return float((self.given != self.true).mean())


Clean = tuple[Floats, Labels, Floats, Labels]


def symmetric(rate: float) -> NoiseConfig:
    return NoiseConfig(kind="symmetric", rate=rate)


def human(which: str) -> NoiseConfig:
    return NoiseConfig(kind="file", path="CIFAR-10_human.pt", labels=which)


def digits(_: Sources) -> Clean:
    found = data.digits()
    assert found.test is not None
    x, x_test = (s.inputs.reshape(len(s), -1).astype(np.float32) for s in (found.train, found.test))
    return x, found.train.labels, x_test, found.test.labels


@lru_cache(maxsize=1)
def cifar10(at: Sources) -> Clean:
    """The first 10 000 training rows."""
    with np.load(at.features) as arrays:
        return arrays["x"][:10_000], arrays["y"][:10_000].astype(np.int64), arrays["x_test"], arrays["y_test"]


@lru_cache(maxsize=1)
def banking77(at: Sources) -> Clean:
    columns = [read(at.text / "banking77" / f"{part}.csv", "text", "category", ",") for part in ("train", "test")]
    (texts, names), (test_texts, test_names) = columns
    (x, x_test), (labels, test_labels) = text_features(texts, test_texts), numbered(names, test_names)
    return x, labels, x_test, test_labels


def text_features(texts: list[str], test_texts: list[str]) -> tuple[Floats, Floats]:
    """TF-IDF of words and pairs of them, 256 singular vectors of the training rows, rows of length 1."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    encode = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True),
        TruncatedSVD(256, random_state=0),
        Normalizer(copy=False),
    )
    return encode.fit_transform(texts).astype(np.float32), encode.transform(test_texts).astype(np.float32)


def read(path: Path, text: str, label: str, delimiter: str) -> tuple[list[str], list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        if delimiter == ",":
            lines = list(csv.DictReader(file))
        else:  # titles hold single quotation marks
            lines = list(csv.DictReader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE))
    return [line[text] for line in lines], [line[label] for line in lines]


def numbered(*columns: list[str]) -> tuple[Labels, ...]:
    names = {name: number for number, name in enumerate(sorted(set(columns[0])))}
    return tuple(np.array([names[name] for name in column], dtype=np.int64) for column in columns)


def hausa(at: Sources, seed: int) -> NoisySet:
    """News titles, labeled by a heuristic; the same rows with people's labels are the truth."""
    files = ("train_clean_noisy_labels", "train_clean", "test")
    columns = [read(at.text / "hausa_news" / f"{name}.tsv", "news_title", "label", "\t") for name in files]
    true, given, y_test = numbered(columns[1][1], columns[0][1], columns[2][1])
    assert columns[0][0] == columns[1][0], "the two files have different rows"
    x, x_test = text_features(columns[0][0], columns[2][0])
    return NoisySet(x, given, true, x_test, y_test, seed)


def made(clean: Callable[[Sources], Clean], config: NoiseConfig) -> Callable[[Sources, int], NoisySet]:
    """A clean set, its labels made wrong."""

    def build(at: Sources, seed: int) -> NoisySet:
        x, true, x_test, y_test = clean(at)
        n_classes = int(true.max()) + 1
        people = None
        if config.kind == "file":
            people = data.human_labels(at.root / str(config.path), config.labels, true_labels=true, n_classes=n_classes)
        given = noise.apply(config, true, n_classes, seed=seed, file_labels=people).labels
        return NoisySet(x, given, true, x_test, y_test, seed)

    return build


SETS: dict[str, Callable[[Sources, int], NoisySet]] = {
    "digits, sym 20 %": made(digits, symmetric(0.2)),
    "digits, sym 50 %": made(digits, symmetric(0.5)),
    "CIFAR-10, sym 20 %": made(cifar10, symmetric(0.2)),
    "CIFAR-10, sym 50 %": made(cifar10, symmetric(0.5)),
    "CIFAR-10, sym 80 %": made(cifar10, symmetric(0.8)),
    "CIFAR-10, asym 40 %": made(cifar10, NoiseConfig(kind="asymmetric", rate=0.4)),
    "CIFAR-10N aggre": made(cifar10, human("aggre")),
    "CIFAR-10N random1": made(cifar10, human("random1")),
    "CIFAR-10N worse": made(cifar10, human("worse")),
    "BANKING77, sym 30 %": made(banking77, symmetric(0.3)),
    "Hausa news": hausa,
}
