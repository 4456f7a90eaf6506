"""Finds the changes around the hidden writes between two compiles of a program.

A hidden write of one compile corresponds to the write of the other compile with the same kernel, operand number and position
among the writes of that kernel and operand. The readers of a write are paired by criteria from strict to loose (`_KEYS`), in
the order of the schedule. For each criterion, readers that read on the same side of the kernel and from the same bytes are
paired first. A reader without a partner was gained or lost. A change is minor (`Drift.is_minor`) if a reader is now in
another fusion, or if only one compile has an output. A reader whose source line alone differs has not changed.

If one compile lacks a hidden write, another call of the same kernel may have taken its place: one that declares the write,
or that works out of place. The effects of the kernel calls say so. Such a call has taken it if the compile without the
hidden write has more such calls than the compile with it. Otherwise the call is gone.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath

from ligerdiag.model.findings import SourceLine, Verdict
from ligerdiag.model.schedule_view import CallState, Fate, Neighbourhood, Origin, Reader, ScheduleFacts


class ChangeKind(StrEnum):
    """The kinds of differences between two compiles of a program."""

    VERDICT = "verdict"
    OUTPUT = "output"
    """Only one of the compiles has the output."""
    KERNEL = "kernel"
    """Only one of the compiles has the hidden write, or only one schedule performs it."""
    MOVED = "moved"
    """A reader now reads on the other side of the kernel: before it instead of after it, or the reverse."""
    ORIGIN = "origin"
    """A reader now reads other bytes: the overwritten ones, a copy of them, or none because it recomputes the value."""
    GAINED = "gained"
    LOST = "lost"
    COPIED = "copied"
    """The kernel's operand is now a copy, is no longer a copy, or is copied in another way."""
    SHARED = "shared"
    """XLA now keeps other kinds of values, such as a constant, in the overwritten bytes."""
    SIZE = "size"
    """The kernel now overwrites a different number of bytes, or an array with a different shape."""
    FUSION = "fusion"
    """A reader is now in another fusion, or in none."""


