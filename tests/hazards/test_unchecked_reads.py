"""Reads of a kernel's own outputs at data-dependent places: without a replay nobody has checked them, and no output is
fresh.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.model.report import CaseReport

PROGRAM = '''\
"""Kernels with an output; `at` holds places in it."""

import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl

from ligerdiag import Arg, Case


@triton.jit
def load_and_store_kernel(x_ptr, at_ptr, out_ptr, N: tl.constexpr):
    n = tl.arange(0, N)
    at = tl.load(at_ptr + n)
    tl.store(out_ptr + at, tl.load(out_ptr + at) + tl.load(x_ptr + n))


@triton.jit
def swap_kernel(x_ptr, at_ptr, out_ptr, N: tl.constexpr):
    n = tl.arange(0, N)
    at = tl.load(at_ptr + n)
    before = tl.load(out_ptr + at)
    tl.store(out_ptr + n, tl.load(x_ptr + n) + before)


@triton.jit
def while_kernel(x_ptr, at_ptr, out_ptr, N: tl.constexpr):
    n = tl.arange(0, N)
    steps = tl.load(at_ptr)
    while steps > 0:
        tl.store(out_ptr + n, tl.load(out_ptr + n) + tl.load(x_ptr + n))
        steps -= 1


@triton.jit
def maybe_first_kernel(x_ptr, at_ptr, out_ptr, N: tl.constexpr):
    n = tl.arange(0, N)
    if tl.load(at_ptr) > 0:
        tl.store(out_ptr + n, tl.zeros((N,), tl.float32))
    tl.store(out_ptr + n, tl.load(out_ptr + n) * 0 + tl.load(x_ptr + n), mask=tl.load(at_ptr + n) >= 0)


@triton.jit
def written_first_kernel(x_ptr, at_ptr, out_ptr, N: tl.constexpr):
    n = tl.arange(0, N)
    tl.store(out_ptr + n, tl.load(x_ptr + n))
    tl.store(out_ptr + n, tl.load(out_ptr + n) + 1)


@triton.jit
def gather_kernel(x_ptr, at_ptr, out_ptr, N: tl.constexpr):
    n = tl.arange(0, N)
    tl.store(out_ptr + n, tl.load(x_ptr + tl.load(at_ptr + n)))


@triton.jit
def scatter_kernel(x_ptr, at_ptr, out_ptr, N: tl.constexpr):
    n = tl.arange(0, N)
    tl.store(out_ptr + n, tl.zeros((N,), tl.float32))
    tl.store(out_ptr + tl.load(at_ptr + n), tl.load(x_ptr + n))


def call(kernel, x, at):
    return jt.triton_call(x, at, kernel=kernel, {shape}=jax.ShapeDtypeStruct((32,), x.dtype), grid=(1,), N=32)


def make(name, kernel):
    def step(x, at):
        return {{"out": call(kernel, x, at), "other": x * 2, "behind": call(kernel, x, at).sum()}}

    return Case(name=name, function=step, args=(Arg(shape=(32,)), Arg(shape=(32,), dtype="int32")))


def unused(x, at):
    call(load_and_store_kernel, x, at)
    return {{"out": x + 1, "other": x * 2, "behind": x.sum()}}


CASES = (
    make("load_and_store", load_and_store_kernel),
    make("swap", swap_kernel),
    make("while", while_kernel),
    make("maybe_first", maybe_first_kernel),
    make("written_first", written_first_kernel),
    make("gather", gather_kernel),
    make("scatter", scatter_kernel),
    Case(name="unused", function=unused, args=(Arg(shape=(32,)), Arg(shape=(32,), dtype="int32"))),
    {more}
)
'''
ZEROED = """\
Case(
        name="zeroed",
        function=lambda x, at: {
            "out": (out := jt.triton_call(
                x, at, kernel=load_and_store_kernel, out_shape=jax.ShapeDtypeStruct((32,), x.dtype),
                zeroed_outputs=(0,), grid=(1,), N=32,
            )), "other": x * 2, "behind": out.sum(),
        },
        args=(Arg(shape=(32,)), Arg(shape=(32,), dtype="int32")),
    ),
"""
UNKNOWN = {"load_and_store", "swap", "while", "maybe_first"}
FRESH = {"written_first", "gather", "scatter", "zeroed", "unused"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("unlooked") / "reads.py"
    path.write_text(PROGRAM.format(shape="out_shape", more=ZEROED))
    return path


def check(path: Path, cache: Path, *, replay: bool) -> Mapping[str, CaseReport]:
    report = api.check(api.CheckOptions(selectors=(str(path),), cache_directory=cache, replay=replay))
    assert not any(case.error for case in report.cases), [case.error for case in report.cases]
    return {case.id: case for case in report.cases}


def test_without_a_replay_such_an_output_is_unknown_with_a_reason(path: Path, shared_cache: Path) -> None:
    cases = check(path, shared_cache, replay=False)
    assert cases.keys() == UNKNOWN | FRESH
    for name, case in cases.items():
        said = [note for note in case.coverage.not_covered if "no replay has run" in note]
        found = {output: verdict.value for output, verdict in case.outputs.items()}
        if name in UNKNOWN:
            assert found == {"out": "unknown", "other": "fresh", "behind": "unknown"}, name
            assert said == [
                f"whether `{name}_kernel` reads its output 0 before anything is written there depends on computed"
                " values, and no replay has run to find out"
            ]
        else:
            assert found == {"out": "fresh", "other": "fresh", "behind": "fresh"}, name
            assert not said, name


def test_with_a_replay_the_numbers_decide(path: Path, shared_cache: Path) -> None:
    cases = check(path, shared_cache, replay=True)
    for name, case in cases.items():
        assert not any("no replay has run" in note for note in case.coverage.not_covered), name
        if name in {"load_and_store", "swap"}:  # whatever is drawn
            assert "LD025" in {finding.rule for finding in case.findings}, name
            assert case.outputs["out"].value == "unknown", name
        assert name not in FRESH or case.outputs["out"].value == "fresh", (name, case.findings)


def test_the_newest_generation_gives_the_same_verdicts(plain_python: Path, tmp_path: Path) -> None:
    path = tmp_path / "reads.py"
    path.write_text(PROGRAM.format(shape="out_type", more=""))
    done = subprocess.run(
        [plain_python.parent / "ligerdiag", "check", path, "--no-replay", "--format", "json"],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    cases = {case["id"]: case["outputs"] for case in json.loads(done.stdout)["cases"]}
    assert cases.keys() == (UNKNOWN | FRESH) - {"zeroed"}
    for name, outputs in cases.items():
        assert outputs["out"] == outputs["behind"] == ("unknown" if name in UNKNOWN else "fresh"), name
