"""Draw the two architecture figures: boxes and arrows, as SVG.

python docs/figures/draw.py
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).parent
Box = tuple[str, int, int, int, str, tuple[str, ...]]  # kind, x, y, width, title, lines
FILL = {"code": "#e8f0fe", "file": "#fef7e0", "out": "#e6f4ea"}
HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">'
    '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs><rect width="100%" height="100%" fill="white"/>'
)
LINE = 17


def height_of(box: Box) -> int:
    return 28 + LINE * len(box[5])


def draw(name: str, width: int, height: int, boxes: list[Box], arrows: list[tuple[int, int, str]]) -> None:
    """Arrows go from box to box by number, from the bottom to the top, or from side to side."""
    out = [HEAD.format(width=width, height=height)]
    for start, end, label in arrows:
        (_, x1, y1, w1, *_), (_, x2, y2, w2, *_) = boxes[start], boxes[end]
        h1, h2 = height_of(boxes[start]), height_of(boxes[end])
        if y1 + h1 < y2:
            ends = (x1 + w1 // 2, y1 + h1, x2 + w2 // 2, y2)
        elif x1 + w1 <= x2:
            ends = (x1 + w1, y1 + h1 // 2, x2, y2 + h2 // 2)
        else:
            ends = (x1, y1 + h1 // 2, x2 + w2, y2 + h2 // 2)
        out.append('<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="#555" marker-end="url(#a)"/>'.format(*ends))
        middle = ((ends[0] + ends[2]) // 2 + 5, (ends[1] + ends[3]) // 2 - 3)
        out.append(f'<text x="{middle[0]}" y="{middle[1]}" fill="#555" font-size="11">{escape(label)}</text>')
    for box in boxes:
        kind, x, y, wide, title, lines = box
        out.append(
            f'<rect x="{x}" y="{y}" width="{wide}" height="{height_of(box)}" rx="5" fill="{FILL[kind]}" stroke="#888"/>'
            f'<text x="{x + 10}" y="{y + 19}" font-weight="bold">{escape(title)}</text>'
        )
        out += [f'<text x="{x + 10}" y="{y + 19 + LINE * n}">{escape(line)}</text>' for n, line in enumerate(lines, 1)]
    (HERE / name).write_text("\n".join([*out, "</svg>"]) + "\n", encoding="utf-8")


def main() -> None:
    draw(
        "way-of-a-row.svg",
        980,
        330,
        [
            ("file", 10, 20, 160, "your rows", ("table, texts,", "images, arrays")),
            ("code", 210, 20, 160, "data/", ("read, checked:", "Table")),
            ("code", 410, 20, 160, "encode/", ("texts and images", "to inputs [n, d]")),
            ("code", 610, 20, 160, "augment/", ("weak and strong", "views of a batch")),
            ("code", 610, 150, 160, "methods/", ("one file each:", "views, given labels", "to named losses")),
            ("code", 810, 150, 160, "engine/", ("epochs, steps,", "averaged weights,", "checkpoints")),
            ("file", 610, 265, 360, "run folder", ("weights, metrics.jsonl, dynamics, labels",)),
            ("out", 310, 265, 200, "audit/, report/", ("wrong labels, curves",)),
            ("code", 410, 150, 160, "noise/", ("corrupts labels of", "benchmarks, and", "records how")),
        ],
        [(0, 1, ""), (1, 2, ""), (2, 3, ""), (3, 4, "views"), (4, 5, "losses"), (5, 6, ""), (6, 7, ""),
         (8, 4, "given labels")],
    )  # fmt: skip
    draw(
        "one-fit.svg",
        980,
        420,
        [
            ("file", 10, 20, 170, "table, folder, .npz", ("rows and given labels",)),
            ("code", 230, 20, 210, "fit_preprocessor", ("learns how rows", "become inputs")),
            ("file", 490, 20, 220, "rows.npz, files.json", ("inputs, labels, checksums",)),
            ("code", 230, 120, 210, "autoconfig", ("settings chosen by rules", "and short trials")),
            ("code", 230, 220, 210, "train: the method", ("some rows held out",)),
            ("code", 490, 220, 220, "train: cross-entropy", ("for the same FLOP",)),
            ("file", 10, 220, 170, "robust/", ("a run folder",)),
            ("file", 760, 220, 170, "plain/", ("a run folder",)),
            ("out", 10, 330, 250, "audit", ("which labels are wrong,", "and what they should be")),
            ("out", 300, 330, 200, "classifier", ("predict new rows",)),
            ("out", 540, 330, 300, "verdict", ("did it help on held-out labels?", "with a 95 % interval")),
        ],
        [(0, 1, ""), (1, 2, "encoded once"), (1, 3, ""), (3, 4, ""), (4, 5, ""), (4, 6, ""), (5, 7, ""),
         (4, 8, "dynamics"), (4, 9, ""), (4, 10, ""), (5, 10, "")],
    )  # fmt: skip


if __name__ == "__main__":
    main()
