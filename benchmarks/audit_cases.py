"""Small and weak cases of an audit: probabilities of rows whose right labels are known.

Published probabilities (label_error_oof.npz) are drawn from at random and degraded; texts and image features get five
folds of logistic regression. Arrays come from files that are not part of the project: see `Files`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.noisy_sets import Sources, hausa, numbered, read, text_features
from pars import data

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
SETS, MODELS = ("synthetic20", "aggre", "worse"), ("resnet18", "swin")
SIZES = (500, 1000, 3000)
DRAWS = 20
WEAK = {"weak": (1.0, 1.5), "very weak": (1.0, 2.5)}  # scale of the logits, standard deviation of their noise


@dataclass(frozen=True)
class Files:
    """Where the files are: published probabilities, texts, image features and the labels of CIFAR-N."""

    oof: Path
    text: Path
    features: Path  # folder of cifar10-lite0.npz and cifar100-lite0.npz
    root: Path  # folder of CIFAR-10_human.pt and CIFAR-100_human.pt


@dataclass(frozen=True, eq=False)
class Case:
    """Out-of-fold probabilities [n, K], given and true labels [n]; features [n, d] where there are some."""

    p: Floats
    given: Labels
    true: Labels
    x: npt.NDArray[np.float32] | None = None

    @property
    def wrong(self) -> npt.NDArray[np.bool_]:
        return np.not_equal(self.given, self.true)


@dataclass(frozen=True)
class Cell:
    """A family of cases that differ in the draw only. `source` is what a leave-one-out over data sets leaves out."""

    name: str
    source: str
    draws: int
    make: Callable[[int], Case]


def published(files: Files) -> Iterator[Cell]:
    """Subsamples, weak models, uneven classes and two classes, from published probabilities."""
    for name in SETS:
        for model in MODELS:
            whole = partial(_published, files.oof, name, model)
            for n in SIZES:
                yield Cell(f"{name}/{model}/{n}", name, DRAWS, partial(_draw, whole, n, f"{name}{model}{n}"))
                for kind, degradation in WEAK.items():
                    key = f"{name}/{model}/{n}/{kind}"
                    yield Cell(key, name, DRAWS, partial(_weak, whole, n, degradation, key))
            yield Cell(f"{name}/{model}/uneven", name, DRAWS, partial(_uneven, whole, f"{name}{model}uneven"))
            yield Cell(f"{name}/{model}/2 classes", name, DRAWS, partial(_two_classes, whole, f"{name}{model}two"))


@lru_cache(maxsize=2)
def _published(oof: Path, name: str, model: str) -> Case:
    with np.load(oof) as file:
        p = file[f"{name}_{model}"].astype(np.float64)
        given, true = (file[f"{name}_{part}"].astype(np.int64) for part in ("given", "true"))
    return Case(p / p.sum(axis=1, keepdims=True), given, true)


def _rng(key: str, draw: int) -> np.random.Generator:
    return np.random.default_rng([draw, *key.encode()])


def _rows(case: Case, rows: npt.NDArray[Any]) -> Case:
    return Case(case.p[rows], case.given[rows], case.true[rows])


def _draw(whole: Callable[[], Case], n: int, key: str, draw: int) -> Case:
    case = whole()
    return _rows(case, _rng(key, draw).permutation(len(case.p))[:n])


def _weak(whole: Callable[[], Case], n: int, degradation: tuple[float, float], key: str, draw: int) -> Case:
    """Logits scaled down, with Gaussian noise: a model that knows less, and does not know it."""
    case = _draw(whole, n, key, draw)
    scale, noise = degradation
    logits = scale * np.log(np.maximum(case.p, 1e-6))
    logits += noise * _rng(key + "noise", draw).standard_normal(case.p.shape)
    logits -= logits.max(axis=1, keepdims=True)
    p = np.exp(logits / 2)  # a softer one, for a weak model is rarely certain
    return Case(p / p.sum(axis=1, keepdims=True), case.given, case.true)


def _uneven(whole: Callable[[], Case], key: str, draw: int) -> Case:
    """Class k has 0.7^k of the rows of class 0: 24 to 1. A model of such rows would know it."""
    case, rng = whole(), _rng(key, draw)
    kept = np.flatnonzero(rng.random(len(case.p)) < 0.7**case.true)
    found = _rows(case, rng.permutation(kept)[:2000])
    p = found.p * np.bincount(found.given, minlength=found.p.shape[1])
    return Case(p / p.sum(axis=1, keepdims=True), found.given, found.true)


def _two_classes(whole: Callable[[], Case], key: str, draw: int) -> Case:
    """Machines (airplane, automobile, ship, truck) and animals; half of the wrong labels are right then."""
    case = _draw(whole, 1000, key, draw)
    animal = np.array([0, 0, 1, 1, 1, 1, 1, 1, 0, 0])
    p = case.p @ np.eye(2)[animal]
    return Case(p, animal[case.given], animal[case.true])


def from_features(files: Files, work: Path) -> Iterator[Cell]:
    """Five folds of logistic regression; `few`: on the first 20 principal components only."""
    at = Sources(files.features / "cifar10-lite0.npz", files.root, files.text)
    named: dict[str, tuple[int, Callable[[int], FeatureSet]]] = {
        "SemEval, language model": (1, partial(_semeval, files.text)),
        "Hausa news": (1, partial(_hausa, at)),
        "YouTube, rules": (1, partial(_youtube, files.text)),
        "TREC, 30 % flipped": (3, partial(_trec, files.text)),
        "BANKING77, 20 % flipped": (2, partial(_banking, files.text)),
        "digits, 20 % flipped": (3, _digits),
    }
    if (files.features / "cifar10-lite0.npz").exists():
        for column in ("aggre", "random1", "worse"):
            named[f"CIFAR-10N {column}, 3000"] = (3, partial(_cifar, files, 10, column))
    if (files.features / "cifar100-lite0.npz").exists():
        named["CIFAR-100N, 3000"] = (3, partial(_cifar, files, 100, "noisy"))
    for name, (draws, make) in named.items():
        for few in (False, True):
            key = f"{name}{'/few features' if few else ''}"
            yield Cell(key, name, draws, partial(_out_of_fold, make, few, work / key.replace("/", ", ")))


FeatureSet = tuple[npt.NDArray[np.float32], Labels, Labels]


def _out_of_fold(make: Callable[[int], FeatureSet], few: bool, stem: Path, draw: int) -> Case:
    from sklearn.decomposition import PCA

    path = stem.with_name(f"{stem.name}, {draw}.npz")
    if not path.exists():
        x, given, true = make(draw)
        if few:
            x = PCA(min(20, *x.shape), random_state=0).fit_transform(x)
        stem.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, p=five_folds(x, given, seed=draw), given=given, true=true, x=x)
    with np.load(path) as file:
        return Case(file["p"], file["given"], file["true"], file["x"])


def five_folds(x: npt.NDArray[np.float32], given: Labels, *, seed: int = 0) -> Floats:
    """Out-of-fold probabilities of logistic regression with scikit-learn's defaults on standardized features."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=200))
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    found: Floats = cross_val_predict(model, x, given, cv=folds, method="predict_proba").astype(np.float64)
    found /= found.sum(axis=1, keepdims=True)
    return found


