"""Real compiles for AMD GPUs that are only described, by the toolchain `rocm`.

Its environment takes two gigabytes, so the tests run only if it is in the cache, see `test_other_toolchains`.
"""

import subprocess
from pathlib import Path

import pytest

from ligerdiag.api import CheckOptions, check
from ligerdiag.artifacts.cache import Cache
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CheckReport, Status
from ligerdiag.report.json import render_json
from ligerdiag.toolchains.environments import locate_environment
from ligerdiag.toolchains.gpu_targets import list_targets
from ligerdiag.toolchains.rocm_libraries import FOLDER, load_libraries
from ligerdiag.toolchains.toolchain import Platform
from ligerdiag.toolchains.toolchain_table import find_spec
from tests.compile.test_other_toolchains import CASES, require

AMD = tuple(target.name for target in list_targets() if target.platform is Platform.ROCM)
SEED = f"{CASES / 'seed_flce.py'}::seed_flce[False-float32-True-1-4-32-16]"
LOAD = """
import ctypes, glob, os, sys
for library in sys.argv[1].split():
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
site = glob.glob(os.path.join(sys.prefix, "lib", "python3*", "site-packages"))[0]
for name in ("jax_plugins/xla_rocm7/xla_rocm_plugin.so",):
    ctypes.CDLL(os.path.join(site, name), mode=os.RTLD_NOW)
print("loaded")
"""


@pytest.fixture
def environment() -> Path:
    """The toolchain's environment."""
    require("rocm", may_create=False)
    return locate_environment(find_spec("rocm"), Cache())


def judge(*selectors: str, targets: tuple[str, ...] = ("mi300",), replay: bool = True) -> CheckReport:
    return check(CheckOptions(selectors=selectors, targets=targets, replay=replay))


def test_the_libraries_have_every_symbol_that_the_plugin_asks_for(environment: Path) -> None:
    names = " ".join(str(environment / FOLDER / library.soname) for library in load_libraries())
    command = [str(environment / "bin" / "python"), "-c", LOAD, names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("loaded\n", 0), done.stderr[-1000:]


@pytest.mark.nightly
def test_the_program_of_our_report_to_jax_triton_ends_as_the_report_says(environment: Path, tmp_path: Path) -> None:
    program = CASES.parent / "docs" / "reports" / "jax_triton_hip_metadata.py"
    command = [str(environment / "bin" / "python"), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stderr.splitlines()[-1] == "KeyError: 'num_ctas'"


@pytest.mark.usefixtures("environment")
def test_a_kernel_of_jax_triton_is_judged_for_each_amd_gpu_and_replay_agrees() -> None:
    report = judge(SEED, targets=AMD)
    assert report.toolchain == "rocm"
    assert {case.target: case.error for case in report.cases if case.error} == {}
    for case in report.cases:
        latent = {name for name, verdict in case.outputs.items() if verdict is Verdict.LATENT}
        assert latent == {"bias", "input", "weight"}, case.target
        assert {finding.rule for finding in case.findings} == {"LD003", "LD006"}
        assert case.replay is not None
        assert (case.replay.state.value, case.disagreements) == ("done", ())
    assert report.notes[0].startswith("no AMD GPU has confirmed a verdict of ligerdiag: for `mi200`, `mi300`")
    assert report.notes[0] in render_json(report)


@pytest.mark.nightly
@pytest.mark.usefixtures("environment")
def test_a_kernel_of_pallas_is_judged_and_replay_computes_amd_s_functions() -> None:
    report = judge(f"{CASES / 'pallas_cross_entropy.py'}")
    assert [case.error for case in report.cases if case.error] == []
    assert {case.status for case in report.cases} == {Status.EXPECTED}
    for case in report.cases:
        assert case.replay is not None
        assert case.replay.state.value == "done", case.replay.reason
        assert case.disagreements == ()


@pytest.mark.nightly
@pytest.mark.usefixtures("environment")
def test_a_stale_read_is_found_for_an_amd_gpu_too(tmp_path: Path) -> None:
    (tmp_path / "gradient.py").write_text(GRADIENT)
    (case,) = judge(str(tmp_path / "gradient.py"), targets=("mi300",)).cases
    assert case.outputs == {"total": Verdict.FRESH, "gradient": Verdict.STALE}
    assert {"LD002", "LD006"} <= {finding.rule for finding in case.findings}
    assert case.disagreements == ()


@pytest.mark.nightly
@pytest.mark.usefixtures("environment")
def test_a_program_over_two_devices_is_judged() -> None:
    row = f"{CASES / 'sharded_flce.py'}::sharded_flce[vocabulary-aliased]"
    (case,) = judge(row).cases
    assert set(case.outputs.values()) == {Verdict.FRESH}
    assert case.disagreements == ()


@pytest.mark.usefixtures("environment")
def test_the_toolchain_for_amd_does_not_compile_for_nvidia() -> None:
    report = check(CheckOptions(selectors=(SEED,), targets=("h100",), toolchain="rocm", replay=False))
    (case,) = report.cases
    assert "is a GPU of NVIDIA: it needs a toolchain for CUDA, such as `--toolchain default`" in case.error


GRADIENT = """
import jax
import jax_triton
import triton
import triton.language as tl
from ligerdiag import Arg, Case

@triton.jit
def square_kernel(x_ptr, sum_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr, tl.sum(x * x))
    tl.store(x_ptr + at, 2 * x)

def loss(a):
    x = a + 1.0
    total = jax_triton.triton_call(x, kernel=square_kernel, out_type=jax.ShapeDtypeStruct((), "float32"), grid=1, N=256)
    return {"total": total, "gradient": x * 3.0}

CASES = (Case(name="gradient", function=loss, args=(Arg(shape=(256,)),)),)
"""
