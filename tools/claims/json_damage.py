"""Mutates a JSON document: wrong types, huge numbers, invalid numbers, deep nesting, missing keys."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

DEEP = "DEEP"
"""Placeholder for a value that only text can represent: `render` nests there."""
_NUMBERS = (1 << 63, -(1 << 63), 1 << 40, -1, 0, 10**400, 1.5, 1e308, float("nan"), float("inf"), float("-inf"))
_OTHERS = (
    None,
    True,
    False,
    "",
    "x",
    "\ud800",
    "\x1b[31m\n::error::x",
    "a" * 100_000,
    [],
    {},
    [[]],
    {"": {}},
    "../x",
    "a\0b",
)


def damage(text: str, random: Random, *, only_numbers: bool = False) -> str:
    """Returns the document with some of its values damaged."""
    document = json.loads(text)
    for _ in range(random.choice((1, 1, 2, 5))):
        document = _damage_one(document, random, only_numbers=only_numbers)
    rendered = json.dumps(document, indent=1)
    depth = random.choice((50, 900, 100_000))
    return rendered.replace(json.dumps(DEEP), "[" * depth + "]" * depth)


def damage_text(text: str, random: Random) -> str:
    """Returns the document's text cut off, doubled, or with a part that is not JSON."""
    at = random.randrange(len(text))
    return random.choice((
        text[:at], text[at:], text + text, text[:at] + "\0" + text[at:], text.replace(":", "=", 1), "", "null", "[]", "7",
        "{}", "\ufeff" + text, "[" * 200_000, '{"a":' * 50_000, text[:at] + "9" * 5_000 + text[at:],
    ))  # fmt: skip


def _damage_one(document: object, random: Random, *, only_numbers: bool) -> object:
    holders = list(_list_holders(document))
    if only_numbers:
        holders = [(holder, key) for holder, key in holders if type(holder[key]) in (int, float)] or holders
    if not holders:
        return random.choice(_OTHERS)
    holder, key = random.choice(holders)
    draw = 0.0 if only_numbers else random.random()
    if draw < 0.35:
        holder[key] = random.choice(_NUMBERS)
    elif draw < 0.7:
        holder[key] = random.choice(_OTHERS)
    elif draw < 0.8:
        holder[key] = DEEP
    elif draw < 0.9:
        del holder[key]
    elif isinstance(holder, list):
        holder.append(holder[key])
    else:
        holder[random.choice(("format_version", "x", "", key))] = holder[key]
    return document


def _list_holders(value: object) -> "Iterator[tuple[Any, Any]]":
    """Returns each list or mapping with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _list_holders(inner)
