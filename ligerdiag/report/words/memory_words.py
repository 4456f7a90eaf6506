"""Words and figures about the memory of a case, which several formats of the report share.

A size is a number of bytes on one device; as text it has a binary unit and one decimal.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10

from ligerdiag.model.findings import SourceLine
from ligerdiag.model.memory import (
    SMALLEST_BYTES,
    Copy,
    CopyCause,
    Donation,
    DroppedArgument,
    LiveValue,
    MemoryUse,
    Request,
    RequestKind,
)
from ligerdiag.model.report import CaseReport
from ligerdiag.text import count_of, find_unit, render_bytes, render_in_unit

_UNKNOWN = "unknown bytes"
_NOUNS: Mapping[RequestKind, tuple[str, str]] = {
    RequestKind.DONATION: ("donated argument", "donated arguments"),
    RequestKind.UPDATE: ("update", "updates"),
    RequestKind.CARRY: ("loop state", "loop states"),
    RequestKind.CALL: ("aliased call", "aliased calls"),
    RequestKind.BRANCH: ("branch", "branches"),
}


def render_change(first: int, second: int) -> str:
    """Returns by how much the second size is larger, such as `+8.0 MiB`, or smaller, such as `-96 bytes`.

    Empty for equal sizes.
    """
    sign = "+" if second > first else "-"
    return f"{sign}{render_bytes(abs(second - first))}" if first != second else ""


def render_milliseconds(milliseconds: float) -> str:
    """Returns a time such as `785 ms`, `1.2 ms` or `0.000039 ms`, with two significant digits and no exponent."""
    if milliseconds <= 0 or not isfinite(milliseconds):
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds:.{max(0, 1 - floor(log10(milliseconds)))}f} ms"


def name_instruction(name: str) -> str:
    """Returns the name of an instruction as in HLO text, with `%`. Empty for an empty name."""
    return f"%{name.removeprefix('%')}" if name else ""


def is_small(memory: MemoryUse) -> bool:
    """Returns whether the case needs little memory and has neither copies nor void donations.

    The report mentions such memory only with `--verbose`.
    """
    return memory.peak < SMALLEST_BYTES and not memory.copies and not list_void(memory)


def list_worst_first(cases: Sequence[CaseReport]) -> tuple[CaseReport, ...]:
    """Returns the cases whose memory is known, those that waste the most bytes first.

    Bytes are wasted by needless copies and void donations. Cases that waste equally many are sorted by their peak, the
    highest first.
    """

    def weigh(case: CaseReport) -> tuple[int, int]:
        memory = case.memory
        assert memory is not None
        copied = sum(one.total for one in memory.copies if not one.is_needed)
        return copied + sum(one.bytes for one in list_void(memory)), memory.peak

    return tuple(sorted((case for case in cases if case.memory is not None), key=weigh, reverse=True))


def list_void(memory: MemoryUse) -> tuple[Donation, ...]:
    """Returns the void donations: donated arguments whose bytes no output takes."""
    return tuple(one for one in memory.donations if one.fault is not None)


def describe_dropped(one: DroppedArgument) -> str:
    """Returns why JAX drops an argument, and whether it is donated, such as `never read` or `donated, but never read`."""
    return "donated, but never read" if one.is_donated else "never read"


def list_unmet(memory: MemoryUse) -> tuple[Request, ...]:
    """Returns the requests to work in place that XLA does not meet, because it copies something for them."""
    return tuple(one for one in memory.requests if not one.is_in_place)


def describe_memory(memory: MemoryUse) -> str:
    """Returns one line about the memory of a case.

    It has the peak, the copies, the void donations, and the evidence if everything works in place.
    """
    void = len(list_void(memory))
    parts = [
        describe_peak(memory),
        describe_copies(memory),
        *([f"{void} of {count_of(len(memory.donations), 'donation')} void"] if void else []),
        *([describe_requests(memory)] if memory.is_in_place and memory.requests else []),
    ]
    return "; ".join(parts)


def summarise_memory(cases: Sequence[CaseReport]) -> str:
    """Returns one line about the memory of all cases. Empty if no case has any.

    For a single case the line is that of `describe_memory`.
    """
    known = [case.memory for case in cases if case.memory is not None]
    if len(known) < 2:
        return "".join(describe_memory(one) for one in known)
    wasteful = sum(any(not copy.is_needed for copy in one.copies) for one in known)
    void = sum(bool(list_void(one)) for one in known)
    return "; ".join(
        (
            f"peak up to {render_bytes(max(one.peak for one in known))}",
            f"{wasteful} of {len(known)} with copies that are not needed",
            f"{void} with void donations",
        )
    )


def describe_peak(memory: MemoryUse) -> str:
    """Returns the peak with its parts, such as `peak 33.0 MiB (arguments 24.0, new outputs 8.0, temporaries 1.5)`.

    Tiny new outputs are left out, because XLA reserves some bytes for each tuple.
    """
    power = find_unit(memory.peak)
    own = memory.outputs - memory.aliased
    is_shown = own > 0 and (not power or render_in_unit(own, power) != "0.0")
    sizes = [("arguments", memory.arguments), *([("new outputs", own)] if is_shown else [])]
    sizes += [("temporaries", memory.temporaries)]
    return f"peak {render_bytes(memory.peak)} ({', '.join(f'{name} {_render_beside(n, power)}' for name, n in sizes)})"


def _render_beside(size: int, power: int) -> str:
    """Returns a size in units of 1024 ** `power` bytes, without the unit's name. A size that would read `0.0` there, or
    that is too large for that unit, has a unit of its own, with the unit's name.
    """
    text = render_in_unit(size, power)
    return "0" if not size else render_bytes(size) if text == "0.0" or find_unit(size) > power else text


def describe_copies(memory: MemoryUse) -> str:
    """Returns the total size and time of the copies, such as `copies 16.0 MiB a call, at least 0.011 ms`.

    If all copies are small, returns a text such as `no copy of 64 KiB or more`.
    """
    if not memory.copies:
        return f"no copy of {SMALLEST_BYTES // 1024} KiB or more"
    is_less = any(one.in_branch for one in memory.copies)
    is_more = any(one.trips is None for one in memory.copies)
    bound = "" if is_less == is_more else "up to " if is_less else "at least "
    least = memory.copy_milliseconds
    parts = [f"copies {bound}{render_bytes(memory.copied)} a call"]
    taken = " if all branches are taken" if is_less else ""
    parts += [] if least is None else [f"at least {render_milliseconds(least)}{taken}"]
    needed = sum(one.total for one in memory.copies if one.is_needed)
    if all(one.is_needed for one in memory.copies):
        parts.append("all needed")
    elif needed:
        parts.append(f"{render_bytes(needed)} of them needed")
    return ", ".join(parts)


def describe_requests(memory: MemoryUse) -> str:
    """Returns a text that says whether XLA meets all requests to work in place.

    An example is `all in place: 3 requests: 2 donated arguments, 1 update`.
    """
    if not memory.requests:
        return "nothing asks to work in place"
    unmet = len(list_unmet(memory))
    counted = f"{count_of(len(memory.requests), 'request')}: {_count_kinds(memory.requests)}"
    if not memory.is_in_place:
        return f"not all in place: {len(memory.requests) - unmet} of {counted}"
    return f"all in place{', except for copies that are needed' if unmet else ''}: {counted}"


def _count_kinds(requests: Sequence[Request]) -> str:
    counts = Counter(one.kind for one in requests)
    return ", ".join(f"{counts[kind]} {_NOUNS[kind][counts[kind] > 1]}" for kind in RequestKind if counts[kind])


def describe_size(copy: Copy) -> str:
    """Returns the size of a copy and how often it runs.

    Examples are `8.0 MiB`, `8.0 MiB × 12`, `8.0 MiB an iteration`, and `8.0 MiB if taken` for a copy in a branch.
    """
    times = " an iteration" if copy.trips is None else f" × {copy.trips}" if copy.trips != 1 else ""
    return f"{render_bytes(copy.bytes)}{times}{' if taken' if copy.in_branch else ''}"


def describe_way(copy: Copy) -> str:
    """Returns the source and the destination of a copy, such as ``argument `cache` → temporary memory, transposed``."""
    extra = [
        *(["transposed"] if copy.is_transposed else []),
        *(["and back unchanged"] if copy.is_round_trip else []),
    ]
    return ", ".join([f"{copy.source or _UNKNOWN} → {copy.target or _UNKNOWN}", *extra])


def describe_cause(copy: Copy) -> str:
    """Returns the cause of a copy and whether the program needs the copy, such as `not donated, not needed`."""
    cause = "cause unknown" if copy.cause is CopyCause.UNKNOWN else copy.cause.value
    return f"{cause}, {'needed' if copy.is_needed else 'not needed'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGroup:
    """The values alive at the peak that one source line of the user's program computes.

    A value without a source line has a group of its own.
    """

    line: SourceLine | None
    values: tuple[LiveValue, ...]

    @property
    def bytes(self) -> int:
        """Returns the sum of the sizes of the group's values."""
        return sum(one.bytes for one in self.values)


