"""Counts, lists and suggestions, as messages write them."""

import difflib
from collections.abc import Iterable, Sequence


def count_of(number: int, noun: str) -> str:
    """`1 tie`, `2 ties`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def join_words(words: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f" {last} ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)


def suggest(word: str, known: Iterable[str]) -> str:
    """Returns `, did you mean `x`` with the nearest known word; empty if none is near."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f", did you mean `{near[0]}`" if near else ""
