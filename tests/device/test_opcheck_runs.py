"""`ligerdiag.opcheck` runs handlers of XLA's FFI, which really read and write their buffers, on the CPU."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import ligerdiag
from ligerdiag import OpcheckReport
from ligerdiag.model.opcheck_report import ProblemKind

COMPILER = next((found for name in ("c++", "g++", "clang++") if (found := shutil.which(name))), None)
SIZE = 64
PROGRAM = '''\
import ctypes

import jax
from jax.extend.core import Primitive
from jax.interpreters import mlir

LIBRARY = ctypes.CDLL({library!r})
for name in {names!r}:
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(LIBRARY, name)), platform="cpu")


def call(name, *operands, **keywords):
    return jax.ffi.ffi_call(f"lone_{{name}}", jax.ShapeDtypeStruct(operands[0].shape, "float32"), **keywords)(*operands)


def alone(x, y, index):
    """Each call gets an operand of its own."""
    return (
        call("double", x),
        call("overwrite", x + 1),
        call("clear_half", x + 2),
        call("copy_half", x),
        call("add_first", x, y),
        call("ignore", x, y),
        call("overread", x),
        call("accumulate", x),
        call("gather", x, index),
    )


def stated(x):
    return call("overwrite", x + 1), call("double", x)


def aliased(x):
    return call("overwrite", x, input_output_aliases={{0: 0}}) + call("clear_half", x + 1, input_output_aliases={{0: 0}})


def chain(x):
    doubled = call("double", x)
    call("double", doubled)
    return call("overwrite", doubled) + doubled


def loop(x):
    counted, _ = jax.lax.scan(lambda c, _: (call("double", c), None), x, None, length=3)
    halved = jax.lax.while_loop(lambda c: c[0] > 100, lambda c: call("clear_half", c) / 2, counted)
    return jax.lax.cond(halved[0] > 0, lambda v: jax.jit(lambda w: call("overwrite", w))(v), lambda v: v, halved)


def overrun(x):
    return call("overrun", x)


def refused(x):
    return call("refuse", x), call("double", x)


def unreadable(x):
    return call("double", x), jax.ffi.ffi_call("lone_missing", jax.ShapeDtypeStruct(x.shape, "float32"))(x)


def never_reached(x):
    return jax.lax.cond(x[0] > 0, lambda v: v, lambda v: call("double", v), x)


@jax.custom_vjp
def doubled(x):
    return x * 2


def forward(x):
    call("double", x)
    return x * 2, None


doubled.defvjp(forward, lambda residual, change: (change * 2,))


def dropped_in_trace(x):
    """JAX leaves the call out of the program while it traces the derivative of the rematerialised function."""
    return jax.grad(lambda v: jax.checkpoint(doubled)(v).sum())(x)


@jax.custom_vjp
def kept(x):
    return x * 2


kept.defvjp(lambda x: (x * 2, call("double", x)), lambda residual, change: (change * residual,))


def rematerialised(x):
    return jax.grad(lambda v: jax.checkpoint(kept)(v).sum())(x)


def sorted_index(x, index):
    return call("sorted", x, index)


def nothing(x):
    return x + 1


# like the primitive of cuTile, which has no implementation outside of a `jit`, and stands in a `jit` of the library
tile_p = Primitive("cutile_call_ffi")
tile_p.multiple_results = True
tile_p.def_abstract_eval(lambda x: [x])
lowering = mlir.lower_fun(lambda x: [call("overwrite", x)], multiple_results=True)
mlir.register_lowering(tile_p, lowering, platform="cpu")
tile = jax.jit(lambda x: tile_p.bind(x)[0])


def of_library(x):
    return call("double", tile(x + 1))


def unused_of_library(x):
    tile(x + 1)
    return x + 2
'''
NAMES = ("double", "overwrite", "clear_half", "copy_half", "add_first", "ignore", "overrun", "overread")
NAMES += ("accumulate", "gather", "sorted", "refuse")
NOTHING = {f"lone_{name}": {"writes": []} for name in (*NAMES, "missing")}
type Check = Any

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on PATH to build the FFI handlers with")


@pytest.fixture(scope="module")
def handlers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Builds the handlers, and returns a module that calls them."""
    folder = tmp_path_factory.mktemp("lone")
    library = folder / "lone_handlers.so"
    source = Path(__file__).with_name("lone_handlers.cc")
    include = f"-I{jax.ffi.include_dir()}"
    command = [COMPILER or "", "-std=c++17", "-w", "-shared", "-fPIC", include, str(source), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    text = PROGRAM.format(library=str(library), names=tuple(f"lone_{name}" for name in NAMES))
    (folder / "lone_program.py").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        import lone_program  # pyright: ignore[reportMissingImports]

        yield lone_program


@pytest.fixture(scope="module")
def check(handlers: Any, tmp_path_factory: pytest.TempPathFactory) -> Check:
    """Returns a function that checks one function of the program, on the CPU."""
    cache = tmp_path_factory.mktemp("cache")

    def check(name: str, *operands: Any, **words: Any) -> OpcheckReport:
        return ligerdiag.opcheck(getattr(handlers, name), *operands, device="cpu", cache_directory=cache, **words)

    return check


@pytest.fixture(scope="module")
def report(check: Check) -> OpcheckReport:
    """Returns the report on `alone`, with effects that declare a write for nobody."""
    index = np.arange(SIZE, dtype=np.int32)[::-1].copy()
    return check("alone", make_floats(), make_floats(3), index, effects=NOTHING)


def make_floats(start: float = 1, size: int = SIZE) -> Any:
    return np.arange(size, dtype=np.float32) + np.float32(start)


def list_kinds(report: OpcheckReport, name: str = "") -> list[ProblemKind]:
    """Returns the kinds of the problems of one handler, or of all."""
    return [problem.kind for problem in report.problems if name in ("", problem.kernel.removeprefix("lone_"))]


def read_runs(report: OpcheckReport, name: str) -> list[str]:
    """Returns what the runs showed of each buffer of the only call of a handler."""
    (call,) = [call for call in report.calls if call.kernel == f"lone_{name}"]
    return [row.seen for row in call.rows]


@pytest.mark.parametrize(
    ("name", "kinds", "runs"),
    [
        ("double", [], ["read", "all written"]),
        ("overwrite", [ProblemKind.UNDECLARED_WRITE], ["read, wrote 64 of 64", "all written"]),
        ("clear_half", [ProblemKind.UNDECLARED_WRITE], ["read, wrote 32 of 64", "all written"]),
        ("copy_half", [ProblemKind.UNWRITTEN_OUTPUT], ["read", "wrote 32 of 64"]),
        ("add_first", [], ["read", "read", "all written"]),
        ("ignore", [], ["read", "not seen to be read", "all written"]),
        ("overread", [ProblemKind.OUTSIDE], ["read", "all written"]),
        ("accumulate", [ProblemKind.OLD_OUTPUT], ["read", "all written"]),
        ("gather", [], ["read", "read", "all written"]),
    ],
)
def test_runs_show_what_a_handler_reads_and_writes(
    report: OpcheckReport, name: str, kinds: list[ProblemKind], runs: list[str]
) -> None:
    assert list_kinds(report, name) == kinds, report
    assert read_runs(report, name) == runs


def test_a_report_with_a_problem_raises(report: OpcheckReport) -> None:
    assert not report.ok
    assert report.device == "cpu"
    with pytest.raises(
        AssertionError, match=r"error\[undeclared write\]: `lone_overwrite` writes operand 0, `f32\[64\]`"
    ):
        report.raise_if_wrong()


def test_a_stated_write_is_no_problem_and_code_that_nobody_read_is_not_covered(check: Check) -> None:
    report = check("stated", make_floats(), effects={"lone_overwrite": {"writes": [0]}})
    assert list_kinds(report) == []
    assert not report.ok
    (line,) = report.not_covered
    assert line.startswith("whether `lone_double` writes operand 0: the effects of custom-call target")


def test_a_declared_write_is_seen_through_the_copy_that_xla_makes(check: Check) -> None:
    report = check("aliased", make_floats())
    assert read_runs(report, "overwrite") == ["read, wrote 64 of 64", ""]
    assert read_runs(report, "clear_half") == ["not seen to be read, wrote 32 of 64", ""]
    assert [line for line in report.notes if "guard bytes" in line] == [
        f"operand 0 of `lone_{name}` had no guard bytes: writes beside it would not be seen"
        for name in ("overwrite", "clear_half")
    ]
    assert report.ok, report


def test_a_chain_tries_each_call_on_what_the_one_before_left(check: Check) -> None:
    report = check("chain", make_floats(), effects={"lone_*": {"writes": "aliased"}})
    assert list_kinds(report) == [ProblemKind.DROPPED, ProblemKind.UNDECLARED_WRITE]
    assert len(report.calls) == 3


def test_calls_in_loops_branches_and_inner_functions_are_tried(check: Check) -> None:
    report = check("loop", make_floats())
    assert read_runs(report, "double") == ["read", "all written"]
    assert read_runs(report, "overwrite") == ["read, wrote 64 of 64", "all written"]
    (note,) = [line for line in report.notes if "clear_half" in line and "not observed" in line]
    assert note.endswith("the program does not reach the call with these arguments")


def test_a_call_of_a_library_s_own_primitive_is_found_and_the_program_goes_on(check: Check) -> None:
    report = check("of_library", make_floats())
    assert [call.kernel for call in report.calls] == ["lone_overwrite", "lone_double"]
    assert list_kinds(report) == [ProblemKind.UNDECLARED_WRITE]
    assert read_runs(report, "overwrite") == ["read, wrote 64 of 64", "all written"]
    assert read_runs(report, "double") == ["read", "all written"]


def test_a_call_whose_jit_has_no_used_output_is_dropped(check: Check) -> None:
    report = check("unused_of_library", make_floats(), effects=NOTHING)
    assert list_kinds(report, "overwrite") == [ProblemKind.UNDECLARED_WRITE, ProblemKind.DROPPED]


def test_a_write_beside_an_operand_is_seen(check: Check) -> None:
    report = check("overrun", make_floats(size=60), effects={"lone_overrun": {"writes": []}})
    assert list_kinds(report) == [ProblemKind.OUTSIDE]
    assert "4 guard bytes beside the operand changed" in str(report)


def test_integers_keep_their_values_if_others_make_the_call_fail(check: Check) -> None:
    index = np.arange(SIZE, dtype=np.int32)
    report = check("sorted_index", make_floats(), index, effects={"lone_sorted": {"writes": []}})
    assert read_runs(report, "sorted") == ["read", "reads not tested", "all written"]
    assert report.notes == ("operands with integers kept their values, because a run with other integers failed",)
    assert report.ok, report


def test_a_call_that_fails_with_its_own_operands_is_not_covered(check: Check) -> None:
    report = check("refused", make_floats(), effects=NOTHING)
    assert (report.ok, report.problems, report.device) == (False, (), "")
    (refused, double) = report.not_covered
    assert refused.startswith("`lone_refuse` was not observed in a run: a run of the call by itself failed")
    assert double.startswith("`lone_double` was not observed in a run: the program failed before it reached the call")
    assert report.notes[0] == "operands with integers kept their values, because a first run failed"


def test_a_call_that_cannot_be_compiled_is_not_tried_twice(check: Check) -> None:
    report = check("unreadable", make_floats(), effects=NOTHING)
    assert report.device == "cpu"
    assert not any("kept their values" in line for line in report.notes)
    assert report.notes[0].startswith(
        "`lone_missing` was not observed in a run: the call could not be compiled by itself"
    )
    assert read_runs(report, "double") == ["read", "all written"]


def test_a_report_names_no_device_if_the_program_reaches_no_call(check: Check) -> None:
    report = check("never_reached", make_floats(), effects=NOTHING)
    assert (report.ok, report.device) == (True, "")
    assert "code read, no call run" in str(report)


def test_a_call_that_jax_drops_while_it_traces_is_found(check: Check) -> None:
    report = check("dropped_in_trace", make_floats(), effects=NOTHING)
    assert list_kinds(report, "double") == [ProblemKind.DROPPED]
    assert (len(report.calls), report.device) == (1, "")
    assert "`lone_double` was not observed in a run: JAX drops it before the program runs" in report.notes


def test_a_call_that_a_derivative_makes_again_is_not_dropped(check: Check) -> None:
    report = check("rematerialised", make_floats(), effects=NOTHING)
    assert (list_kinds(report), [call.kernel for call in report.calls]) == ([], ["lone_double"])


def test_a_function_without_a_kernel_call_is_not_ok(check: Check) -> None:
    report = check("nothing", make_floats())
    assert (report.ok, report.problems, report.calls) == (False, (), ())
    assert "makes no kernel call" in str(report)
