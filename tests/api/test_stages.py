"""`ligerdiag.check` of the stages of JAX: `jax.stages.Lowered` and `jax.stages.Compiled`."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import ligerdiag
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Attribution
from ligerdiag.toolchains.toolchain import current_toolchain, worker_environment
from tests.api.stablehlo_programs import (
    V,
    W,
    X,
    cosine,
    declared,
    double,
    hidden,
    lower,
    own_rule,
    recomputed,
    saved,
    scanned,
    stacked,
)

ROOT = Path(__file__).parents[2]


def test_a_lowered_program_gets_the_verdicts_of_its_function(shared_cache: Path) -> None:
    lowered = lower(hidden, X, X, w=W)
    report = ligerdiag.check(lowered, cache_directory=shared_cache)
    itself = ligerdiag.check(hidden, X, X, kwargs={"w": W}, cache_directory=shared_cache, replay=False)
    assert not report.error, report.error
    assert dict(report.outputs) == dict(itself.outputs)
    assert report.outputs["back"] is ligerdiag.Verdict.STALE
    assert report.id == "hidden"
    assert report.replay is not None
    assert (report.replay.state.value, report.disagreements) == ("done", ())
    assert {"LD001", "LD006"} <= {finding.rule for finding in report.findings}
    assert report.coverage.tags_found > 0


@pytest.mark.parametrize(
    ("function", "meant", "found"),
    [
        (recomputed, "clobbered", "unknown"),
        (saved, "fresh", "unknown"),
        (scanned, "unknown", "unknown"),
        (stacked, "clobbered", "unknown"),
        (cosine, "fresh", "fresh"),
        (own_rule, "stale", "stale"),
    ],
)
def test_a_derivative_that_may_read_what_autodiff_saved_is_unknown_in_a_lowered_program(
    function: Any, meant: str, found: str, shared_cache: Path
) -> None:
    itself = ligerdiag.check(function, V, cache_directory=shared_cache, replay=False)
    report = ligerdiag.check(lower(function, V), cache_directory=shared_cache, replay=False)
    assert (itself.outputs["1"].value, report.outputs["1"].value) == (meant, found)
    assert report.outputs["0"] is itself.outputs["0"]
    reasons = [line for line in report.coverage.not_covered if "from before or from after `double_in_place`" in line]
    assert bool(reasons) == (found == "unknown")
    assert not any("ligerdiag_barrier" in line for line in report.coverage.not_covered)


def test_numbers_say_nothing_about_an_unknown_output_of_a_lowered_program(shared_cache: Path) -> None:
    """Nobody knows whether program order is what the author means, so the numbers of program order are no measure."""
    report = ligerdiag.check(lower(saved, V), cache_directory=shared_cache)
    assert (report.outputs["0"].value, report.outputs["1"].value) == ("fresh", "unknown")
    assert report.replay is not None
    assert report.replay.outputs["0"].attribution is Attribution.FRESH
    assert report.replay.outputs["1"].attribution is Attribution.UNDECIDED
    assert report.replay.opaque is None


def test_a_lowered_program_that_declares_its_write_is_fresh_on_each_target(shared_cache: Path) -> None:
    reports = ligerdiag.check(lower(declared, X, W), target=("h100", "a100"), cache_directory=shared_cache)
    for report in reports:
        assert {verdict.value for verdict in report.outputs.values()} == {"fresh"}, report
        assert report.disagreements == ()
    assert [report.target for report in reports] == ["h100", "a100"]


def test_a_lowered_program_keeps_name_expectation_and_donations(shared_cache: Path) -> None:
    def scale(x: Any) -> Any:
        return x + 1, x.sum()

    lowered = jax.jit(scale, donate_argnums=0).trace(X).lower(lowering_platforms=("cuda",))
    report = ligerdiag.check(
        lowered, name="mine", expected="fresh", cache_directory=shared_cache, replay=False, target="h100"
    )
    assert (report.id, report.status.value) == ("mine", "as expected")
    assert report.memory is not None
    assert [request.kind.value for request in report.memory.requests] != []


def test_types_of_64_bits_need_the_setting_of_the_caller(shared_cache: Path) -> None:
    with jax.enable_x64(True):
        wide = jax.jit(double).trace(jax.ShapeDtypeStruct((4,), jnp.float64)).lower(lowering_platforms=("cuda",))
        report = ligerdiag.check(wide, cache_directory=shared_cache, replay=False)
    assert not report.error, report.error


_HOISTED = """
import jax, jax.numpy as jnp
from ligerdiag.compile.cases.stablehlo_program import take_lowered

