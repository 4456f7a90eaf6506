"""The bytes in use at each step are those of the ranges that are alive, each byte counted once."""

import random
from types import SimpleNamespace

from ligerdiag.hlo.buffers import Slice
from ligerdiag.memory import live_bytes

STEPS = 40


def add_up(places: list[tuple[int, int, int]], spans: list[tuple[tuple[int, int], ...]]) -> tuple[int, ...]:
    slices = [Slice(allocation=allocation, offset=offset, size=size) for allocation, offset, size in places]
    uses = SimpleNamespace(buffers=SimpleNamespace(slices=slices))
    walk = live_bytes._Walk(uses, ())  # pyright: ignore[reportPrivateUsage, reportArgumentType]
    return walk._add_up(dict(enumerate(spans)), STEPS)  # pyright: ignore[reportPrivateUsage]


def count(places: list[tuple[int, int, int]], spans: list[tuple[tuple[int, int], ...]], step: int) -> int:
    alive = [
        place for place, times in zip(places, spans, strict=True) if any(first <= step <= last for first, last in times)
    ]
    return len({(allocation, byte) for allocation, offset, size in alive for byte in range(offset, offset + size)})


def make_nested(rng: random.Random) -> list[tuple[int, int, int]]:
    """Returns ranges of which two are disjoint, or one lies within the other, as values that share bytes do."""
    places = {(0, 0, 32)}
    for _ in range(12):
        size = 2 ** rng.randrange(5)
        places.add((rng.randrange(2), size * rng.randrange(32 // size), size))
    return sorted(places, key=lambda _: rng.random())


def test_each_byte_in_use_counts_once() -> None:
    rng = random.Random(0)
    for _ in range(200):
        places = make_nested(rng)
        spans = [((first := rng.randrange(30), first + rng.randrange(10)),) for _ in places]
        assert add_up(places, spans) == tuple(count(places, spans, step) for step in range(STEPS))


def test_a_range_counts_again_after_the_one_around_it_has_ended() -> None:
    assert add_up([(0, 0, 8), (0, 2, 4), (0, 2, 2)], [((0, 1),), ((1, 3),), ((0, 4),)])[:6] == (8, 8, 4, 4, 2, 0)
