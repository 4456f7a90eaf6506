"""`ligerdiag.check` of live functions, compiled by a worker for an H100."""

import dataclasses
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ligerdiag
from ligerdiag.api import function as api_function
from ligerdiag.errors import CaseError, InputError
from ligerdiag.model.case import Arg
from ligerdiag.model.findings import ReplayState, Verdict
from ligerdiag.model.report import CaseReport, CheckReport, Status

MODES = 'MODE = "hidden"\n'
KERNELS = """
import users_modes

def add_one_in_place(x):
    import jax
    import jax_triton
    import triton_kernels_of_user as kernels
    total = jax.ShapeDtypeStruct((), x.dtype)
    call = {"kernel": kernels.add_one, "grid": 1, "N": x.shape[0]}
    if users_modes.MODE == "aliased":
        return jax_triton.triton_call(x, out_shape=(total, x), input_output_aliases={0: 1}, **call)
    return jax_triton.triton_call(x, out_shape=total, new_x_ptr=None, **call), x

def step(x, y):
    total, x = add_one_in_place(x * y)
    return {"total": total, "x": x * 2}
"""
TRITON = """
import triton
import triton.language as tl

@triton.jit
def add_one(x_ptr, total_ptr, new_x_ptr, N: tl.constexpr):
    offsets = tl.arange(0, N)
    x = tl.load(x_ptr + offsets)
    tl.store(total_ptr, tl.sum(x))
    destination = x_ptr if new_x_ptr is None else new_x_ptr
    tl.store(destination + offsets, x + 1)
"""
SCRIPT = """
import dataclasses
import json
import sys
import numpy as np
import jax
import jax_triton
import triton
import triton.language as tl
import ligerdiag

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    x: object
    name: str = dataclasses.field(metadata={"static": True})

@jax.tree_util.register_pytree_node_class
class Scale:
    def __init__(self, y):
        self.y = y
    def tree_flatten(self):
        return (self.y,), None
    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)

@triton.jit
def add_one(x_ptr, total_ptr, N: tl.constexpr):
    offsets = tl.arange(0, N)
    x = tl.load(x_ptr + offsets)
    tl.store(total_ptr, tl.sum(x))
    tl.store(x_ptr + offsets, x + 1)

def make(kernel):
    def step(state, scale):
        assert state.name == "mine"
        x = state.x * scale.y
        total = jax_triton.triton_call(
            x, kernel=kernel, out_shape=jax.ShapeDtypeStruct((), x.dtype), grid=1, N=x.shape[0]
        )
        return {"total": total, "x": x * 2}
    return step

def make_local():
    @triton.jit
    def local_add_one(x_ptr, total_ptr, N: tl.constexpr):
        offsets = tl.arange(0, N)
        x = tl.load(x_ptr + offsets)
        tl.store(total_ptr, tl.sum(x))
        tl.store(x_ptr + offsets, x + 1)
    return local_add_one

array = np.linspace(-1.0, 1.0, 8)
for kernel in (add_one, make_local()):
    report = ligerdiag.check(make(kernel), State(array, 'mine'), Scale(array), cache_directory=sys.argv[1])
    finding = report.findings[0]
    print(json.dumps({
        "outputs": dict(report.outputs), "status": report.status, "replay": report.replay.state,
        "kernel": finding.kernel, "line": finding.reader.line.line, "cached": report.cached,
    }))
"""

type CheckFunction = Callable[..., ligerdiag.CaseReport]


@pytest.fixture
def check_function(cache: Path) -> CheckFunction:
    """Checks the function, by default without a replay."""

    def check(*arguments: Any, replay: bool = False, **words: Any) -> ligerdiag.CaseReport:
        return ligerdiag.check(*arguments, replay=replay, cache_directory=cache, **words)

    return check


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A project of three modules; importing the program's module imports no framework."""
    (tmp_path / "users_modes.py").write_text(MODES)
    (tmp_path / "users_kernels.py").write_text(KERNELS)
    (tmp_path / "triton_kernels_of_user.py").write_text(TRITON)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("users_kernels")
    for name in ("users_kernels", "users_modes"):
        del sys.modules[name]


ARGS = (Arg(shape=(8,)), np.full((8,), 2.0, np.float32))


def test_a_function_gets_its_report_as_plain_data(users: Any, check_function: CheckFunction) -> None:
    report = check_function(users.step, *ARGS, replay=True)
    assert dataclasses.is_dataclass(report)
    assert (report.id, report.target, report.status) == ("step", "h100", Status.FINDINGS)
    assert report.outputs == {"total": Verdict.FRESH, "x": Verdict.STALE}
    assert report.replay is not None
    assert report.replay.state is ReplayState.DONE
    stale = report.findings[0]
    assert stale.source is not None
    assert (Path(stale.source.file).name, stale.kernel) == ("users_kernels.py", "add_one")


def test_the_second_answer_comes_from_the_cache_until_a_file_changes(
    users: Any, check_function: CheckFunction, tmp_path: Path
) -> None:
    assert check_function(users.step, *ARGS).outputs["x"] is Verdict.STALE
    assert check_function(users.step, *ARGS).cached
    (tmp_path / "users_modes.py").write_text(MODES.replace("hidden", "aliased"))
    changed = check_function(users.step, *ARGS)
    assert not changed.cached
    assert (changed.status, changed.outputs["x"]) == (Status.CLEAN, Verdict.FRESH)