table = jnp.arange(64.0)[::-1]
lowered = jax.jit(lambda x: x * table).trace(jax.ShapeDtypeStruct((64,), jnp.float32)).lower()
constant, drawn = take_lowered(lowered).args
print(constant.draw.data == table.tobytes(), type(drawn.draw).__name__)
"""


def test_a_constant_that_jax_makes_an_argument_keeps_its_values() -> None:
    environment = os.environ | {"JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS": "1", "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", _HOISTED], env=environment, capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["True", "Draw"], run.stderr[-1000:]


def test_a_lowered_program_that_cannot_be_checked_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"`double` is lowered for `cpu`, where no Triton kernel runs: lower it by"):
        ligerdiag.check(lower(double, X, platforms=("cpu",)))
    with pytest.raises(InputError, match="lowered for several platforms"):
        ligerdiag.check(lower(double, X, platforms=("cpu", "cuda")))
    with pytest.raises(InputError, match="for NVIDIA GPUs only: for target `mi300`, check the function that"):
        ligerdiag.check(lower(double, X), target="mi300")
    with pytest.raises(InputError, match="pass none to `check`"):
        ligerdiag.check(lower(double, X), X)


def test_a_program_with_an_ordered_effect_is_an_input_error() -> None:
    def printing(x: Any) -> Any:
        jax.debug.print("{}", x.sum(), ordered=True)
        return x * 2

    with pytest.raises(InputError, match=r"has the type `!stablehlo.token`: expected an array"):
        ligerdiag.check(lower(printing, X, platforms=("cpu",)))


def test_a_program_compiled_for_the_cpu_is_an_input_error() -> None:
    compiled = jax.jit(double).lower(X).compile()
    with pytest.raises(InputError, match=r"compiled for `cpu`, where no Triton kernel runs.*lowering_platforms"):
        ligerdiag.check(compiled)


_COMPILED = """
import os, sys
from pathlib import Path
from ligerdiag.compile.cases.plugin import prepare_plugin
prepare_plugin()
import jax
import ligerdiag
from jax.sharding import NamedSharding, PartitionSpec
from ligerdiag.compile.cases.arguments import build_mesh
from ligerdiag.compile.cases.known_fields import fit_description
from ligerdiag.compile.lowering.compile_job import _find_assembler
from ligerdiag.compile.lowering.jax_versions import assume_gpu
from ligerdiag.errors import InputError
from ligerdiag.toolchains.gpu_targets import load_target
from tests.api.stablehlo_programs import W, X, double, hidden

place = NamedSharding(build_mesh({}, fit_description(load_target("h100").description).text), PartitionSpec())
x, w = (jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=place) for one in (X, W))
os.environ["PATH"] = f"{_find_assembler() / 'bin'}:{os.environ['PATH']}"
options = {"xla_gpu_autotune_level": 0, "xla_gpu_cuda_data_dir": str(_find_assembler())}

def compile(function, *arguments, **words):
    with assume_gpu(90):
        return jax.jit(function).trace(*arguments, **words).lower(lowering_platforms=("cuda",)).compile(options)

report = ligerdiag.check(compile(hidden, x, x, w=w), cache_directory=sys.argv[1])
print(report.id, report.target, report.status.value, *(one.value for one in report.outputs.values()))
print(*(finding.rule for finding in report.findings), report.replay.state.value)
print(*report.coverage.not_covered, sep="|")
report = ligerdiag.check(compile(double, x), cache_directory=sys.argv[1])
print(report.id, report.target, report.status.value)
try:
    ligerdiag.check(compile(double, x), expected="fresh")
except InputError as error:
    print(error)
"""


def test_a_compiled_program_is_judged_as_a_dump_without_its_program(tmp_path: Path) -> None:
    environment = {**worker_environment(current_toolchain(), tmp_path), "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", _COMPILED, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=os.fspath(ROOT),
    )
    assert run.returncode == 0, run.stderr[-2000:]
    judged, found, lacks, idle, refused = run.stdout.splitlines()[-5:]
    assert judged == "hidden sm_9.0 inconclusive unknown unknown"
    assert found == "LD006 not done"
    assert "there is no module from before the optimizations" in lacks
    assert "inconsistent" not in lacks
    assert idle == "double sm_9.0 nothing to check"
    assert refused == "`expected` cannot be used with a compiled program: pass the original function instead"
