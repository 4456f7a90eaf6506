"""Real compiles by other versions of JAX and Triton.

Their environments take a gigabyte or more each, so a test runs only if its environment is already in the cache, or if
LIGERDIAG_TEST_TOOLCHAINS=create allows creating it.
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ligerdiag.api import CheckOptions, check, diagnose_toolchain
from ligerdiag.api.catalogue import PROBE, StepState
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.cases import device_queries
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import Status
from ligerdiag.toolchains.environments import has_environment, locate_environment
from ligerdiag.toolchains.gpu_targets import list_targets
from ligerdiag.toolchains.toolchain_table import find_spec, known_toolchains

CASES = Path(__file__).parents[2] / "cases"
STALE = Verdict.STALE


def require(name: str, *, may_create: bool = True) -> None:
    directory = locate_environment(find_spec(name), Cache())
    may_create = may_create and os.environ.get("LIGERDIAG_TEST_TOOLCHAINS") == "create"
    if not has_environment(directory) and not may_create:
        pytest.skip(f"`{directory}` is not there; LIGERDIAG_TEST_TOOLCHAINS=create makes it")


IMPORTS = """
import importlib.metadata, runpy, sys
allowed, owners = set(sys.argv[1].split()), importlib.metadata.packages_distributions()

class OnlyThese:
    def find_spec(self, name, path=None, target=None):
        own = owners.get(name.partition(".")[0], [])
        if own and not allowed & {one.lower().replace("_", "-") for one in own}:
            raise ModuleNotFoundError(f"no toolchain has `{name}`")

sys.meta_path.insert(0, OnlyThese())
import jax, jax_triton
sys.modules["jax.extend.ffi"] = jax.ffi  # its place before JAX 0.5
for name in sys.argv[2].split():
    delattr(jax, name)
    sys.modules[f"jax.{name}"] = None
for module in ("ligerdiag.compile.compile_worker", "ligerdiag.effects.effects_worker"):
    runpy.run_module(module)["prepare"]()
