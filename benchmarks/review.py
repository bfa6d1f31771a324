"""pars review: speed with 100 000 rows and 10 000 suspects; how often intervals of blind samples hold the truth.

    python benchmarks/review.py --speed                              # results/review-speed.jsonl
    python benchmarks/review.py --blind --oof label_error_oof.npz    # results/review-blind.jsonl

Speed: times by http.client, and as ratios to the median of empty requests (the icon of the page), one before each
decision.
Blind: CIFAR-10N `worse`; lists from published out-of-fold probabilities of two networks; true labels play the reviewer
of 100 samples, each of 100 rows of all and 100 of the list. Lines that are there are not computed again.
"""

from __future__ import annotations

import argparse
import http.client
import json
import secrets
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pars import audit
from pars.data.preview import TextPreviews
from pars.reviewing import ReviewItems, ReviewServer, ReviewSession, items_of_report

RESULTS = Path(__file__).parent.parent / "results"
ROWS, SUSPECTS = 100_000, 10_000
MODELS, SEEDS, SAMPLE = ("resnet18", "swin"), 100, 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--blind", action="store_true")
    parser.add_argument("--oof", type=Path)
    options = parser.parse_args()
    if options.speed:
        line = speed()
        with (RESULTS / "review-speed.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line, indent=1))
    if options.blind:
        if options.oof is None:
            parser.error("--blind needs --oof")
        blind(options.oof)


class Client:
    """One kept connection, as a browser has it."""

    def __init__(self, server: ReviewServer) -> None:
        self.host, token = f"127.0.0.1:{server.port}", server.url.partition("t=")[2]
        self.headers = {"Cookie": f"pars_{server.port}={token}", "Host": self.host}
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port)
        self.seq = 0

    def get(self, path: str) -> bytes:
        self.connection.request("GET", path, headers=self.headers)
        answer = self.connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return body

    def decide(self, **body: Any) -> dict[str, Any]:
        sent = json.dumps({"id": secrets.token_hex(8), "base_seq": self.seq, **body}).encode()
        headers = self.headers | {"Content-Type": "application/json", "X-Pars": "1", "Origin": f"http://{self.host}"}
        self.connection.request("POST", "/api/decide", sent, headers)
        answer = self.connection.getresponse()
        found: dict[str, Any] = json.loads(answer.read())
        assert answer.status == 200, found
        self.seq = found["seq"]
        return found


def synthetic(n: int, suspects: int) -> ReviewItems:
    rng, k = np.random.default_rng(0), 20
    given = rng.integers(0, k, n)
    suggested = (given + rng.integers(1, k, n)) % k
    listed = rng.permutation(n)[:suspects]
    quality = rng.random(n)
    quality[listed] = np.sort(rng.random(suspects) / 2)
    choices = (suggested[:, None] + np.arange(5)) % k
    classes = tuple(f"class {c}" for c in range(k))
    probs = np.tile([0.6, 0.2, 0.1, 0.05, 0.05], (n, 1))
    why = tuple(f"row {row}" for row in listed)
    return ReviewItems(classes, given, suggested, quality, probs[:, 0], choices, probs, listed, why)


def timed(work: Callable[[], Any], times: int) -> list[float]:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return found


def milliseconds(seconds: list[float], share: float = 0.5) -> float:
    return round(1000 * float(np.quantile(seconds, share)), 2)


