"""A wrong request gives one line that names the mistake, the right exit code, and no incomplete files."""

import json
import re
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.errors import InputError
from ligerdiag.model.report import CaseReport, Status
from tests.api.conftest import Check, RunCli

TROUBLES = """\
from ligerdiag import Arg, Case


def divide(x):
    return x / {}["no such key"]


def keep(x):
    return x + 1


CASES = (
    Case(name="raises", function=divide, args=(Arg(shape=(4,)),)),
    Case(name="uneven", function=keep, args=(Arg(shape=(12, 8), partition=("x",)),), mesh={"x": 8}),
    Case(name="axis", function=keep, args=(Arg(shape=(12, 8), partition=("y",)),), mesh={"x": 2}),
    Case(name="works", function=keep, args=(Arg(shape=(4,)),)),
)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("troubles")
    (path / "troubles.py").write_text(TROUBLES)
    return path


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def troubles(folder: Path, check: Check, own_cache: Path) -> dict[str, CaseReport]:
    return {case.id: case for case in check(folder / "troubles.py", cache=own_cache).cases}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("missing.py",), "`missing.py`"),
        (("no_such_module:CASE",), "`no_such_module"),
        (("troubles.py::wrks",), "the nearest are `works`"),
        (("troubles.py", "--target", "h1000"), "`h1000`"),
        (("troubles.py", "--target", "nowhere.pbtxt"), "`nowhere.pbtxt`"),
        ((), "no folder `cases`"),
    ],
)
def test_a_wrong_request_is_one_line_that_names_the_mistake(
    words: tuple[str, ...], said: str, folder: Path, run_cli: RunCli
) -> None:
    outcome = run_cli("check", *words, cwd=folder)
    *progress, line = outcome.err.splitlines()
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in line
    assert [other for other in progress if "discover" not in other] == []


def test_a_failing_import_is_reported_with_its_line(tmp_path: Path, check: Check) -> None:
    (tmp_path / "broken.py").write_text("\nimport no_such_package\n")
    with pytest.raises(Exception, match=r"no_such_package") as caught:
        check(tmp_path / "broken.py")
    assert "broken.py" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_expectation_that_cannot_be_parsed_is_an_input_error(tmp_path: Path, check: Check) -> None:
    (tmp_path / "odd.py").write_text(TROUBLES.replace('"works",', '"works", expected="stale",'))
    with pytest.raises(InputError, match=r"expected `fresh`, `hazard` or a mapping as expectation but got `stale`"):
        check(tmp_path / "odd.py")


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("Case(name='a', function=f, args=(X,), mesh=8)", "case.py:3: expected mesh to be a mapping .* 8 (type int)"),
        ("Case(name='a', function=f, args=(X,), mesh={'x': '8'})", "case.py:3: expected mesh to be a mapping of axis"),
        ("Case(name='a', function=f, args=X)", "case.py:3: expected args to be a tuple of arguments but got Arg("),
        ("Case(name='a', function='f', args=(X,))", "case.py:3: expected function to be a function but got 'f'"),
        (
            "Case(name='a', function=f, args=(Arg(shape='4'),))",
            "case.py:3: expected shape to be a tuple of sizes .* '4'",
        ),
        ("Case(name='a', function=f, args=(Arg(shape=(4, -1)),))", "case.py:3: expected shape to be a tuple of sizes"),
        ("Case(name='a', function=f, args=(Arg(shape=4, draw='ones'),))", "case.py:3: expected draw to be a Draw or a"),
        ("Case(name='a', function=f, args=(Arg(shape=4, draw=Draw(kind='zeross')),))", "did you mean `zeros`"),
        ("Case(name='a', function=f, args=(X,), expected='fersh')", "case.py`: case `a`: .* did you mean `fresh`"),
        (
            "Case(name='a', function=f, args=(X,), expected={'x': 'stal'})",
            "case.py`: case `a`: .* did you mean `stale`",
        ),
        (
            "__import__('os').write(2, b'no licence\\n') and __import__('os')._exit(1)",
            "case.py` does not import: it ends the process with exit code 1, as by .*, after it printed `no licence`",
        ),
        ("__import__('sys').exit(3)", "case.py` does not import: .*SystemExit: 3"),
        (  # as jax-triton says it where a kernel is lowered without a GPU
            "exec('raise RuntimeError(\"operation cuInit(device) failed\")')",
            "RuntimeError: operation cuInit(device) failed: .*pass `compute_capability=90` to `triton_call`",
        ),
    ],
)
def test_an_impossible_case_is_an_error_with_its_file_and_exit_code_2(
    case: str, said: str, tmp_path: Path, run_cli: RunCli
) -> None:
    (tmp_path / "case.py").write_text(
        f"from ligerdiag import Arg, Case, Draw\nf, X = (lambda x: x), Arg(shape=(4,))\nCASE = {case}\n"
    )
    outcome = run_cli("check", "case.py", "--no-replay", cwd=tmp_path)
    line = outcome.err.splitlines()[-1]
    assert outcome.code == 2
    assert re.search(".*".join(map(re.escape, said.split(".*"))), line), line
    assert "Traceback" not in outcome.out + outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        "(Arg(shape=4),), mesh=(8,)",
        "(jax.ShapeDtypeStruct((4,), jnp.bfloat16),)",
        "[Arg(shape=[4], dtype=jnp.float32)]",
        "(np.ones(4),)",
        "(jnp.ones(4),)",
        "(0.5,)",
    ],
)
def test_arguments_are_interpreted_as_in_check(arguments: str, tmp_path: Path, check: Check) -> None:
    (tmp_path / "case.py").write_text(
        "import jax, jax.numpy as jnp, numpy as np\nfrom ligerdiag import Arg, Case\n"
        f"CASE = Case(name='a', function=lambda x: x + 1, args={arguments})\n"
    )
    (case,) = check(tmp_path / "case.py").cases
    assert (case.status, case.error) == (Status.NOTHING, "")


@pytest.mark.parametrize(("name", "said"), [("raises", "KeyError: 'no such key'"), ("uneven", "12"), ("axis", "`y`")])
def test_a_case_that_cannot_be_traced_is_the_user_s_error(
    name: str, said: str, troubles: dict[str, CaseReport]
) -> None:
    case = troubles[name]
    assert (case.status, case.error_exit_code) == (Status.ERROR, 2)
    assert said in case.error
    assert "\n" not in case.error


def test_a_function_that_raises_is_shown_with_its_line(troubles: dict[str, CaseReport]) -> None:
    assert "troubles.py:5" in troubles["raises"].error


def test_the_other_cases_of_the_file_are_judged(troubles: dict[str, CaseReport]) -> None:
    assert troubles["works"].status is Status.NOTHING


def test_the_command_line_exits_with_2_and_shows_no_traceback(
    folder: Path, run_cli: RunCli, troubles: dict[str, CaseReport]
) -> None:
    del troubles
    outcome = run_cli("check", "troubles.py", "--format", "json", cwd=folder)
    assert outcome.code == json.loads(outcome.out)["exit_code"] == 2
    assert "Traceback" not in outcome.out + outcome.err


def test_no_incomplete_file_is_left_in_the_cache(troubles: dict[str, CaseReport], own_cache: Path) -> None:
    assert troubles
    assert list(own_cache.rglob(".tmp-*")) == []
    for directory in (own_cache / "artifacts").iterdir():
        assert (directory / "manifest.json").is_file()


@pytest.mark.skipif(
    any(Path(one).exists() for one in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")), reason="has a GPU"
)
def test_a_missing_device_is_an_input_error_before_anything_is_compiled(cache: Path) -> None:
    with pytest.raises(InputError, match="needs an NVIDIA GPU, and this machine has none"):
        api.check(api.CheckOptions(selectors=("no such case",), cache_directory=cache, device=True))


KERNEL = """\
import jax_triton
import triton
import triton.language as tl
from ligerdiag import Arg, Case


