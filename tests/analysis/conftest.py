"""Compiled programs by file."""

import pytest

from ligerdiag.inspection.compilation import inspect_artifact
from ligerdiag.model.report import Inspection
from tests.analysis import compiled
from tests.analysis.compiled import Compiler, Program

compiler = compiled.compiler
type Programs = dict[str, Program]


def inspect_all(programs: Programs) -> dict[str, Inspection]:
    """Inspects all programs again, even if they were inspected before."""
    return {name: inspect_artifact(one.artifact, effects_cache=one.effects) for name, one in programs.items()}


@pytest.fixture(scope="session")
def straight(compiler: Compiler) -> Programs:
    return compiler.compile("straight.py")


@pytest.fixture(scope="session")
def loops(compiler: Compiler) -> Programs:
    return compiler.compile("loops.py")


@pytest.fixture(scope="session")
def calls(compiler: Compiler) -> Programs:
    return compiler.compile("calls.py")


@pytest.fixture(scope="session")
def meshes(compiler: Compiler) -> Programs:
    return compiler.compile("meshes.py")
