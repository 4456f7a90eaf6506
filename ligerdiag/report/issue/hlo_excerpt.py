"""Cuts out of a schedule the lines that a bug report is about: the call, the value that it overwrites, and the readers, in
the order of the schedule, each with its bytes in XLA's buffer assignment.

The excerpt has every instruction that the finding names. As far as its limit of lines allows, it also has the bodies of
the fusions among them, and the instructions that lead from the readers to a wrong output.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ligerdiag.model.findings import Finding
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, MutatedBuffer, Place, ReadKind, ScheduleView

MOST_LINES = 25
"""The most lines that an excerpt may have, headers of computations and ellipses included."""
_MOST_CHARACTERS = 200
"""The most characters that the excerpt shows of one instruction; a longer instruction is cut at its end."""
_FEW_FUSED = 6
"""The excerpt shows the inside of a fusion with at most this many instructions, and of a larger one
only if the finding names one of them."""
_NAME = re.compile(r"%([A-Za-z0-9_][\w.$\-]*)")
_DEFINED = re.compile(r"\s*(?:ROOT )?%(\S+) = ")
_CALLED = re.compile(r"(?:calls|to_apply|body|condition)=%([\w.$\-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Module:
    """The lines of a module, and where in them a name is defined."""

    lines: Sequence[str]
    defined: Mapping[str, int]
    """Maps the name of an instruction to the index of its line."""
    homes: Sequence[int]
    """For each line, the index of the line that begins its computation; -1 for a line outside of a computation."""
    computations: Mapping[str, int]
    """Maps the name of a computation to the index of its header."""
    comments: Mapping[str, str]
    """Maps the name of an instruction to what the excerpt says about it: its part in the finding, and its bytes."""


def render_excerpt(view: ScheduleView, finding: Finding) -> tuple[str, ...]:
    """Returns the lines of the excerpt, at most `MOST_LINES`.

    Empty if the module has none of the instructions that the finding names.
    """
    module = _index_lines(view.text, _list_comments(view, finding))
    chosen: set[int] = set()
    for names in (*_name_involved(finding), *_rank_others(view, finding, module)):
        wanted = chosen | {module.defined[name] for name in names if name in module.defined}
        if len(_compose(wanted, module)) <= MOST_LINES:
            chosen = wanted
    return tuple(_compose(chosen, module))


def _list_comments(view: ScheduleView, finding: Finding) -> Mapping[str, str]:
    names = {step.id: step.name.removeprefix("%") for step in view.steps}
    said: dict[str, list[str]] = {}
    writes = {(one.buffer, one.step) for one in view.accesses if one.kind is AccessKind.HIDDEN_WRITE}
    definitions = {(one.buffer, one.step) for one in view.accesses if one.kind is AccessKind.DEFINE}
    for access in view.accesses:
        if access.kind is AccessKind.READ and (access.buffer, access.step) in writes:
            continue  # the call itself
        buffer = view.buffers[access.buffer]
        role = _describe_role(access, buffer, makes_operand=(access.buffer, access.step) in definitions)
        if role and (buffer.kernel, buffer.operand) == (finding.kernel, finding.operand) and access.step in names:
            said.setdefault(names[access.step], []).append(role)
    for name, places in view.places.items():
        said.setdefault(name, []).extend(
            f"{f'{one.index} ' if one.index else ''}allocation {one.allocation}, offset {one.offset}, size {one.size}"
            for one in places
        )
    return {name: "; ".join(dict.fromkeys(words)) for name, words in said.items()}


_READS = {
    ReadKind.FRESH: "reads the new contents",
    ReadKind.ORIGINAL: "reads the old contents, as it should",
    ReadKind.LATENT: "reads it; nothing orders it with the call",
    ReadKind.STALE: "READS THE OLD CONTENTS",
    ReadKind.CLOBBERED: "READS THE NEW CONTENTS",
    ReadKind.UNKNOWN: "reads it",
}
"""Maps each kind of read to the comment on its line; wrong ones stand out."""
_COMPUTES = {
    ReadKind.ORIGINAL: "computes the old contents again, as it should",
    ReadKind.STALE: "COMPUTES THE OLD CONTENTS AGAIN",
    ReadKind.UNKNOWN: "perhaps computes it again",
}
"""The same for an instruction that reads the value from no bytes."""
_COMPUTES_MORE = {
    ReadKind.ORIGINAL: "computes a result from the old contents, as it should",
    ReadKind.STALE: "COMPUTES A RESULT FROM THE OLD CONTENTS",
    ReadKind.UNKNOWN: "perhaps computes a result from it",
}
"""The same for the instruction that computes the operand of the call, and with it another result."""


def _describe_role(access: BufferAccess, buffer: MutatedBuffer, *, makes_operand: bool) -> str:
    """Returns the part of an instruction in the finding; empty for one that only puts another value into the same bytes.

    makes_operand: whether the instruction computes the value that is overwritten.
    """
    match access.kind:
        case AccessKind.DEFINE:
            return "the value that is overwritten"
        case AccessKind.HIDDEN_WRITE:
            return f"OVERWRITES OPERAND {buffer.operand}"
        case _ if access.place is Place.RECOMPUTED:
            computes = _COMPUTES_MORE if makes_operand else _COMPUTES
            return computes.get(access.read, _READS.get(access.read, ""))
        case _:
            return _READS.get(access.read, "")


def _index_lines(lines: Sequence[str], comments: Mapping[str, str]) -> _Module:
    defined: dict[str, int] = {}
    computations: dict[str, int] = {}
    homes: list[int] = []
    home = -1
    for number, line in enumerate(lines):
        if found := _DEFINED.match(line):
            defined.setdefault(found[1], number)
        elif line.endswith("{"):
            home = number
            if name := _NAME.search(line):
                computations[name[1]] = number
        homes.append(home)
        if line == "}":
            home = -1
    return _Module(lines=lines, defined=defined, homes=homes, computations=computations, comments=comments)


def _name_involved(finding: Finding) -> list[Sequence[str]]:
    """Returns a group of one name for each instruction that the finding names, the call first."""
    parts = (finding, *finding.parts)
    said = [text for part in parts for _, text in part.evidence]
    named = [name.rstrip(".") for text in said for name in _NAME.findall(text)]
    return [(name,) for name in dict.fromkeys((*(name for part in parts for name in part.instructions), *named))]


def _rank_others(view: ScheduleView, finding: Finding, module: _Module) -> Iterator[Sequence[str]]:
    """Yields groups of names of other instructions, the most important first; a group is shown as a whole or not at all."""
    shown = dict.fromkeys(name for (name,) in _name_involved(finding) if name in module.defined)
    steps = {step.id: step.name.removeprefix("%") for step in view.steps}
    for access in view.accesses if shown else ():
        buffer = view.buffers[access.buffer]
        is_about_it = (buffer.kernel, buffer.operand) == (finding.kernel, finding.operand)
        if access.kind is AccessKind.DEFINE and is_about_it and access.step in steps:
            yield (steps[access.step],)
    for name in shown:
        for inner in _list_inner(name, module):
            if len(inner) <= _FEW_FUSED or not shown.keys().isdisjoint(inner):
                yield inner
    for name in shown:  # a call inside of a fusion: the instruction that runs it
        yield from _list_callers(name, module)
    for output in view.outputs if shown else ():
        if output.name in finding.outputs:
            for step in output.path:
                yield (steps.get(step, ""),)


def _list_inner(name: str, module: _Module) -> Iterator[Sequence[str]]:
    """Yields the names of the instructions that a fusion or a loop consists of, as one group for each computation."""
    line = module.lines[module.defined[name]] if name in module.defined else ""
    for called in _CALLED.findall(line):
        home = module.computations.get(called)
        if home is not None and " fusion(" in line:
            yield [inner for inner, at in module.defined.items() if module.homes[at] == home]


def _list_callers(name: str, module: _Module) -> Iterator[Sequence[str]]:
    home = module.homes[module.defined[name]] if name in module.defined else -1
    for called, header in module.computations.items():
        if header == home:
            called_there = re.compile(rf"=%{re.escape(called)}(?![\w.$\-])")
            yield from ((one,) for one, at in module.defined.items() if called_there.search(module.lines[at]))


def _compose(chosen: set[int], module: _Module) -> list[str]:
    found: list[str] = []
    for home in sorted({module.homes[number] for number in chosen}):
        inside = sorted(one for one in chosen if module.homes[one] == home)
        found += [_cut(module.lines[home])] if home >= 0 else []
        last = home if home >= 0 else inside[0] - 1
        for number in inside:
            if number > last + 1:
                found.append("  ...")
            name = _DEFINED.match(module.lines[number])
            comment = module.comments.get(name[1], "") if name else ""
            found.append(_cut(module.lines[number]) + (f"  // {comment}" if comment else ""))
            last = number
        if home >= 0:
            is_last = last + 1 >= len(module.lines) or module.lines[last + 1] == "}"
            found += ["}"] if is_last else ["  ...", "}"]
    return found


def _cut(line: str) -> str:
    return line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 4] + " ..."
