"""Tags: the unique numbers that the compile worker put on every StableHLO operation, in program order.

XLA carries them in `op_name`: `jit(f)/mul#ld17`; an operation of an inlined function reads `…#ld15/add#ld85`, outer
call first. The path (15, 85) therefore names one operation of one call. Where a pass made one operation of two, XLA joins
their names with a semicolon, `add#ld85;mul#ld84`: the first is the one whose value it computes. A semicolon or `#` of the
author's own is spelled `%3B` and `%23`. Whether tags may be believed, see `tagging`.
"""

import re
from functools import lru_cache

type TagPath = tuple[int, ...]
"""Numbers of the calls that lead to the operation, outermost first, and last its own; () when untagged."""

_TAG = re.compile(r"#ld(\d{1,18})(?!\d)")


@lru_cache(maxsize=1 << 16)
def parse_tag_path(op_name: str) -> TagPath:
    """(15, 85) for `jit(f)/call#ld15/add#ld85`; () for a name without tags."""
    if "#ld" not in op_name:
        return ()
    return tuple([int(number) for number in _TAG.findall(op_name.partition(";")[0])])


def strip_tags(op_name: str) -> str:
    """JAX's name stack of the operation whose value it is, without tags and as its author spelled it."""
    return _TAG.sub("", op_name.partition(";")[0]).replace("%3B", ";").replace("%23", "#")
