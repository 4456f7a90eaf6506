"""Toolchains through `api`: the list, the diagnosis, and failing requests."""

import sys
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.api.judging import expect_of
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.cases.loader import describe_case
from ligerdiag.errors import InputError, WorkerImportError
from ligerdiag.model.case import Case
from ligerdiag.model.jobs import CaseSpec, DiscoverAnswer, DiscoverRequest, Source, make_discover_job, render_answer
from ligerdiag.model.report import CheckReport
from ligerdiag.report.terminal.spans import compute_text
from ligerdiag.report.terminal.summary import render_totals
from ligerdiag.toolchains.environments import locate_environment
from ligerdiag.toolchains.toolchain import Toolchain
from ligerdiag.toolchains.toolchain_table import find_spec
from ligerdiag.workers.templates import VARIABLE
from tests.report.samples import make_case


def test_only_the_default_toolchain_exists_at_first(tmp_path: Path) -> None:
    statuses = {status.name: status for status in api.list_toolchains(tmp_path)}
    assert list(statuses) == ["default", "seed", "0.6", "0.9", "0.10", "0.11", "0.12", "rocm"]
    assert [name for name, status in statuses.items() if status.state.value == "works"] == ["default"]
    seed = statuses["seed"]
    assert (seed.state.value, seed.steps[0].detail) == (
        "missing",
        "not created yet: `ligerdiag toolchains create seed`",
    )
    assert seed.versions["jax"] == "0.4.34"
    assert Path(seed.directory).parent == tmp_path / "toolchains"


def test_a_release_of_jax_is_listed_once_it_has_been_created(tmp_path: Path) -> None:
    made = locate_environment(find_spec("jax-0.7.2"), Cache(tmp_path))
    made.mkdir(parents=True)
    statuses = api.list_toolchains(tmp_path)
    assert [status.name for status in statuses][-2:] == ["rocm", "jax-0.7.2"]
    assert (statuses[-1].versions["jax"], statuses[-1].state.value) == ("0.7.2", "broken"), "it has no interpreter"


def test_a_missing_toolchain_is_not_tried(tmp_path: Path) -> None:
    assert [step.name for step in api.diagnose_toolchain("seed", "h100", tmp_path).steps] == ["environment"]


def test_the_default_toolchain_works(tmp_path: Path) -> None:
    status = api.diagnose_toolchain("default", "h100", tmp_path)
    assert [(step.name, step.state.value) for step in status.steps] == [
        ("environment", "works"),
        ("compile", "works"),
        ("kernel", "works"),
    ], status.steps


def test_a_target_that_is_not_a_gpu_is_given_as_the_reason_for_no_compile(tmp_path: Path) -> None:
    target = tmp_path / "odd.pbtxt"
    target.write_text("gpu_device_info { cuda_compute_capability { major: 9 } no_such_field: 1 }")
    status = api.diagnose_toolchain("default", str(target), tmp_path)
    assert [(step.name, step.state.value) for step in status.steps] == [("environment", "works"), ("compile", "broken")]
    assert status.steps[-1].detail.startswith("for `odd`: ")


def test_a_device_needs_the_default_toolchain() -> None:
    with pytest.raises(InputError, match="a device runs only programs that toolchain `default` compiles, not those"):
        api.check(api.CheckOptions(device=True, toolchain="seed"))


def test_an_expectation_for_a_toolchain_replaces_the_general_one() -> None:
    source = Source(file="/f.py", root="/")
    usual = {"id": "a", "name": "a", "params": (), "source": source, "mesh": {}, "about": "", "draws": ""}
    case = CaseSpec(**usual, expected="fresh", expected_rules=("LD006",), expected_elsewhere={"old": {"x": "stale"}})  # type: ignore[arg-type]
    old = Toolchain(name="old", python="p", versions={})
    assert expect_of(case, Toolchain(name="jax-0.11.2", python="p", versions={})) is case
    expected = expect_of(case, old)
    assert (expected.expected, expected.expected_rules) == ({"x": "stale"}, None)


def test_expectations_for_toolchains_reach_the_parent_process() -> None:
    source = Source(file="/f.py", root="/")
    elsewhere = {"old": {"x": "stale"}, "older": "hazard"}
    case = Case(name="a", function=print, args=(), expected="fresh", expected_elsewhere=elsewhere)
    spec = describe_case(case, source)
    line = render_answer(DiscoverAnswer(cases=(spec,), dependencies={}))
    (parsed,) = make_discover_job(DiscoverRequest(source=source)).parse(line).cases
    assert parsed.expected_elsewhere == elsewhere


@pytest.mark.parametrize(
    ("other", "said"), [(True, "1 case on h100 by seed (jax 0.4.34, triton 3.1.0) in "), (False, "1 case on h100 in ")]
)
def test_the_last_line_names_another_toolchain(other: bool, said: str) -> None:
    versions = {"jax": "0.4.34", "triton": "3.1.0", "numpy": "1.26.4"}
    report = CheckReport(
        cases=(make_case(),), targets=("h100",), toolchain="seed", versions=versions, is_other_toolchain=other
    )
    assert compute_text(render_totals(report, None)[0]).startswith(said)


def test_a_toolchain_that_cannot_import_jax_fails_the_request_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environment has all of the pins and a Python that works, but no NumPy. Each case file would fail alike."""
    monkeypatch.delenv(VARIABLE, raising=False)
    spec, cache = find_spec("0.10"), Cache(tmp_path / "cache")
    environment = locate_environment(spec, cache)
    for name, version in spec.packages.items():
        info = environment / "lib" / f"python{spec.python}" / "site-packages" / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (environment / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    (environment / "bin").mkdir()
    (environment / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.py").write_text("from ligerdiag import Case\nCASE = Case(name='x', function=abs)\n")
    files = tuple(str(tmp_path / f"{name}.py") for name in ("one", "two", "three"))
    with pytest.raises(WorkerImportError, match=r"toolchain `0.10`.* ended with exit code 1 .*No module named"):
        api.check(api.CheckOptions(selectors=files, toolchain="0.10", cache_directory=cache.root))