def speed() -> dict[str, Any]:
    items, texts = synthetic(ROWS, SUSPECTS), TextPreviews([f"the text of row {row}" for row in range(ROWS)])
    with tempfile.TemporaryDirectory() as folder:
        server = ReviewServer(ReviewSession(items, texts, Path(folder)))
        server.start()
        client = Client(server)
        empty: list[float] = []

        def nothing() -> None:
            empty.extend(timed(lambda: client.get("/static/icon.svg"), 1))

        def decide() -> list[float]:
            nothing()
            return timed(lambda: client.decide(rows=[next(rows)], action="accept"), 1)

        first = timed(lambda: client.get("/api/items?limit=60&sort=pair"), 1)
        pages = timed(lambda: client.get("/api/items?limit=60&sort=pair&offset=6000"), 20)
        search = timed(lambda: client.get("/api/items?f=%7B%22text%22%3A%22row%2099%22%7D"), 5)
        rows = iter(items.listed.tolist())
        decisions = [seconds for _ in range(500) for seconds in decide()]
        bulk = timed(lambda: client.decide(filter={}, expect=SUSPECTS, action="drop"), 1)
        stats = timed(lambda: client.get("/api/stats"), 3)
        server.close()
    with tempfile.TemporaryDirectory() as folder:
        session = ReviewSession(items, texts, Path(folder))
        store = session.store
        store._db.execute("PRAGMA synchronous=OFF")  # only to fill it in seconds
        for number in range(100_000):
            store.decide(f"{number:010d}", [number % ROWS], [1 + number % 2], [3])
        session.close()
        opening = timed(lambda: ReviewSession(items, texts, Path(folder)).close(), 3)
    base = milliseconds(empty)
    figures = {
        "empty_request_ms": base,
        "first_page_ms": milliseconds(first),
        "page_ms": milliseconds(pages),
        "search_ms": milliseconds(search),
        "decision_p50_ms": milliseconds(decisions),
        "decision_p95_ms": milliseconds(decisions, 0.95),
        "bulk_ms": milliseconds(bulk),
        "stats_ms": milliseconds(stats),
        "open_after_100000_actions_ms": milliseconds(opening),
    }
    ratios = {name.replace("_ms", "_ratio"): round(value / base, 1) for name, value in figures.items()}
    return {"rows": ROWS, "suspects": SUSPECTS, **figures, **ratios, "command": "python benchmarks/review.py --speed"}


def blind(oof: Path) -> None:
    path = RESULTS / "review-blind.jsonl"
    before = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(line["model"], line["seed"]) for line in before}
    for model in MODELS:
        with np.load(oof) as file:
            given, true = file["worse_given"].astype(np.int64), file["worse_true"].astype(np.int64)
            probabilities = file[f"worse_{model}"]
        items = items_of_report(audit.score(probabilities, given))
        listed = np.zeros(len(given), dtype=bool)
        listed[items.listed] = True
        wrong = given != true
        truth = {
            "precision": float(wrong[listed].mean()),
            "missed": float((wrong & ~listed).sum() / wrong.sum()),
            "noise_rate": float(wrong.mean()),
        }
        texts = TextPreviews([""] * len(given))
        for seed in range(SEEDS):
            if (model, seed) in done:
                continue
            with tempfile.TemporaryDirectory() as folder:
                session = ReviewSession(items, texts, Path(folder))
                session.draw_sample(SAMPLE, seed)
                sample = session.store.sample()
                assert sample is not None
                labels = true[sample.rows]
                states = np.where(labels == given[sample.rows], 1, 3)
                session.store.decide("truth-decides", sample.rows, states, labels)
                estimate = session.sample_estimate()
                session.close()
            assert estimate is not None
            found = {name: vars(getattr(estimate, name)) for name in truth}
            line = {
                "set": "CIFAR-10N worse", "model": model, "seed": seed, "listed": len(items.listed), "truth": truth,
                "found": found, "holds": {n: bool(found[n]["low"] <= truth[n] <= found[n]["high"]) for n in truth},
                "command": "python benchmarks/review.py --blind --oof label_error_oof.npz",
            }  # fmt: skip
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for model in MODELS:
        mine = [line for line in lines if line["model"] == model]
        counts = {name: sum(line["holds"][name] for line in mine) for name in mine[0]["truth"]}
        wide = {n: [line["found"][n]["high"] - line["found"][n]["low"] for line in mine] for n in counts}
        widths = {n: round(float(np.median(values)), 3) for n, values in wide.items()}
        print(model, len(mine), "samples; intervals that hold the truth:", counts, "median width:", widths)


if __name__ == "__main__":
    main()
