"""Compares the output of the scripts and tests of `project/` with the right one."""

import ast
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.newcomer.answers import NEWER, OLDER, REMEDY
from tests.newcomer.project_runs import Surroundings

_COUNTED = re.compile(r"^check\(\) (True|False) Counter\((\{.*\})\)$", re.MULTILINE)
_VARIANT = re.compile(r"^(\w+) +(\w+) +(.+?) +(\{.*?\}) (\{.*?\}) replay=(.+?) [\d.]+s ?(.*)$", re.MULTILINE)
_TEST = re.compile(r"^(PASSED|FAILED) tests/\w+\.py::(\S+)(.*)$", re.MULTILINE)

type Variant = tuple[str, Mapping[str, str], str]
"""Status, outputs and error."""


def count_by_donation(surroundings: Surroundings) -> dict[bool, Counter[str]]:
    """Returns, with and without donation in don.py, the number of outputs of each verdict."""
    outcome = surroundings.run("don.py")
    assert outcome.code == 0, outcome
    return {donate == "True": Counter(ast.literal_eval(found)) for donate, found in _COUNTED.findall(outcome.out)}


def run_variants(surroundings: Surroundings, modes: str, flavour: str) -> dict[str, Variant]:
    """Returns the result that mlp_variants.py prints for each mode."""
    outcome = surroundings.run("mlp_variants.py", modes, flavour)
    assert outcome.code == 0, outcome
    found = {row[1]: (row[2], ast.literal_eval(row[3]), row[6]) for row in _VARIANT.findall(outcome.out)}
    assert list(found) == modes.split(","), outcome
    return found


def run_tests(surroundings: Surroundings, *words: str) -> dict[str, tuple[str, str]]:
    """Returns, for each test, whether it passed and the end of its message."""
    outcome = surroundings.run("-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-p", "no:xdist", *words)
    found = {row[1]: (row[0], row[2]) for row in _TEST.findall(outcome.out)}
    assert found, outcome
    return found


def is_refused(said: Any, *, newer: bool) -> bool:
    """Returns whether the error names the call that this version of jax-triton does not accept, and one that all
    versions accept.
    """
    return (NEWER if newer else OLDER) in said and REMEDY in said
