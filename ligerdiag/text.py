"""Text for messages: counts, lists, suggestions, names of outputs folded to patterns, and text that is safe to print.

Names of cases, outputs, kernels and instructions come from untrusted files: on a terminal they must be one line without
escape sequences or control characters.
"""

import difflib
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field


def count_of(number: int, noun: str) -> str:
    """Returns the number with its noun, such as `1 tie` or `2 ties`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def join_words(words: Sequence[str], last: str = "and") -> str:
    """Returns the words as a list in prose: `a`, `a and b` or `a, b and c`."""
    return f" {last} ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)


def list_first(words: Sequence[str], most: int) -> str:
    """Returns the first `most` words, and how many more there are, as in `a, b and 3 more`."""
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def join_lines(text: str) -> str:
    """Returns the text on one line, with single blanks."""
    return " ".join(text.split())


def suggest(word: str, known: Iterable[str]) -> str:
    """Returns the nearest known word as a question, such as ", did you mean `x`". Empty if no word is near."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f", did you mean `{near[0]}`" if near else ""


_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC and the other strings: title, clipboard, links
    r"|[ -/]*[0-~]"  # two characters
    r")?"
)

_COMMAND = re.compile(r"^(\s*)::")
_MARKED_COMMAND = re.compile(r"(##)((?:\w*)\[)")


def compute_printable(text: str) -> str:
    """Returns the text on one line without escape sequences, control characters and direction marks."""
    if text.isprintable():
        return text
    bare = _ESCAPE_SEQUENCE.sub("", text)
    return "".join(" " if c.isspace() else c for c in bare if c.isprintable() or c.isspace())


def compute_without_commands(text: str) -> str:
    """Returns the line with a space in each sequence of characters that a CI system would read as a command.

    GitHub looks for `::name …::` at the start of a line, after blanks. GitHub and Azure look for `##[name]` or
    `##vso[name]` anywhere.
    """
    text = _MARKED_COMMAND.sub(r"\1 \2", text)
    return _COMMAND.sub(r"\1: :", text)


def compute_cells(text: str) -> int:
    """Returns the number of columns that printable text needs on a terminal.

    Wide characters need two columns, and combining characters need none.
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


type _Pattern = tuple[str, str]
"""A pattern (a path with stars), and a text such as `48 of 51` if the pattern also matches names that are not
selected.
"""

FEW = 6
"""Largest number of outputs that are named one by one."""
MAX_PATTERNS = 8


@dataclass(slots=True)
class _Node:
    children: dict[str, "_Node"] = field(default_factory=dict[str, "_Node"])
    leaves: int = 0
    meant: int = 0


def fold_names(names: Collection[str], every: Sequence[str], *, coarse: bool = False) -> tuple[str, ...]:
    """Returns patterns that together match all of `names` and nothing else in `every`, which has the names of all
    outputs.

    A name is a path with dots. If `names` has all leaves of a subtree, its pattern is `path.*`. Numbered siblings with
    the same patterns below them share one pattern, such as `layers.{0-6}.norm`. The patterns are in the order of `every`,
    followed by the names that `every` lacks.

    coarse: a subtree also becomes one pattern if `names` has at least three quarters of its leaves; a count such as `(48
    of 51)` follows the pattern.
    """
    root, meant = _Node(), frozenset(names)
    for name in every:
        _add(root, name.split("."), is_meant=name in meant)
    known = frozenset(every)
    folded = [f"`{pattern}`{count and f' ({count})'}" for pattern, count in _fold_root(root, coarse=coarse)]
    return (*folded, *(f"`{name}`" for name in names if name not in known))


def describe_names(names: Sequence[str], every: Sequence[str]) -> str:
    """Returns a text such as "`a`, `b` and `c`", or "28 of 30 outputs" for more than FEW names.

    every: the names of all outputs.
    """
    if len(names) > FEW:
        return f"{len(names)} of {len(every)} outputs" if len(every) >= len(names) else f"{len(names)} outputs"
    quoted = [f"`{name}`" for name in names]
    if len(quoted) < 2:
        return "".join(quoted) or "no output"
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def render_patterns(names: Collection[str], every: Sequence[str]) -> str:
    """Returns the patterns of `fold_names` for these names, joined by commas.

    If there are more than MAX_PATTERNS patterns, uses those of `coarse=True`. If these are still too many, the text ends
    with the number of patterns left out, as in "`a.*`, `b` and 3 more". every: the names of all outputs.
    """
    patterns = fold_names(names, every)
    if len(patterns) > MAX_PATTERNS:
        patterns = fold_names(names, every, coarse=True)
    if len(patterns) <= MAX_PATTERNS:
        return ", ".join(patterns)
    return f"{', '.join(patterns[: MAX_PATTERNS - 1])} and {len(patterns) - MAX_PATTERNS + 1} more"


def find_layers(number: int, every: Sequence[str]) -> str:
    """Returns the name of a list among the outputs that has exactly `number` entries, such as `layers`.

    Returns "" if there is no such list. every: the names of all outputs, such as `layers.0.norm`.
    """
    members: dict[str, set[str]] = {}
    for name in every:
        parts = name.split(".")
        for place, part in enumerate(parts[1:], start=1):
            if part.isdecimal() and not parts[place - 1].isdecimal():
                members.setdefault(".".join(parts[:place]), set()).add(part)
    for path, entries in members.items():
        if len(entries) == number:
            return path.rpartition(".")[2]
    return ""


def _add(node: _Node, parts: Sequence[str], *, is_meant: bool) -> None:
    for part in (*parts, None):
        node.leaves += 1
        node.meant += is_meant
        if part is not None:
            node = node.children.setdefault(part, _Node())


def _fold_root(root: _Node, *, coarse: bool) -> tuple[_Pattern, ...]:
    """Returns the patterns of the root's children, since the root itself has no name."""
    return tuple(
        (_join(part, pattern), count)
        for part, child in root.children.items()
        for pattern, count in _fold(child, coarse=coarse)
    )


