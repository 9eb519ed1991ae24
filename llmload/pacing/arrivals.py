"""Arrival schedules: when the requests of an open loop are to start, whatever the server does.

Pure: no sleep, no clock; everything follows from a seed. A load of R requests a second is made of `count` processes of
R / count each. The schedule of a process depends on the seed, on its index and on the count, and on nothing else, and
all count from one common instant: however the processes are dealt to workers, their merged stream is the same.

    constant   process i of n has arrivals at (k + place(i) / n) / rate, place from 1 to n: merged, every gap is 1 / R.
    poisson    each process has exponential gaps of its own; independent Poisson processes add up to one.
    gamma      a gamma process does not come out of independent parts: the sum of many independent renewal processes
               tends to Poisson, and so do thinned ones. So there is one process of rate R, and process i of n takes
               every n-th of its arrivals: merged, the gaps are gamma distributed, whatever n is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Literal, get_args

Model = Literal["constant", "poisson", "gamma"]
MODELS: tuple[Model, ...] = get_args(Model)
KEPT_ROUNDS = 16
"""Rounds of a gamma process kept in memory. Processes of one worker read the same round at about the same time; an
older one is worked out anew."""


def processes_for(rate: float) -> tuple[int, float]:
    """Return how many processes make up a rate, and the rate of each, in requests per second: at most 1.

    Example: 12 is 12 of 1, 12.5 is 13 of 0.9615, 0.5 is 1 of 0.5.
    """
    count = max(1, math.ceil(rate - 1e-9))
    return count, rate / count


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What the arrivals are like.

    Args:
        model: see above.
        burstiness: shape of the gamma distribution of the gaps, as vLLM's benchmark has it. Mean and rate stay, the
            squared coefficient of variation of the gaps is 1 / burstiness: 1 is Poisson, 0.25 has gaps that vary
            twice as much (bursts, then silence), 4 half as much. Read for gamma only.
        seed: the same seed, the same arrivals.
    """

    model: Model = "poisson"
    burstiness: float = 1.0
    seed: int = 1

    @property
    def cv2(self) -> float:
        """The squared coefficient of variation of the merged gaps: variance / mean²."""
        return {"constant": 0.0, "poisson": 1.0, "gamma": 1 / self.burstiness}[self.model]

    def times(self, index: int, *, count: int, rate: float, after_s: float = 0.0) -> Iterator[float]:
        """Yield the arrivals of one process, in seconds since the common start, without end; see `numbered`."""
        return (at_s for _, at_s in self.numbered(index, count=count, rate=rate, after_s=after_s))

    def numbered(self, index: int, *, count: int, rate: float, after_s: float = 0.0) -> Iterator[tuple[int, float]]:
        """Yield number (from 0 on) and time of the arrivals of one process, in seconds since the common start.

        Args:
            index: which process, from 0 on. One beyond `count` is not part of the plan: it belongs to a second
                load (or third, ...) of `count` processes that is independent of the first.
            count: how many processes make up the load; 1 where that is not known.
            rate: of each process, requests per second.
            after_s: only those later than this.
        """
        part, place = divmod(index, count)
        place = _places(count)[place]
        if self.model == "constant":
            return _constant((place + 1 - radical_inverse(part)) / count, rate, after_s)
        if self.model == "poisson":
            return _poisson(Random(f"{self.seed}/poisson/{index}"), rate, after_s)
        return _gamma(f"{self.seed}/gamma/{part}", self.burstiness, place, count, rate, after_s)


def radical_inverse(number: int) -> float:
    """Return the number with its binary digits mirrored at the point: 0, 1/2, 1/4, 3/4, 1/8, 5/8, ...

    The first n of them cut the unit into parts of which none is more than twice as long as another
    (van der Corput's sequence).
    """
    result, step = 0.0, 0.5
    while number:
        result += step * (number & 1)
        number >>= 1
        step /= 2
    return result


@lru_cache(maxsize=64)
def _places(count: int) -> tuple[int, ...]:
    """Return the place of each process in a round: all places are taken once, and the first few processes of a load
    that is still being started are spread over the round already."""
    order = sorted(range(count), key=radical_inverse)
    places = [0] * count
    for place, index in enumerate(order):
        places[index] = place
    return tuple(places)


def _constant(phase: float, rate: float, after_s: float) -> Iterator[tuple[int, float]]:
    first = max(0, math.floor(after_s * rate - phase) - 1)
    times = ((k, (k + phase) / rate) for k in itertools.count(first))
    return itertools.dropwhile(lambda arrival: arrival[1] <= after_s, times)


def _poisson(random: Random, rate: float, after_s: float) -> Iterator[tuple[int, float]]:
    at_s = 0.0
    for k in itertools.count():
        at_s += random.expovariate(rate)
        if at_s > after_s:
            yield k, at_s


def _gamma(key: str, shape: float, place: int, count: int, rate: float, after_s: float) -> Iterator[tuple[int, float]]:
    rounds = _rounds(key, shape, count, rate)
    for number in itertools.count():
        if rounds.ends_s(number) > after_s:
            at_s = rounds.times(number)[place]
            if at_s > after_s:
                yield number, at_s


class _Rounds:
    """One gamma process, cut into rounds of one arrival for each of `count` takers.

    Each round has a random source of its own, so that it can be worked out anew.
    """

    def __init__(self, key: str, shape: float, count: int, rate: float) -> None:
        self._key, self._shape, self._count = key, shape, count
        self._scale_s = 1 / (shape * rate * count)
        self._begins_s = [0.0]
        self._kept: dict[int, list[float]] = {}

    def ends_s(self, number: int) -> float:
        """Return when a round's last arrival is, at most one beyond the rounds asked for so far."""
        while len(self._begins_s) <= number + 1:
            self._begins_s.append(self._work_out(len(self._begins_s) - 1)[-1])
        return self._begins_s[number + 1]

    def times(self, number: int) -> list[float]:
        """Return the arrivals of a round, ascending."""
        return self._kept.get(number) or self._work_out(number)

    def _work_out(self, number: int) -> list[float]:
        draw = Random(f"{self._key}/{number}").gammavariate
        gaps = (draw(self._shape, self._scale_s) for _ in range(self._count))
        times = list(itertools.accumulate(gaps, initial=self._begins_s[number]))[1:]
        self._kept[number] = times
        if len(self._kept) > KEPT_ROUNDS:
            del self._kept[min(self._kept)]
        return times


_rounds = lru_cache(maxsize=32)(_Rounds)
