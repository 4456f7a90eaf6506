"""A copy for a reader inside of a fusion has the line and the name of that reader, and not those of the fusion's root."""

import inspect
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.memory import Copy
from tests.memory import fused_reads

FILE = Path(fused_reads.__file__)
READERS = {"first_of_four": "tanh", "into_a_sum": "tanh", "in_the_middle": "mul", "with_the_new_one": "mul"}


@pytest.fixture(scope="module")
def copies(shared_cache: Path) -> dict[str, tuple[Copy, ...]]:
    report = api.check(api.CheckOptions(selectors=(str(FILE),), cache_directory=shared_cache, replay=False))
    return {case.id: case.memory.copies for case in report.cases if case.memory is not None}


def find_reader(name: str) -> int:
    lines, start = inspect.getsourcelines(getattr(fused_reads, name))
    return next(start + number for number, line in enumerate(lines) if "# reads" in line)


@pytest.mark.parametrize("name", READERS)
def test_a_copy_has_the_line_of_the_operation_that_reads_the_old_value(
    copies: dict[str, tuple[Copy, ...]], name: str
) -> None:
    assert copies[name]
    assert {one.line.line for one in copies[name] if one.line is not None} == {find_reader(name)}


@pytest.mark.parametrize("name", READERS)
def test_the_reason_names_the_operation_that_reads(copies: dict[str, tuple[Copy, ...]], name: str) -> None:
    assert all(one.why.startswith(f"`{READERS[name]}` reads the old value of argument `x`") for one in copies[name])