"""


LATER = "export ffi get_abstract_mesh memory new_ref reshard set_mesh shard_map typeof"
"""Names in `jax` that its release 0.4.34 lacks; our own JAX does not need them after its import."""


def test_a_worker_imports_and_uses_nothing_at_its_start_that_some_toolchain_lacks() -> None:
    shared = set.intersection(*(set(spec.packages) for spec in known_toolchains()))
    allowed = {*shared, "ligerdiag", "jax-cuda13-plugin", "jax-cuda13-pjrt"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, " ".join(allowed), LATER], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("name", [spec.name for spec in known_toolchains()])
def test_every_toolchain_compiles_and_its_triton_understands_the_kernel(name: str) -> None:
    require(name)
    if not has_environment(locate_environment(find_spec(name), Cache())):
        from ligerdiag.api import create_toolchain

        create_toolchain(name, lambda line: None)
    status = diagnose_toolchain(name)
    assert [step.name for step in status.steps] == ["environment", "packages", "compile", "kernel"]
    assert status.state is StepState.WORKS, status.steps


def test_xla_of_2024_gets_a_description_without_the_fields_that_came_later() -> None:
    require("seed")
    row = f"{CASES / 'seed_flce.py'}::seed_flce[True-float32-True-1-4-32-16]"
    report = check(CheckOptions(selectors=(row,), targets=("h100", "v100"), toolchain="seed", replay=False))
    assert {case.status for case in report.cases} == {Status.EXPECTED}
    assert [line.split("`")[3] for line in report.dropped_fields] == ["h100", "v100"]
    for field in (
        "gpu_device_info.cuda_compute_capability.feature_extension",
        "gpu_device_info.name",
        "runtime_version",
    ):
        assert all(f"`{field}`" in line for line in report.dropped_fields)
    assert all("`gpu_device_info.core_count`" not in line for line in report.dropped_fields)


@pytest.mark.parametrize("name", [spec.name for spec in known_toolchains() if spec.fails_for])
def test_a_compiler_that_aborts_for_a_gpu_does_so_for_each_that_the_table_names(name: str) -> None:
    require(name)
    spec = find_spec(name)
    targets = [target for target in list_targets() if target.generation in ("9.0", *spec.fails_for)]
    report = check(
        CheckOptions(selectors=(str(PROBE),), targets=tuple(t.name for t in targets), toolchain=name, replay=False)
    )
    aborted = {case.target for case in report.cases if case.status is Status.ERROR}
    assert aborted == {target.name for target in targets if target.generation in spec.fails_for}
    assert all("SIGABRT" in case.error for case in report.cases if case.target in aborted)


def test_the_seed_fails_where_its_authors_say_it_does() -> None:
    require("seed")
    rows = f"{CASES / 'seed_flce.py'}", f"{CASES / 'seed_cross_entropy.py'}::seed_cross_entropy[hidden*"
    report = check(CheckOptions(selectors=rows, toolchain="seed", replay=False))
    assert report.versions["jax"] == "0.4.34"
    assert len(report.cases) == 20
    stale = {
        case.id.removeprefix("seed_flce"): [name for name, verdict in case.outputs.items() if verdict is STALE]
        for case in report.cases
    }
    assert {row: names for row, names in stale.items() if names} == {
        "[False-float32-True-1-4-32-16]": ["input"],
        "[False-bfloat16-True-1-4-32-16]": ["input"],
        "[False-float32-True-4-2048-50304-1024]": ["bias", "input"],
        "[False-bfloat16-True-4-2048-50304-1024]": ["bias", "input"],
    }
    assert {verdict for case in report.cases for verdict in case.outputs.values()} == {
        STALE,
        Verdict.FRESH,
        Verdict.LATENT,
    }
    assert {case.status for case in report.cases} == {Status.EXPECTED}


def test_the_workaround_fails_with_the_seed_s_versions_if_the_input_is_really_bf16() -> None:
    require("seed")
    row = f"{CASES / 'bf16_flce.py'}::bf16_flce[True-True-1-4-32-16]"
    (case,) = check(CheckOptions(selectors=(row,), toolchain="seed", replay=False)).cases
    assert {name for name, verdict in case.outputs.items() if verdict is not Verdict.FRESH} == {"input"}
    assert case.outputs["input"] is STALE
    assert case.status is Status.EXPECTED


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["seed", "0.6", "0.9"])
def test_a_program_over_devices_is_judged_even_if_xla_does_not_give_output_shardings(name: str) -> None:
    require(name)
    rows = tuple(f"{CASES / 'sharded_flce.py'}::sharded_flce[vocabulary-{mode}]" for mode in ("hidden", "aliased"))
    hidden, aliased = check(CheckOptions(selectors=rows, toolchain=name)).cases
    assert STALE in hidden.outputs.values()
    assert set(aliased.outputs.values()) == {Verdict.FRESH}
    for case in (hidden, aliased):
        assert case.replay is not None
        assert "this version of XLA does not report how the outputs are placed" in case.replay.reason


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["seed", "0.6"])
def test_recomputation_misses_the_dropped_kernel_with_older_versions_too(name: str) -> None:
    """JAX 0.4 splits a body with another function and ties tangents to results; before 0.7, calls of functions have no
    tag.
    """
    require(name)
    programs = CASES.parent / "tests" / "analysis" / "programs" / "checkpointed.py"
    cases = check(CheckOptions(selectors=(str(programs),), toolchain=name, replay=False)).cases
    assert {case.id: case.outputs["z"] for case in cases} == {
        "overwrites_what_is_computed_again": STALE,
        "reads_what_the_body_closes_over": STALE,
        "called_in_a_function_of_its_own": STALE,
        "overwrites_an_input": Verdict.LATENT,
        "overwrites_one_input_and_reads_another": Verdict.LATENT,
    }


def test_numbers_confirm_the_schedules_of_the_seed_s_versions() -> None:
    require("seed")
    rows = (
        f"{CASES / 'seed_flce.py'}::seed_flce[*-True-1-4-32-16]",
        f"{CASES / 'bf16_flce.py'}::bf16_flce[True-True-1-4*",
    )
    report = check(CheckOptions(selectors=rows, toolchain="seed"))
    assert len(report.cases) == 5
    for case in report.cases:
        assert case.replay is not None
        assert case.replay.state.value == "done", case.replay.reason
        assert case.disagreements == ()


def test_the_newest_jax_judges_programs_without_jax_triton() -> None:
    require("0.12")
    programs = CASES.parent / "tests" / "compile" / "programs"
    options = CheckOptions(
        selectors=(f"{CASES / 'mosaic.py'}", f"{programs / 'callbacks.py'}", f"{CASES / 'pallas_cross_entropy.py'}"),
        toolchain="0.12",
        replay=False,
    )
    report = check(options)
    assert report.versions["jax"].startswith("0.12.")
    assert [case.error for case in report.cases if case.error] == []
    found = {case.id: case.outputs for case in report.cases}
    assert found["shown_early"] == {"ordered effects": STALE, "total": Verdict.FRESH}
    assert set(found["attention"].values()) | set(found["eigenvalues"].values()) == {Verdict.FRESH}
    own = [case for case in report.cases if case.id.startswith(("pallas_cross_entropy", "mosaic"))]
    assert {case.status for case in own} == {Status.EXPECTED}


def test_under_the_newest_jax_an_argument_that_a_program_with_a_kernel_never_reads_is_dropped() -> None:
    """jax-triton's rule for dropping a call is made for the JAX before."""
    require("0.12")
    program = CASES.parent / "tests" / "compile" / "programs" / "unread_beside_a_kernel.py"
    report = check(CheckOptions(selectors=(str(program),), toolchain="0.12", replay=False))
    memories = {case.id: case.memory for case in report.cases}
    assert {name: [one.argument for one in memory.dropped] for name, memory in memories.items() if memory} == {
        "dropped": ["old"],
        "kept": [],
    }