class Instead(StrEnum):
    """The state of a kernel call in a compile that lacks the call's hidden write. For example, the call declares the
    write there.
    """

    DECLARED = "declared"
    """An output of the call aliases an operand."""
    OUT_OF_PLACE = "out of place"
    """The call does not overwrite the operand, and declares nothing."""
    NO_CALL = "no call"
    UNKNOWN = "unknown"
    """Only the hidden writes of the compile are known, as in a baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference between two compiles of a program, as a change from the first to the second."""

    kind: ChangeKind
    text: str
    """One clause, in lower case and without a final stop."""
    source: SourceLine | None = None
    """The source line of the reader that changed; None if it has none, or if the change is not about a reader."""
    output: str = ""
    """Name of the output that changed; empty if the change is not about an output."""

    @property
    def is_minor(self) -> bool:
        return self.kind in (ChangeKind.FUSION, ChangeKind.OUTPUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderPair:
    """One reader of an overwritten value, as it is in the first and in the second compile. `before` is None if the first
    compile lacks the reader, `after` if the second one does.
    """

    before: Reader | None
    after: Reader | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourhoodPair:
    """One hidden write as it is in the first and in the second compile, and its changes. `before` is None if the first
    compile lacks the write, `after` if the second one does.
    """

    before: Neighbourhood | None
    after: Neighbourhood | None
    readers: tuple[ReaderPair, ...]
    """The pairs of readers, in the order of the first compile's schedule; readers that only the second compile has come
    last.
    """
    changes: tuple[Drift, ...]
    instead: Instead | None = None
    """The state of the call in the compile that lacks the write; None if both have the write."""

    @property
    def title(self) -> str:
        """Returns the heading for the write, such as "`ce_kernel` operand 0". It is taken from the first compile that has
        the write.
        """
        return next(one.title for one in (self.before, self.after) if one is not None)


_KEYS: tuple[Callable[[Reader], Hashable], ...] = (
    lambda reader: (reader.op_name, reader.opcode, _name_line(reader.source)),
    lambda reader: (reader.op_name, reader.opcode),
    lambda reader: (reader.primitive, _name_line(reader.source)),
    lambda reader: (reader.primitive, reader.source.function if reader.source else ""),
    lambda reader: reader.primitive,
)
"""Functions by which the readers of two compiles are paired, from strict to loose: two readers form a pair if a
function returns equal values for them. No function uses an instruction's name or id, which differ between compiles.
"""


def compare_schedules(
    before: ScheduleFacts, after: ScheduleFacts
) -> tuple[tuple[Drift, ...], tuple[NeighbourhoodPair, ...]]:
    """Compares two compiles of a program. Returns the changes of the outputs, and a pair for each hidden write with the
    changes around it. Pairs of writes in `before` come first.
    """
    first = {_identify(one): one for one in before.neighbourhoods}
    second = {_identify(one): one for one in after.neighbourhoods}
    keys = tuple(dict.fromkeys((*first, *second)))
    cured = _find_instead([key for key in keys if key not in second], before, after)
    hidden = _find_instead([key for key in keys if key not in first], after, before)
    pairs = tuple([_pair(first.get(key), second.get(key), {**cured, **hidden}.get(key)) for key in keys])
    return tuple(_compare_outputs(before.outputs, after.outputs)), pairs


def pair_readers(before: Sequence[Reader], after: Sequence[Reader]) -> tuple[ReaderPair, ...]:
    """Pairs the readers of two compiles, by criteria from strict to loose. A reader that only one compile has is in a pair
    with None.
    """
    left, right = dict(enumerate(before)), dict(enumerate(after))
    partner: dict[int, int] = {}
    for key in _KEYS:
        for strict in (True, False):
            waiting: defaultdict[Hashable, list[int]] = defaultdict(list)
            for number, reader in right.items():
                waiting[_full_key(key, reader, strict=strict)].append(number)
            for number, reader in tuple(left.items()):
                found = waiting.get(_full_key(key, reader, strict=strict))
                if found:
                    partner[number] = found.pop(0)
                    del left[number], right[partner[number]]
    pairs = [
        ReaderPair(before=reader, after=after[partner[number]] if number in partner else None)
        for number, reader in enumerate(before)
    ]
    return (*pairs, *[ReaderPair(before=None, after=reader) for reader in right.values()])


def describe_reader(reader: Reader) -> str:
    """Returns a reader as text such as `` `dot_general` (chunks.py:56) ``."""
    place = f" ({_name_line(reader.source)})" if reader.source is not None else ""
    return f"`{reader.primitive}`{place}"


def describe_origin(origin: Origin) -> str:
    return {
        Origin.VALUE: "the overwritten bytes",
        Origin.SOURCE: "the value that the kernel's operand was copied from",
        Origin.RECOMPUTED: "a recomputed value",
    }[origin]


def _full_key(key: Callable[[Reader], Hashable], reader: Reader, *, strict: bool) -> Hashable:
    return (key(reader), reader.side, reader.origin) if strict else key(reader)


def _identify(one: Neighbourhood) -> tuple[str, int, int]:
    return one.kernel, one.operand, one.number


def _name_line(source: SourceLine | None) -> str:
    """Returns text such as `chunks.py:56`; the file has no folders, since these differ between machines."""
    return f"{PurePath(source.file).name}:{source.line}" if source is not None else ""


def _compare_outputs(before: Mapping[str, Verdict], after: Mapping[str, Verdict]) -> Iterator[Drift]:
    for name in dict.fromkeys((*before, *after)):
        one, other = before.get(name), after.get(name)
        if one is other:
            continue
        if one is None or other is None:
            text = f"the output `{name}` is {'new' if one is None else 'gone'}"
            yield Drift(kind=ChangeKind.OUTPUT, text=text, output=name)
        else:
            text = f"`{name}` was {one.value} and is {other.value}"
            yield Drift(kind=ChangeKind.VERDICT, text=text, output=name)


type _WriteKey = tuple[str, int, int]


def _find_instead(
    keys: Sequence[_WriteKey], having: ScheduleFacts, lacking: ScheduleFacts
) -> Mapping[_WriteKey, Instead]:
    """Returns, for each of the writes, the state of a call of the same kernel in the compile that lacks the write: a
    call that declares the write or works out of place, if this compile has more such calls than the other one;
    otherwise the call is gone, or unknown if one compile's kernel calls are not recorded.

    keys: hidden writes that only `having` has.
    """
    ours, theirs = having.kernel_calls, lacking.kernel_calls
    if ours is None or theirs is None:
        return dict.fromkeys(keys, Instead.UNKNOWN)
    found: dict[_WriteKey, Instead] = {}
    for kernel, operand in dict.fromkeys(key[:2] for key in keys):
        spare = Counter(_list_states(theirs, kernel, operand)) - Counter(_list_states(ours, kernel, operand))
        states = [state for state in (Instead.DECLARED, Instead.OUT_OF_PLACE) for _ in range(spare[state])]
        missing = [key for key in keys if key[:2] == (kernel, operand)]
        padded = (*states, *[Instead.NO_CALL] * len(missing))
        found |= dict(zip(missing, padded, strict=False))
    return found


def _list_states(calls: Sequence[CallState], kernel: str, operand: int) -> Iterator[Instead]:
    """Yields the state of each call of the kernel that does not hide a write of the operand."""
    for call in calls:
        if call.kernel == kernel and operand not in call.hidden:
            yield Instead.DECLARED if operand in call.declared else Instead.OUT_OF_PLACE


_CURED = {
    Instead.DECLARED: "the write is declared now: an output of the call aliases the operand",
    Instead.OUT_OF_PLACE: "the kernel works out of place now: it does not overwrite the operand",
    Instead.NO_CALL: "the call is gone",
    Instead.UNKNOWN: "the hidden write is gone",
}
_HIDDEN = {
    Instead.DECLARED: "the write was declared and is hidden now",
    Instead.OUT_OF_PLACE: "the kernel worked out of place and overwrites the operand now",
    Instead.NO_CALL: "the call is new",
    Instead.UNKNOWN: "the hidden write is new",
}


def _pair(before: Neighbourhood | None, after: Neighbourhood | None, instead: Instead | None) -> NeighbourhoodPair:
    readers = pair_readers(before.readers if before else (), after.readers if after else ())
    changes: list[Drift] = []
    if before is None or after is None:
        words = _HIDDEN if before is None else _CURED
        changes.append(Drift(kind=ChangeKind.KERNEL, text=words[instead or Instead.UNKNOWN]))
    elif before.fate is not after.fate:
        text = f"the call was {before.fate.value} and is {after.fate.value}"
        changes.append(Drift(kind=ChangeKind.KERNEL, text=text))
    elif before.fate is Fate.PERFORMED:
        changes += [change for pair in readers for change in _compare_readers(pair)]
        changes += _compare_storage(before, after)
    return NeighbourhoodPair(before=before, after=after, readers=readers, changes=tuple(changes), instead=instead)


def _compare_readers(pair: ReaderPair) -> Iterator[Drift]:
    before, after = pair.before, pair.after
    if before is None or after is None:
        reader = before or after
        assert reader is not None
        what = f"{describe_reader(reader)} reads {describe_origin(reader.origin)} {reader.side.value} the kernel"
        if before is None:
            yield Drift(kind=ChangeKind.GAINED, text=f"one more reader: {what}", source=reader.source)
        else:
            yield Drift(kind=ChangeKind.LOST, text=f"one reader fewer: {what}", source=reader.source)
        return
    name = describe_reader(after)
    if before.side is not after.side:
        text = f"{name} moved from {before.side.value} to {after.side.value} the kernel"
        yield Drift(kind=ChangeKind.MOVED, text=text, source=after.source)
    if before.origin is not after.origin:
        text = f"{name} used to read {describe_origin(before.origin)} and now reads {describe_origin(after.origin)}"
        yield Drift(kind=ChangeKind.ORIGIN, text=text, source=after.source)
    if before.within is not None and after.within is not None and before.within != after.within:
        was, now = (f"in a {within}" if within else "alone" for within in (before.within, after.within))
        text = f"{name} was {was} and is {now}"
        yield Drift(kind=ChangeKind.FUSION, text=text, source=after.source)


def _compare_storage(before: Neighbourhood, after: Neighbourhood) -> Iterator[Drift]:
    if before.copied_by != after.copied_by:
        text = f"the kernel's operand was {_describe_copy(before)} and is {_describe_copy(after)}"
        yield Drift(kind=ChangeKind.COPIED, text=text)
    gained, lost = Counter(after.shares) - Counter(before.shares), Counter(before.shares) - Counter(after.shares)
    for phrase in gained:
        yield Drift(kind=ChangeKind.SHARED, text=f"{phrase} is now in the overwritten bytes")
    for phrase in lost:
        yield Drift(kind=ChangeKind.SHARED, text=f"{phrase} is no longer in the overwritten bytes")
    if (before.shape, before.size) != (after.shape, after.size):
        text = f"the kernel used to overwrite {_describe_size(before)} and now overwrites {_describe_size(after)}"
        yield Drift(kind=ChangeKind.SIZE, text=text)


def _describe_copy(one: Neighbourhood) -> str:
    return f"a copy ({', '.join(one.copied_by)})" if one.copied_by else "no copy"


def _describe_size(one: Neighbourhood) -> str:
    return f"{one.shape} ({one.size} bytes)"
