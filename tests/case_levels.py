"""Splits the repository's cases into those checked every day and those checked only in the nightly run.

Every day: one case of each kind from each file, of some files in turns (tests/rotation.py). The others differ from these
in a size, a sum, a type or a remedy, and take three fifths of the total time. docs/measurements/2026-11-24-tests.md lists
the mutations of ligerdiag that only they notice.
"""

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase

import cases
from tests.rotation import case_waits, current_turn

SMALL, LARGE = "1-4-32-16", "4-2048-50304-1024"
"""Shapes of a fused linear cross entropy: microbatches, tokens, vocabulary and embedding."""

_NIGHTLY = (
    "*-False-1-4-32-16]",  # without bias: the same program minus one sum
    f"*-{LARGE}]",
    "flce_modes[*-bfloat16-*",
    "seed_flce[True-bfloat16-*",
    "seed_cross_entropy[*-50304-*",
    "seed_cross_entropy[*-0.5]",
    "sharded_flce[*-2]",  # two devices instead of four
    "sharded_flce[batch-*",
    "chunked_flce[*-three]",
    "llama_step[*",
    "mosaic[attention*",
    "rms_norm[after-*",
    "moved_ref[output]",
    "pallas_cross_entropy[gradient-*",
    "pallas_cross_entropy[bfloat16-*",
    "saved_residual[tanh-*",
    "shared_bytes[pieces-2]",
    "shared_bytes[one_alias]",
    "saved_residual[softmax-perplexity-*",
    "cross_entropy_modes[rows-*",
    "*[trivial*",
    "*-trivial*",
    "*[barrier*",
    "*-barrier*",
    "*[out_of_place*",
    "*-out_of_place*",
)
_DAILY = (
    f"seed_flce[False-float32-True-{LARGE}]",
    f"flce_modes[hidden-float32-True-{LARGE}]",
    f"flce_modes[out_of_place-float32-True-{LARGE}]",
    f"flce_modes[*-float32-True-{SMALL}]",
    "sharded_flce[batch-hidden]",
    "sharded_flce[batch-trivial]",
    "sharded_flce[vocabulary-trivial]",
    "sharded_flce[vocabulary-barrier]",
    "sharded_flce[fsdp-trivial]",
    "sharded_flce[fsdp-barrier]",
    "chunked_flce[hidden-three]",
    "rope[trivial]",
    "geglu[trivial]",
    "barrier_copy[*",
    "partial_write[*",
    "permuted_rows[*",
    "saved_residual[tanh-perplexity-hidden]",
    "saved_residual[softmax-perplexity-hidden]",
    "pallas_cross_entropy[gradient-hidden]",
)
"""Exceptions from `_NIGHTLY`."""


def list_case_ids() -> tuple[str, ...]:
    """Returns the ids of all cases, file by file."""
    modules = sorted(module.name for module in pkgutil.iter_modules(cases.__path__, "cases."))
    return tuple(case.id for name in modules for case in importlib.import_module(name).CASES)


def list_due(case_ids: Iterable[str] | None = None) -> tuple[str, ...]:
    """Returns the daily cases, without those that wait for their turn (tests/rotation.py); by default of all cases."""
    numbers = Counter[str]()
    due: list[str] = []
    for case_id in filter(runs_daily, list_case_ids() if case_ids is None else case_ids):
        name = case_id.partition("[")[0]
        if not case_waits(case_id, numbers[name], current_turn()):
            due.append(case_id)
        numbers[name] += 1
    return tuple(due)


def runs_daily(case_id: str) -> bool:
    """Returns whether the case is also checked every day."""
    return _meets(case_id, _DAILY) or not _meets(case_id, _NIGHTLY)


def _meets(case_id: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(case_id, pattern.replace("[", "[[]")) for pattern in patterns)
