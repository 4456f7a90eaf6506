"""A NaN in the intended program is reported once, with the operation that produced it first."""

from pathlib import Path

import pytest

from ligerdiag.model.findings import Attribution
from tests.api.conftest import Check, RunCli

PROGRAM = """\
import jax.numpy as jnp
from ligerdiag import Arg, Case, Draw


def f(x, at):
    kept = jnp.where(x > 0, x, 0.0)
    made = BODY
    return {"kept": kept, "one": made * 2.0, "two": made + 1.0}


AT = Arg(shape=2, dtype="int32", draw=Draw(kind="randint", low=6, high=7))
CASE = Case(name="nan", function=f, args=(Arg(shape=8), AT))
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("jnp.sqrt(x)", "makes its first NaN in `%sqrt"),
        ("jnp.log(x) - jnp.exp(x)", "makes its first NaN in `%log"),
        ("kept.at[at * 2].get(mode='fill')", "(select) at"),
    ],
)
def test_the_first_operation_that_produces_a_nan_is_named_with_its_line(
    body: str, said: str, tmp_path: Path, check: Check, run_cli: RunCli
) -> None:
    (tmp_path / "nan.py").write_text(PROGRAM.replace("BODY", body))
    replay = check(tmp_path / "nan.py", replay=True).cases[0].replay
    assert replay is not None
    assert [one.attribution for one in replay.outputs.values()].count(Attribution.UNDECIDED) == 2
    assert said in replay.reason
    assert "nan.py:7" in replay.reason
    assert run_cli("check", "nan.py", cwd=tmp_path).out.count("undecided by replay:") == 1


def test_a_program_without_nan_has_no_such_note(tmp_path: Path, check: Check) -> None:
    (tmp_path / "nan.py").write_text(PROGRAM.replace("BODY", "kept[at]"))
    replay = check(tmp_path / "nan.py", replay=True).cases[0].replay
    assert replay is not None
    assert replay.reason == ""
