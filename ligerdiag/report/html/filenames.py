"""Names of the report's files: safe on every file system, unique in one report, the same in every run."""

import re
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

from ligerdiag.report.model import CaseReport

INDEX = "index.html"
MAX_READABLE = 80
"""Characters of a name that say which case it is; the digest behind them makes it unique."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


def compute_file_names(cases: Sequence[CaseReport]) -> tuple[str, ...]:
    """Returns one name a case, such as `seed_flce-False-float32.h100.1b2c3d4e.html`.

    Two entries with the same id and target, from two files, are told apart by their order.
    """
    met = Counter[tuple[str, str, str]]()
    names: list[str] = []
    for case in cases:
        key = (case.id, case.target, case.toolchain)
        names.append(_compute_name(case, (*key, str(met[key]))))
        met[key] += 1
    return tuple(names)


def _compute_name(case: CaseReport, identity: tuple[str, ...]) -> str:
    digest = sha256("\0".join(identity).encode("utf-8", "backslashreplace")).hexdigest()[:8]
    readable = _UNSAFE.sub("-", case.id).strip("-")[:MAX_READABLE] or "case"
    target = _UNSAFE.sub("-", case.target).strip("-")[:20] or "target"
    return f"{readable}.{target}.{digest}.html"