def flipped(true: Labels, rate: float, seed: int) -> Labels:
    """A share of the labels, moved to another class at random."""
    rng, k = np.random.default_rng(seed), int(true.max()) + 1
    return np.where(rng.random(len(true)) < rate, (true + rng.integers(1, k, len(true))) % k, true)


def _encoded(texts: list[str]) -> npt.NDArray[np.float32]:
    return text_features(texts, texts[:1])[0]


def _semeval(text: Path, draw: int) -> FeatureSet:
    with (text / "semeval_llm" / "train.csv").open(newline="", encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if int(line["noisy_label"]) >= 0]
    x = _encoded([line["original_sent"] for line in lines])
    given, true = numbered([line["noisy_label"] for line in lines], [line["true_label"] for line in lines])
    return x, given, true


def _hausa(at: Sources, draw: int) -> FeatureSet:
    found = hausa(at, draw)
    return found.x, found.given, found.true


def _youtube(text: Path, draw: int) -> FeatureSet:
    """The majority of the rules that vote; rows without a vote, and ties, are left out."""
    lines = list(json.loads((text / "youtube" / "train.json").read_text(encoding="utf-8")).values())
    votes = np.array([line["weak_labels"] for line in lines])
    counts = np.stack([(votes == k).sum(axis=1) for k in (0, 1)], axis=1)
    kept = np.flatnonzero(counts[:, 0] != counts[:, 1])
    x = _encoded([lines[row]["data"]["text"] for row in kept])
    return x, counts[kept].argmax(axis=1), np.array([lines[row]["label"] for row in kept])


def _trec(text: Path, draw: int) -> FeatureSet:
    lines = [json.loads(line) for line in (text / "trec" / "train.json").read_text(encoding="utf-8").splitlines()]
    rows = np.random.default_rng(draw).permutation(len(lines))[:2000]
    true = np.array([lines[row]["label"] for row in rows])
    return _encoded([lines[row]["sentence"] for row in rows]), flipped(true, 0.3, draw), true


def _banking(text: Path, draw: int) -> FeatureSet:
    texts, names = read(text / "banking77" / "train.csv", "text", "category", ",")
    rows = np.random.default_rng(draw).permutation(len(texts))[:3000]
    (labels,) = numbered(names)
    true = labels[rows]
    return _encoded([texts[row] for row in rows]), flipped(true, 0.2, draw), true


def _digits(draw: int) -> FeatureSet:
    found = data.digits().train
    rows = np.random.default_rng(draw).permutation(len(found))[:800]
    true = found.labels[rows]
    return found.inputs[rows].reshape(len(rows), -1).astype(np.float32), flipped(true, 0.2, draw), true


def _cifar(files: Files, classes: int, column: str, draw: int) -> FeatureSet:
    with np.load(files.features / f"cifar{classes}-lite0.npz") as arrays:
        n = len(arrays["x"])
        x, true = arrays["x"], arrays["y"].astype(np.int64)
    people = data.human_labels(files.root / f"CIFAR-{classes}_human.pt", column, true_labels=true, n_classes=classes)
    rows = np.random.default_rng(draw).permutation(n)[:3000]
    return x[rows].astype(np.float32), people[rows], true[rows]
