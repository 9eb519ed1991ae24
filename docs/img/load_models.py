"""Draw the pictures of docs/load-models.md, from the schedules that the load itself uses.

python docs/img/load_models.py      writes loops.svg and arrivals.svg beside this file
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from pathlib import Path

from llmload.pacing.arrivals import Arrivals

HERE = Path(__file__).parent
WIDTH = 860
LEFT, RIGHT = 150, 20
INK, GREY, BLUE, RED, PALE = "#1f2933", "#7b8794", "#2b6cb0", "#c53030", "#fde8e8"


class Picture:
    """Lines of SVG on a white ground."""

    def __init__(self, height: int, seconds: float) -> None:
        self._height, self._seconds = height, seconds
        self._lines: list[str] = []

    def x(self, at_s: float) -> float:
        return LEFT + at_s / self._seconds * (WIDTH - LEFT - RIGHT)

    def text(
        self, x: float, y: float, text: str, *, color: str = INK, anchor: str = "start", bold: bool = False
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self._lines.append(f'<text x="{x:.1f}" y="{y}" fill="{color}" text-anchor="{anchor}"{weight}>{text}</text>')

    def box(self, from_s: float, to_s: float, y: float, height: float, color: str, *, opacity: float = 1.0) -> None:
        x = self.x(from_s)
        self._lines.append(
            f'<rect x="{x:.1f}" y="{y}" width="{self.x(to_s) - x:.1f}" height="{height}" fill="{color}" '
            f'fill-opacity="{opacity}" rx="1.5"/>'
        )

    def tick(self, at_s: float, y: float, height: float, color: str = INK, *, width: float = 1.2) -> None:
        x = self.x(at_s)
        self._lines.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + height}" stroke="{color}" stroke-width="{width}"/>'
        )

    def axis(self, y: float, step_s: float) -> None:
        self._lines.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="{GREY}"/>')
        for n in range(int(self._seconds / step_s) + 1):
            self.tick(n * step_s, y, 4, GREY)
            self.text(self.x(n * step_s), y + 18, f"{n * step_s:g} s", color=GREY, anchor="middle")

    def write(self, name: str, title: str) -> None:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self._height}" '
            f'font-family="system-ui, sans-serif" font-size="13" role="img"><title>{title}</title>'
            f'<rect width="{WIDTH}" height="{self._height}" fill="#ffffff"/>'
        )
        (HERE / name).write_text("\n".join([head, *self._lines, "</svg>\n"]), encoding="utf-8")


def answered(starts: Iterable[float], *, takes_s: float, frozen: tuple[float, float]) -> list[tuple[float, float]]:
    """Return start and end of requests at a server that stands still for a while."""
    from_s, to_s = frozen
    return [(at, max(at + takes_s, to_s + takes_s) if from_s - takes_s < at < to_s else at + takes_s) for at in starts]


def closed_starts(seconds: float, *, takes_s: float, frozen: tuple[float, float]) -> list[float]:
    """One user that asks again as soon as the answer is there."""
    starts, at = [], 0.0
    while at < seconds:
        starts.append(at)
        at = answered([at], takes_s=takes_s, frozen=frozen)[0][1]
    return starts


def loops() -> None:
    """The same freeze, met by one user who waits and by requests that come anyway."""
    seconds, frozen, takes_s = 6.0, (2.0, 4.0), 0.25
    picture = Picture(330, seconds)
    picture.box(*frozen, 20, 270, PALE)
    picture.text(picture.x(3.0), 15, "the server stands still", color=RED, anchor="middle")
    closed = closed_starts(seconds, takes_s=takes_s, frozen=frozen)
    picture.text(10, 50, "closed loop", bold=True)
    picture.text(10, 68, "one slow request", color=GREY)
    for start, end in answered(closed, takes_s=takes_s, frozen=frozen):
        slow = end - start > 2 * takes_s
        picture.box(start + 0.015, min(end, seconds), 42, 14, RED if slow else BLUE, opacity=0.85)
    due = [n * takes_s for n in range(int(seconds / takes_s))]
    requests = answered(due, takes_s=takes_s, frozen=frozen)
    slow_count = sum(end - start > takes_s * 1.01 for start, end in requests)
    picture.text(10, 110, "open loop", bold=True)
    picture.text(10, 128, f"{slow_count} slow requests", color=GREY)
    free: list[float] = []
    for start, end in requests:
        lane = next((n for n, until in enumerate(free) if until <= start + 1e-9), len(free))
        free[lane : lane + 1] = [end]
        y = 100 + lane * 18
        picture.tick(start, y - 2, 18, INK, width=1.6)
        picture.box(start, min(end, seconds), y, 14, RED if end - start > takes_s * 1.01 else BLUE, opacity=0.85)
    picture.axis(295, 1.0)
    picture.write("loops.svg", "A closed loop meets a freeze with one request, an open loop with every one that is due")


def arrivals() -> None:
    """Twelve processes of one request per second each, merged, by model."""
    seconds, count = 6.0, 12
    picture = Picture(215, seconds)
    rows = [
        ("constant", "cv² = 0", Arrivals("constant")),
        ("poisson", "cv² = 1", Arrivals("poisson", seed=4)),
        ("gamma, B = 0.2", "cv² = 1 / B = 5", Arrivals("gamma", 0.2, seed=4)),
    ]
    for n, (name, variation, model) in enumerate(rows):
        y = 20 + n * 52
        streams = [model.times(i, count=count, rate=1.0) for i in range(count)]
        picture.text(10, y + 14, name, bold=True)
        picture.text(10, y + 31, variation, color=GREY)
        for at_s in itertools.takewhile(lambda at_s: at_s <= seconds, heapq.merge(*streams)):
            picture.tick(at_s, y, 32, BLUE)
    picture.axis(178, 1.0)
    picture.write("arrivals.svg", "Twelve requests per second as constant, Poisson and gamma arrivals")


if __name__ == "__main__":
    loops()
    arrivals()
