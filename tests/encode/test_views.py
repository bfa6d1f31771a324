"""Views of texts."""

from __future__ import annotations

from collections import Counter

import numpy as np

from pars.encode.views import DROP_RATE, text_view, text_views
from pars.seeds import generator

TEXT = " ".join(f"w{i}" for i in range(50))


def test_words_are_left_out_at_their_rate_and_never_made_up() -> None:
    for kind in ("weak", "strong"):
        rng = generator(0, "test")
        lengths = []
        for _ in range(300):
            words = text_view(TEXT, kind, rng).split()
            assert max(Counter(words).values()) == 1
            assert set(words) <= set(TEXT.split())
            lengths.append(len(words))
        expected, deviation = 50 * (1 - DROP_RATE[kind]), np.sqrt(50 * DROP_RATE[kind] * (1 - DROP_RATE[kind]) / 300)
        assert abs(np.mean(lengths) - expected) < 5 * deviation


def test_only_the_strong_view_changes_the_order_and_by_one_place() -> None:
    rng = generator(0, "test")
    moved = []
    for kind in ("weak", "strong"):
        for _ in range(50):
            numbers = [int(word[1:]) for word in text_view(TEXT, kind, rng).split()]
            places = np.argsort(np.argsort(numbers))  # where each word would stand in order
            assert np.abs(places - np.arange(len(numbers))).max() <= (1 if kind == "strong" else 0)
            moved.append(kind == "strong" and (places != np.arange(len(numbers))).any())
    assert any(moved)


def test_something_is_always_left() -> None:
    rng = generator(0, "test")
    assert all(text_view("one two", "strong", rng) for _ in range(200))
    assert all(text_view("x", "strong", rng) == "x" for _ in range(50))
    assert text_view("", "weak", rng) == text_view("  ", "strong", rng) == ""


def test_a_text_without_blanks_loses_letters() -> None:
    text = "如何找到我的银行卡在哪里"
    views = {text_view(text, "strong", generator(s, "test")) for s in range(20)}
    assert len(views) > 10
    assert all(set(view) <= set(text) and " " not in view for view in views)


def test_a_view_depends_on_its_row_not_on_its_batch() -> None:
    texts = [TEXT] * 7
    whole = text_views(texts, "weak", 0, 0, seed=3)
    assert whole == [*text_views(texts[:2], "weak", 0, 0, seed=3), *text_views(texts[2:], "weak", 0, 2, seed=3)]
    assert len(set(whole)) == 7
    assert whole != text_views(texts, "weak", 1, 0, seed=3)
    assert whole != text_views(texts, "weak", 0, 0, seed=4)
