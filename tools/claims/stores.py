"""Finds the argument that each store of printed Triton IR goes to, from its text alone.

It follows an address backwards through the first operand of each operation. It uses nothing of ligerdiag's own
analysis, because claims about that analysis depend on it. An address that is not that simple has no root, and there is
no claim about it.
"""

import re
from dataclasses import dataclass

_ARGUMENT = re.compile(r"%([\w$.-]+): (\S+)(?= \{| loc\(|[,)])")
_STORE = re.compile(r"^\s*tt\.store (%[\w$.-]+), .* : (.*?)(?: loc\(.*)?$")
_STEP = re.compile(r"^\s*(%[\w$.-]+) = tt\.(?:addptr|splat|broadcast|bitcast|expand_dims) (%[\w$.-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """An argument of the kernel that is a pointer."""

    name: str
    type: str
    index: int
    """Its number among the pointers: the launcher gives each of them the next buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A line that stores."""

    line: int
    """0-based."""
    root: int | None
    """The pointer that it goes to; None if that is not obvious."""
    address: str
    type: str
    """Type of the address."""


def list_pointers(text: str) -> list[Pointer]:
    """Returns the pointers of the only public function, in order."""
    signature = text.partition("tt.func public @")[2].partition(") attributes")[0] + ")"
    found = [(name, type_) for name, type_ in _ARGUMENT.findall(signature) if type_.startswith("!tt.ptr")]
    return [Pointer(name=name, type=type_, index=index) for index, (name, type_) in enumerate(found)]


def find_stores(text: str) -> list[Store]:
    """Returns all stores of the text, in order; without roots if names are not unique."""
    arguments = {f"%{one.name}": one.index for one in list_pointers(text)}
    source: dict[str, str] = {}
    repeated: set[str] = set()
    for line in text.split("\n"):
        step = _STEP.match(line)
        if step is not None:
            if step[1] in source:
                repeated.add(step[1])
            source[step[1]] = step[2]

    def follow(name: str) -> int | None:
        for _ in range(len(source) + 1):
            if name in arguments:
                return arguments[name]
            if name not in source or name in repeated:
                return None
            name = source[name]
        return None

    return [
        Store(line=number, root=follow(found[1]), address=found[1], type=found[2])
        for number, line in enumerate(text.split("\n"))
        if (found := _STORE.match(line)) is not None
    ]
