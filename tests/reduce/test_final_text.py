"""The file of a reduced program says what it needs and what it shows, and ends with one line on a machine without it."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from ligerdiag.errors import InputError
from ligerdiag.model.findings import Verdict
from ligerdiag.reduce.final_text import ReductionOrigin, print_file
from ligerdiag.reduce.symptom import Symptom, SymptomKind, choose_finding
from tests.reduce.test_printing import read_program
from tests.report.samples import make_finding

ORIGIN = ReductionOrigin(
    case="step",
    target="h100",
    toolchain="default",
    versions="jax 0.11.2",
    symptom=Symptom(kind=SymptomKind.FINDING, rule="LD003", kernel="rms_kernel", operand=0),
)
STALE = replace(ORIGIN.symptom, rule="LD001")
DISAGREEMENT = Symptom(kind=SymptomKind.DISAGREEMENT)
ERROR = Symptom(kind=SymptomKind.ERROR, error="x", message="x")
COPIES = Symptom(kind=SymptomKind.FINDING, rule="LD027", cause="give up the old cache")


@pytest.fixture(scope="module")
def program():
    return read_program(lambda x: x * 2.0, jnp.ones(2))


def head(program, **changes):
    return " ".join(print_file(program, replace(ORIGIN, **changes)).split('"""')[1].split())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"errors": (0.0, 0.5), "wrong": (False, True)}, "one after the other, which should fail there."),
        ({"errors": (float("nan"),), "wrong": (True,)}, "one after the other, which should fail there."),
        (
            {"errors": (float("nan"), 0.0005), "wrong": (False, True)},
            "In this schedule no output is known to be wrong: it fails only if XLA makes another one",
        ),
        (
            {"errors": (), "symptom": DISAGREEMENT},
            "one after the other.",
        ),
        (
            {"errors": (0.0,), "wrong": (False,), "symptom": STALE},
            "In this schedule no output is known to be wrong: it fails only if XLA makes another one there.",
        ),
        (
            {"errors": (0.0,), "wrong": (False,)},
            "no wrong number can be shown: the file fails only if XLA makes another schedule there.",
        ),
        ({"symptom": STALE}, "one after the other."),
        ({"symptom": ERROR}, "It only compiles the program."),
        ({"symptom": COPIES}, "It asserts that XLA adds no copy, which should fail there."),
    ],
)
def test_the_head_promises_a_failure_only_if_an_output_is_wrong(program, changes, said):
    assert said in head(program, **changes)
    assert "It needs a GPU." in head(program, **changes)


def test_without_a_gpu_the_file_ends_with_one_line(program, tmp_path: Path):
    (tmp_path / "small.py").write_text(print_file(program, ORIGIN))
    ran = subprocess.run(
        [sys.executable, "small.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (1, "this program needs a GPU\n")


def test_a_sharded_program_needs_as_many_gpus_as_its_mesh(program):
    sharded = replace(program, mesh={"x": 2, "y": 2})
    assert "It needs 4 GPUs." in head(sharded)
    assert 'if jax.default_backend() != "gpu" or jax.device_count() < 4:\n' in print_file(sharded, ORIGIN)


def test_equal_infinities_and_nans_are_no_error():
    odd = read_program(lambda x: (jnp.log(x - x), jnp.log(-1.0 - x * x), x.sum(), x > 0), jnp.ones(2))
    scope: dict[str, Any] = {"__name__": "small"}
    exec(print_file(odd, ORIGIN), scope)
    scope["main"]()


def test_a_wrong_number_of_outputs_that_are_right_by_luck_is_not_looked_for():
    """The search would try every candidate and find nothing."""
    lucky = make_finding(rule="LD003", outputs=("z",))
    outputs = {"z": Verdict.LATENT}
    assert choose_finding([lucky], outputs, name="step").is_lucky
    with pytest.raises(InputError, match="`--numbers` needs a wrong number, but LD003 is about outputs that are right"):
        choose_finding([lucky], outputs, name="step", needs_numbers=True)
