"""Counts and lists, as messages write them."""

from collections.abc import Sequence


def count_of(number: int, noun: str) -> str:
    """`1 tie`, `2 ties`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def join_words(words: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f" {last} ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)
