"""The reduced programs that tests/gpu runs are as short as a bug report needs them, and stand alone."""

import ast

import pytest

from tests.gpu.test_reduced import DEVICES, FILES


@pytest.mark.parametrize("name", DEVICES)
def test_a_reduced_program_is_short_and_stands_alone(name):
    text = (FILES / f"{name}.py").read_text()
    (program,) = [one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef) and one.name == "program"]
    assert program.end_lineno - program.lineno + 1 <= 12
    modules = {line.split()[1].split(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert modules <= {"jax", "jax_triton", "numpy", "triton"}
