"""A failing case affects no other case, and reports the reason in one line."""

from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import CompileResult, compile_cases, discover_cases
from ligerdiag.errors import CaseError, CompileError, InputError, LigerdiagError
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import LOG_LINES, Pool, render_tail

PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT = 8.0
"""Seconds for the case that hangs. The others have as long as a busy machine needs."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("troubles"))


@pytest.fixture(scope="module")
def results(cache: Cache) -> dict[str, CompileResult]:
    target, found = load_target("h100"), list[CompileResult]()
    with Pool(cache=cache, jobs=2, timeout=600) as pool, Pool(cache=cache, jobs=1, timeout=TIMEOUT) as hasty:
        cases = discover_cases(["troubles.py"], pool=pool, directory=PROGRAMS)
        found += compile_cases([case for case in cases if case.id != "hang"], [target], pool=pool)
        found += compile_cases([case for case in cases if case.id == "hang"], [target], pool=hasty)
    return {result.case.id: result for result in found}


def error_of(results: dict[str, CompileResult], case_id: str) -> LigerdiagError:
    error = results[case_id].error
    assert error is not None
    assert results[case_id].artifact is None
    assert "\n" not in str(error)
    return error


def test_the_case_without_trouble_is_compiled(results: dict[str, CompileResult]) -> None:
    assert results["keep"].error is None
    assert results["keep"].artifact is not None


def test_an_abort_is_reported_with_the_tail_of_the_log(results: dict[str, CompileResult]) -> None:
    error = error_of(results, "abort")
    assert isinstance(error, CompileError)
    assert str(error) == "the worker for case `abort` was aborted by signal 6 (SIGABRT)"
    assert "about to abort" in error.log_tail


def test_a_hanging_case_is_ended(results: dict[str, CompileResult]) -> None:
    error = error_of(results, "hang")
    assert isinstance(error, CompileError)
    assert str(error) == "the worker for case `hang` did not answer within 8 s and was ended"
    assert "about to hang" in error.log_tail
    assert results["hang"].seconds >= TIMEOUT


def test_an_exception_is_reported_with_the_user_s_line(results: dict[str, CompileResult]) -> None:
    error = error_of(results, "fail")
    line = (PROGRAMS / "troubles.py").read_text().splitlines().index('    return {}["missing"]') + 1
    assert isinstance(error, CaseError)
    assert str(error) == (f"the function of case `fail` raises: {PROGRAMS / 'troubles.py'}:{line}: KeyError: 'missing'")


def test_an_exception_group_is_reported_with_its_parts(results: dict[str, CompileResult]) -> None:
    said = str(error_of(results, "fail_twice"))
    assert said.endswith(
        "ExceptionGroup: two things (2 sub-exceptions): ValueError: the first · KeyError: 'the second'"
    )


def test_running_out_of_memory_fails_only_its_case(results: dict[str, CompileResult]) -> None:
    assert "MemoryError" in str(error_of(results, "run_out_of_memory"))


@pytest.mark.parametrize(
    ("case_id", "message"),
    [
        ("axis", "array 0 of case `axis` is split over the unknown mesh axis `y`: the mesh has `x`"),
        ("indivisible", "dimension 0 of array 0 of case `indivisible` is 12 and cannot be split over 8 devices"),
        ("devices", "expected a mesh of at most 512 devices but got 1024"),
        ("dtype", "expected a dtype for array 0 of case `dtype` but got `float31`"),
        ("double", "`float64` for array 0 of case `double` needs JAX_ENABLE_X64=1"),
        (
            "text",
            "expected arrays and numbers in argument `x` of `text` but got 'fast' (type=str): bind it to the function,"
            " as in `functools.partial(function, name=value)`",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_an_input_error(
    results: dict[str, CompileResult], case_id: str, message: str
) -> None:
    error = error_of(results, case_id)
    assert isinstance(error, InputError)
    assert str(error) == message


def test_a_mesh_of_two_axes_compiles(results: dict[str, CompileResult]) -> None:
    artifact = results["mesh"].artifact
    assert artifact is not None
    assert (artifact.provenance.mesh, artifact.provenance.devices) == ({"x": 2, "y": 4}, 8)


def test_nothing_half_written_stays_in_the_cache(results: dict[str, CompileResult], cache: Cache) -> None:
    assert results
    kept = {result.artifact.directory.name for result in results.values() if result.artifact}
    assert {path.name for path in cache.artifacts.iterdir()} == kept


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("import nowhere_at_all\nCASE = 1\n", CaseError, r"mine.py:1: ModuleNotFoundError: No module named"),
        ("CASE = (\n", CaseError, r"mine.py:1: SyntaxError: '\(' was never closed"),
        ("VALUE = 1\n", InputError, "defines neither CASE nor CASES"),
        ("CASE = 1\n", InputError, "expected a Case in .* but got a int"),
        ("import os\nos.abort()\n", CompileError, r"the worker for .*mine.py` was aborted by signal 6"),
    ],
)
def test_a_file_without_a_case_is_an_error_with_the_reason(
    pool: Pool, tmp_path: Path, text: str, kind: type[LigerdiagError], message: str
) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(kind, match=message) as caught:
        discover_cases(["mine.py"], pool=pool, directory=tmp_path)
    assert "\n" not in str(caught.value)


def test_two_cases_with_the_same_id_are_an_input_error(pool: Pool, tmp_path: Path) -> None:
    text = "from ligerdiag import Case\nCASES = tuple(Case(name='a', function=abs, args=()) for _ in range(2))\n"
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(InputError, match="defines the case `a` twice"):
        discover_cases(["mine.py"], pool=pool, directory=tmp_path)


def test_a_missing_module_is_an_input_error(pool: Pool, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot find the module `nowhere\.cases` from"):
        discover_cases(["nowhere.cases:CASES"], pool=pool, directory=tmp_path)


def test_the_log_tail_shows_why_xla_ended_the_process_without_its_stack_trace() -> None:
    stack = [f"    @     0x7faf5ed{number:05x}  xla::Compile()" for number in range(40)]
    fatal = "F1124 15:38:20.229211   14452 triton_tiling_propagation.cc:698] Check failed: it != end() "
    log = ["W1124 of before", fatal, "*** Check failure stack trace: ***", *stack, "Fatal Python error: Aborted"]
    assert render_tail("\n".join(log)).splitlines() == ["W1124 of before", fatal, "Fatal Python error: Aborted"]
    assert render_tail("\n".join(stack)).splitlines() == stack[-LOG_LINES:]
