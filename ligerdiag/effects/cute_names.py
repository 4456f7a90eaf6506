"""Finds the names of the kernels in the payload of a CuTe DSL call, so that a declaration can name them.

The string `module` of the backend config is an object file of the host. Its code passes the call's buffers to the
kernels, whose machine code is among its data, beside a list of the kernels as a JSON object from their symbols. The
symbol of a kernel is `kernel_cutlass_<name>_<arguments>_<number>` unless the user gave the kernel another symbol.
"""

import re

from ligerdiag.effects.payload import parse_string_attributes
from ligerdiag.errors import ArtifactError

_LIST = re.compile(rb'\x00(\{"[\w$.]++": ?+\{[^{}\x00]*+\}(?:, ?+"[\w$.]++": ?+\{[^{}\x00]*+\})*+\})(?=\x00)', re.ASCII)
_SYMBOL = re.compile(rb'"([\w$.]++)": ?+\{', re.ASCII)
_MADE = re.compile(r"kernel_cutlass_(?P<name>\w+?)(?:_tensor\w*)?_\d+", re.ASCII)
"""A symbol that CuTe DSL made, with the name of the kernel's function before its first tensor."""
_MOST_SYMBOLS = 100


def find_cute_names(backend_config: bytes) -> str:
    """Returns the names of the kernels that the call may launch, joined by `+`; empty if they are unknown."""
    try:
        module = parse_string_attributes(backend_config).get("module", b"")
    except ArtifactError:
        return ""
    found = _LIST.search(module)
    symbols = [] if found is None else [symbol.decode("ascii") for symbol in _SYMBOL.findall(found[1])]
    if len(symbols) > _MOST_SYMBOLS:
        return ""
    return "+".join(dict.fromkeys(_shorten(symbol) for symbol in symbols))


def _shorten(symbol: str) -> str:
    made = _MADE.fullmatch(symbol)
    return made["name"] if made else symbol
