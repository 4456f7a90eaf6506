"""A bug report shows the parts of the project that the case runs, and no other."""

from pathlib import Path

import pytest

from ligerdiag.api.case_excerpt import collect_excerpt, name_program
from ligerdiag.model.findings import CallPlace, Finding, Severity, SourceLine

KERNELS = """\
import triton
import triton.language as tl
import numpy

SIZE = 8


@triton.jit
def twice(x_ptr):
    tl.store(x_ptr, 2.0)


# Calls the kernel.
def scale(x):
    return triton.call(x, kernel=twice, N=SIZE)


def unused(x):
    return numpy.sin(x)
"""
CASES = """\
import jax
from ligerdiag import Case

from package import scale
from package import kernels as k

ROWS = 4


def loss(y):
    return y.sum()


def program(x):
    y = scale(x)
    return loss(y)


def other(x):
    return k.unused(x)


"""
ONE = 'CASE = Case(name="one", function=program, args=(ROWS,))\n'
TWO = 'CASES = [\n    Case(name="one", function=program, args=(ROWS,)),\n    Case(name="two", function=other),\n]\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "package").mkdir()
    (tmp_path / "checks").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from .kernels import scale\n", encoding="utf-8")
    (tmp_path / "package" / "kernels.py").write_text(KERNELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def find(project: Path, declared: str, case_id: str = "one") -> dict[str, str]:
    path = project / "checks" / "cases.py"
    path.write_text(CASES + declared, encoding="utf-8")
    call = CallPlace(
        line=SourceLine(file=str(project / "package" / "kernels.py"), line=14),
        callers=(SourceLine(file=str(path), line=15),),
        stores=(SourceLine(file=str(project / "package" / "kernels.py"), line=10),),
    )
    finding = Finding(rule="LD001", severity=Severity.ERROR, message="", call=call)
    return {one.name: one.text for one in collect_excerpt(finding, path, case_id, (str(project),))}


def test_the_function_its_kernel_and_their_imports_are_shown(project: Path) -> None:
    parts = find(project, ONE)
    assert [*parts] == ["checks/cases.py", "package/kernels.py"]  # and not `__init__.py`, which only passes a name on
    assert parts["package/kernels.py"] == KERNELS.partition("\n\ndef unused")[0].replace("import numpy\n", "")
    own = CASES.partition("def other")[0].replace("import jax\n", "").replace("from package import kernels as k\n", "")
    assert parts["checks/cases.py"].split() == f"{own}{ONE}".split()


def test_one_case_of_a_list_is_shown_alone(project: Path) -> None:
    assert find(project, TWO)["checks/cases.py"].endswith("\n\nCase(name='one', function=program, args=(ROWS,))\n")


def test_an_attribute_of_a_module_is_followed(project: Path) -> None:
    assert "def unused" in find(project, TWO, "two")["package/kernels.py"]


def test_a_file_is_named_from_the_current_folder_or_from_its_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "checks" / "cases.py"
    assert name_program(path, (str(project),)) == "checks/cases.py"
    monkeypatch.chdir(project / "checks")
    assert name_program(path, (str(project),)) == "cases.py"
    monkeypatch.chdir(project / "package")
    assert name_program(path, (str(project),)) == "checks/cases.py"
    assert name_program(path, ()) == "cases.py"