def test_a_function_is_compared_with_its_expectation(users: Any, check_function: CheckFunction) -> None:
    assert check_function(users.step, *ARGS, expected="hazard").status is Status.EXPECTED
    assert check_function(users.step, *ARGS, expected="fresh").status is Status.UNEXPECTED
    named = check_function(users.step, *ARGS, expected={"x": "stale"}, name="mine", mesh={"d": 2})
    assert (named.id, named.status) == ("mine", Status.EXPECTED)


def test_a_function_that_raises_is_reported_with_its_line(check_function: CheckFunction) -> None:
    def wrong(x: Any) -> Any:
        return x @ x.reshape(3, 1, 1)

    report = check_function(wrong, np.ones(3))
    assert report.status is Status.ERROR
    assert "the function of case `wrong` raises" in report.error
    assert "test_function.py:" in report.error


def test_a_module_that_a_worker_cannot_import_is_an_error(
    users: Any, check_function: CheckFunction, tmp_path: Path
) -> None:
    (tmp_path / "users_modes.py").write_text("raise RuntimeError('not today')\n")
    with pytest.raises(CaseError, match=r"users_kernels:step` does not import: .*not today"):
        check_function(users.step, *ARGS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"target": "h900"}, "expected a target of"),
        ({"expected": "good"}, "expected `fresh`, `hazard` or a mapping"),
        ({"toolchain": "none"}, "none"),
    ],
)
def test_an_unknown_keyword_is_an_input_error(check_function: CheckFunction, words: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_function(max, Arg(shape=(2,)), Arg(shape=(2,)), **words)


def test_functions_of_a_script_without_a_main_guard_and_local_kernels_are_checked_and_replayed(
    tmp_path: Path, cache: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    for cached in (False, True):
        done = subprocess.run(
            [sys.executable, script, cache], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=600
        )
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert [answer.pop("kernel") for answer in answers] == ["add_one", "local_add_one"]
        for answer in answers:
            assert answer["outputs"] == {"total": "fresh", "x": "stale"}
            assert (answer["status"], answer["replay"], answer["cached"]) == ("findings", "done", cached)
            assert 'return {"total": total, "x": x * 2}' in SCRIPT.splitlines()[answer["line"] - 1]


def test_the_calling_process_imports_no_framework(users: Any, cache: Path, tmp_path: Path) -> None:
    assert users
    code = (
        "import sys, numpy, ligerdiag, users_kernels\n"
        "ones = numpy.ones(8, 'float32')\n"
        f"report = ligerdiag.check(users_kernels.step, ones, [1.0, ones][1], cache_directory={str(cache)!r})\n"
        "assert report.outputs['x'] == 'stale', report\n"
        "assert not {'jax', 'jaxlib', 'triton'} & set(sys.modules)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(Path(__file__).parents[2])))}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, timeout=600)


def test_a_case_file_imports_nothing_from_the_checker() -> None:
    code = (
        "import sys\nfrom ligerdiag import Arg, Case, Draw\n"
        "loaded = {name for name in sys.modules if name.startswith('ligerdiag')}\n"
        "assert loaded == {'ligerdiag', 'ligerdiag.harmless_logs', 'ligerdiag.model', 'ligerdiag.model.case'}, loaded\n"
        "import ligerdiag\nassert set(ligerdiag.__all__) <= set(dir(ligerdiag))\n"
        "assert all(getattr(ligerdiag, name) for name in ligerdiag.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
    with pytest.raises(AttributeError, match="has no attribute `chekc`"):
        ligerdiag.chekc  # type: ignore[attr-defined]  # noqa: B018


def test_ctrl_c_is_raised_in_the_caller(monkeypatch: pytest.MonkeyPatch, check_function: CheckFunction) -> None:
    def interrupt(options: Any, on_progress: Any) -> CheckReport:
        del options, on_progress
        return CheckReport(cases=(), targets=("h100",), toolchain="default", interrupted=True)

    monkeypatch.setattr(api_function, "check_cases", interrupt)
    with pytest.raises(KeyboardInterrupt):
        check_function(max, Arg(shape=(2,)))


@pytest.mark.parametrize("target", ["a100,h100", ("a100", "h100"), ["a100", "h100"]])
def test_several_targets_have_a_report_each(
    target: Any, monkeypatch: pytest.MonkeyPatch, check_function: CheckFunction
) -> None:
    def answer(options: Any, on_progress: Any) -> CheckReport:
        del on_progress
        cases = tuple(
            CaseReport(id="max", target=name, toolchain="default", status=Status.CLEAN) for name in options.targets
        )
        return CheckReport(cases=cases, targets=options.targets, toolchain="default")

    monkeypatch.setattr(api_function, "check_cases", answer)
    reports: Any = check_function(max, Arg(shape=(2,)), target=target)
    assert [report.target for report in reports] == ["a100", "h100"]
    assert [report.target for report in check_function(max, Arg(shape=(2,)), target=["b200"])] == ["b200"]
    assert check_function(max, Arg(shape=(2,)), target="b200").target == "b200"


def test_progress_is_reported_on_request(users: Any, check_function: CheckFunction) -> None:
    told: list[str] = []
    check_function(users.step, *ARGS, on_progress=lambda progress: told.append(progress.phase))
    assert told[0] == "discover"
    assert told[-1] == "compile"
