"""Texts with wrong labels: fit, list the suspects, predict new texts.

    python examples/texts.py

Without an encoder's name, TF-IDF is fitted to the texts; `encoder="minilm"` uses a pre-trained one
(`pip install 'pars-lnl[onnx]'`).
"""

from __future__ import annotations

import numpy as np

import pars

WORDS = {
    "card": ["card", "stolen", "blocked", "pin", "payment", "declined", "bank", "terminal"],
    "delivery": ["parcel", "late", "courier", "address", "tracking", "box", "delivered", "damaged"],
    "account": ["password", "login", "email", "reset", "username", "locked", "profile", "settings"],
}

rng = np.random.default_rng(0)
topics = [list(WORDS)[row % 3] for row in range(240)]
texts = [f"my {' '.join(rng.choice(WORDS[topic], 5))}" for topic in topics]
given = [str(rng.choice(list(WORDS))) if rng.random() < 0.2 else topic for topic in topics]

result = pars.fit(texts, given, encoder="tfidf", baseline=False)
print(result)
for row in result.audit.suspects[:3]:
    suggested = result.classes[result.audit.suggested[row]]
    print(f"{given[row]!r} should be {suggested!r}: {texts[row]}")
print(result.predict(["my courier lost the box", "reset the password of my profile"]).tolist())