@pytest.mark.parametrize("name", ["jax-0.7.2", "jax-0.8.2"])
def test_a_release_of_jax_compiles_for_an_absent_gpu(name: str) -> None:
    require(name)
    status = diagnose_toolchain(name)
    assert status.state is StepState.WORKS, status.steps[-1].detail


@pytest.mark.parametrize("name", ["jax-0.4.31", "jax-0.4.33"])
def test_a_release_that_accepts_no_gpu_description_is_reported(name: str) -> None:
    require(name)
    step = diagnose_toolchain(name).steps[-1]
    assert (step.name, step.state) == ("compile", StepState.BROKEN)
    assert (
        f"XLA of jax {name[4:]} does not take the description of a GPU: XlaRuntimeError: FAILED_PRECOND" in step.detail
    )


def test_a_compiled_program_does_not_report_memories_of_absent_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """JAX 0.8.2 and 0.8.3 would look for these memories."""
    pxla = importlib.import_module("jax._src.interpreters.pxla")

    def ask(executable: Any, *_: object) -> object:
        try:
            return executable.get_output_memory_kinds(), executable.name
        except NotImplementedError:
            return "hidden", executable.name

    monkeypatch.setattr(pxla, "get_out_shardings_from_executable", ask)
    device_queries._hide_memory_kinds()
    executable = SimpleNamespace(get_output_memory_kinds=lambda: [["device"]], name="jit_f")
    assert pxla.get_out_shardings_from_executable(executable, None, 1, 0) == ([["device"]], "jit_f")
    with device_queries.answer_as([object()], ""):
        assert pxla.get_out_shardings_from_executable(executable, None, 1, 0) == ("hidden", "jit_f")