@triton.jit
def helper(x):
    return x + no_such_name


@triton.jit
def kernel(x_ptr, y_ptr, N: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, N), helper(tl.load(x_ptr + tl.arange(0, N))))


def f(x):
    return jax_triton.triton_call(x, kernel=kernel, out_shape=x, grid=1, N=256)


CASE = Case(name="a", function=f, args=(Arg(shape=256),))
"""


def test_a_kernel_that_does_not_compile_is_shown_in_triton_s_format_and_exits_with_3(
    tmp_path: Path, run_cli: RunCli
) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    outcome = run_cli("check", "kernel.py", "--no-replay", cwd=tmp_path)
    assert outcome.code == 3
    assert "kernel.py:9: CompilationError: NameError('no_such_name is not defined')" in " ".join(outcome.out.split())
    shown = [line.removeprefix("   | ") for line in outcome.out.splitlines() if line.startswith("   | ")]
    assert shown[0].endswith("kernel.py:9:16")
    assert shown[1:4] == ["def helper(x):", "    return x + no_such_name", "               ^"]
    assert "Traceback" not in outcome.out + outcome.err


@pytest.mark.parametrize(
    ("case", "selectors"),
    [
        ("Case(name='a', function=f, args=(X,), mesh=8)", ()),
        ("Case(name='a', function=f, args=(X,), mesh=8)", ("cases.mine:CASES",)),
        ("Case(name='a', function=f, args=(X,), expected='fersh')", ("cases",)),
    ],
)
def test_the_only_file_is_annotated_if_its_cases_cannot_be_read(
    case: str, selectors: tuple[str, ...], tmp_path: Path, run_cli: RunCli
) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "mine.py").write_text(
        f"from ligerdiag import Arg, Case\nf, X = (lambda x: x), Arg(shape=(4,))\nCASES = [{case}]\n"
    )
    outcome = run_cli("check", *selectors, "--no-replay", "--format", "github", "--output", "all.sarif", cwd=tmp_path)
    assert outcome.code == 2
    assert "::error file=cases/mine.py,line=3,endLine=3,title=not analysed" in outcome.out
    (result,) = json.loads((tmp_path / "all.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "cases/mine.py"


def test_a_wrong_target_is_not_the_fault_of_the_only_file(folder: Path, run_cli: RunCli) -> None:
    outcome = run_cli("check", "troubles.py", "--target", "h1000", "--format", "github", cwd=folder)
    assert "::error title=not analysed" in outcome.out