def _fold(node: _Node, *, coarse: bool) -> tuple[_Pattern, ...]:
    """Returns the patterns for the selected leaves below a node, as paths that start at the node; the empty pattern is
    the node itself.
    """
    if not node.meant:
        return ()
    if not node.children:
        return (("", ""),)
    if node.meant == node.leaves and node.leaves > 1:
        return (("*", ""),)
    if coarse and node.leaves > 1 and 4 * node.meant >= 3 * node.leaves:
        return (("*", f"{node.meant} of {node.leaves}"),)
    folded: list[_Pattern] = []
    numbered: dict[tuple[_Pattern, ...], list[str]] = {}
    for part, child in node.children.items():
        patterns = _fold(child, coarse=coarse)
        if part.isdecimal() and patterns:
            numbered.setdefault(patterns, []).append(part)
        else:
            folded += [(_join(part, pattern), count) for pattern, count in patterns]
    total = sum(part.isdecimal() for part in node.children)
    for patterns, parts in numbered.items():
        folded += [(_join(_name_numbers(parts, total), pattern), count) for pattern, count in patterns]
    return tuple(folded)


def _name_numbers(parts: Sequence[str], total: int) -> str:
    if len(parts) == 1:
        return parts[0]
    if len(parts) == total:
        return "*"
    numbers = sorted(int(part) for part in parts)
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    return "{" + ",".join("-".join(map(str, part)) for part in ranges) + "}"


def _join(part: str, pattern: str) -> str:
    return f"{part}.{pattern}" if pattern else part


def order_names(names: Collection[str], every: Mapping[str, object]) -> tuple[str, ...]:
    """Returns each name once, in the order of the keys of `every`. Names that are no keys come last."""
    place = {name: number for number, name in enumerate(every)}
    return tuple(sorted(dict.fromkeys(names), key=lambda name: place.get(name, len(place))))


_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def render_bytes(size: int) -> str:
    """Returns the size as text, such as `24.0 MiB` or `96 bytes`."""
    if size == 1:
        return "1 byte"
    power = find_unit(size)
    return f"{render_in_unit(size, power)} {_UNITS[power]}"


def find_unit(size: int) -> int:
    """Returns the power of 1024 that is the unit for a size.

    In this unit, the size has at most three digits before the point.
    """
    power = 0
    while power < len(_UNITS) - 1 and round(abs(size) / 1024**power, 1) >= 1000:
        power += 1
    return power


def render_in_unit(size: int, power: int) -> str:
    """Returns the size in the unit 1024 ** `power` as text, without the unit's name."""
    return f"{size / 1024**power:.1f}" if power else str(size)