def group_live(memory: MemoryUse) -> tuple[LiveGroup, ...]:
    """Returns the values alive at the peak, grouped by source line, the largest group first.

    Groups below a thousandth of the peak are left out.
    """
    groups: dict[object, list[LiveValue]] = {}
    for number, value in enumerate(memory.at_peak):
        groups.setdefault(number if value.line is None else value.line, []).append(value)
    found = [LiveGroup(line=values[0].line, values=tuple(values)) for values in groups.values()]
    return tuple(sorted((one for one in found if 1000 * one.bytes >= memory.peak), key=lambda group: -group.bytes))


def describe_live(value: LiveValue) -> str:
    """Returns the kind, name and shape of a value, such as ``argument `cache` f32[2048,2048]``.

    If only the instruction of the value has a name, an example is `temporary %fusion.7 f32[65536]`.
    """
    name = "" if "`" in value.about else name_instruction(value.instruction)
    return " ".join(filter(None, (value.about, name, value.shape)))


def count_rest(memory: MemoryUse) -> int:
    """Returns the number of bytes alive at the peak that are in no group of `group_live`.

    Returns 0 if they are less than a thousandth of the peak.
    """
    rest = memory.peak - sum(group.bytes for group in group_live(memory))
    return rest if 1000 * rest >= memory.peak else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFigure:
    """A figure about memory, in bytes, for each of two compiles."""

    name: str
    """`peak`, `temporaries` or `copied` (bytes copied in one call)."""
    first: int | None
    """Bytes in the first compile; None if its memory is unknown."""
    second: int | None

    @property
    def change(self) -> int | None:
        """Returns the bytes of the second compile minus those of the first.

        None if the memory of one compile is unknown.
        """
        return None if self.first is None or self.second is None else self.second - self.first


def compare_memory(first: MemoryUse | None, second: MemoryUse | None) -> tuple[MemoryFigure, ...]:
    """Returns the memory figures of two compiles side by side. Empty if the memory of both is unknown."""
    if first is None and second is None:
        return ()
    return tuple(
        MemoryFigure(
            name=name,
            first=None if first is None else getattr(first, name),
            second=None if second is None else getattr(second, name),
        )
        for name in ("peak", "temporaries", "copied")
    )
