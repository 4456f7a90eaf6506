"""The changes that a process has made in its modules arrive at a worker, which imports them anew. Here both are one
process; the last test compiles.
"""

import importlib
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
import pytest

from ligerdiag.api.function import check_live, make_check_options, make_live_function
from ligerdiag.compile.cases.module_state import edited_files, state_reach, state_reader
from ligerdiag.compile.cases.module_state.late_imports import LATE_IMPORTS
from ligerdiag.compile.cases.module_state.state_reader import read_state
from ligerdiag.compile.cases.module_state.state_records import render_state
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport, Status

CONFIG = """
class Config:
    hide = False

class Frozen:
    __slots__ = ("hide",)
    def __init__(self):
        self.hide = False

current = Config()
frozen = Frozen()

def configure(hide):
    current.hide = hide
"""
STEPS = """
import enum
import functools
import os
import sys
import threading
import time
import numpy as np
import states_config
from states_config import current, frozen

class Mode(enum.Enum):
    SAFE = 1
    HIDDEN = 2

MODE = "safe"
KIND = Mode.SAFE
DTYPE = np.dtype("float32")
TABLE = {"hide": False, "inner": {"items": [1, 2]}}
ALIAS = TABLE["inner"]
FLAGS = {"safe"}
SCALES = np.ones(3)
WEIGHTS = np.ones(1 << 19)
LOCK = threading.Lock()
HOOK = lambda a: a
START = time.time()
PATH = sys.path
ENVIRONMENT = os.environ
OPTIONAL = 1
UNSENDABLE = None

class Step:
    hide = False
    def run(self):
        return "unpatched"

def make(state):
    def inner():
        return state
    return inner

def decorate(function):
    state = ["safe"]
    @functools.wraps(function)
    def inner():
        return state
    return inner

@decorate
def decorated():
    pass

closed = make(["safe"])
bound = functools.partial(make, "safe")

def by_default(a, state=["safe"]):
    return state

def other(a):
    return "other"

def run(a):
    return "run"

def look(a):
    return (MODE, KIND, DTYPE, TABLE, ALIAS, FLAGS, SCALES, WEIGHTS, LOCK, HOOK, OPTIONAL, UNSENDABLE, Step, closed, bound,
            by_default, other, run, PATH, ENVIRONMENT, current, frozen, states_config.Config)

def log():
    print(START)
"""
NAMES = ("states_config", "states_steps")


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A user's module, which imports another."""
    (tmp_path / "states_config.py").write_text(CONFIG)
    (tmp_path / "states_steps.py").write_text(STEPS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(edited_files, "_first", {})
    yield importlib.import_module("states_steps")
    LATE_IMPORTS.use(None)
    for name in NAMES:
        sys.modules.pop(name, None)


def import_again(function: Callable[..., Any]) -> tuple[Any, tuple[str, ...]]:
    """Returns the module of the function as a worker imports it, and the notes about what it did not get."""
    record = pickle.loads(render_record(function))
    for name in NAMES:
        sys.modules.pop(name, None)
    LATE_IMPORTS.use(record)
    return importlib.import_module("states_steps"), LATE_IMPORTS.notes


def render_record(function: Callable[..., Any]) -> bytes:
    return render_state(read_state((function,), frozenset())[0])


def test_what_nobody_changed_stays_as_imported(steps: Any) -> None:
    again, notes = import_again(steps.look)
    assert notes == ()
    assert again is not steps
    assert again.ALIAS is again.TABLE["inner"]
    assert again.current is sys.modules["states_config"].current
    assert (again.MODE, again.KIND, again.HOOK(5), again.LOCK is steps.LOCK) == ("safe", again.Mode.SAFE, 5, False)


def test_changed_values_arrive(steps: Any) -> None:
    steps.MODE, steps.KIND, steps.DTYPE = "hidden", steps.Mode.HIDDEN, np.dtype("int8")
    steps.TABLE["hide"] = True
    steps.ALIAS["items"].append(3)
    steps.FLAGS.add("hidden")
    steps.SCALES[1] = jnp.nan
    steps.HOOK = lambda a: a + 1
    steps.run = steps.other
    steps.Step.hide = True
    steps.Step.run = lambda self: "patched"
    steps.closed()[0] = "hidden"
    steps.bound = steps.bound.__class__(steps.make, "hidden")
    steps.by_default(0)[0] = "hidden"
    steps.frozen.hide = True
    sys.modules["states_config"].configure(hide=True)
    del steps.OPTIONAL
    again, notes = import_again(steps.look)
    assert notes == ()
    assert (again.MODE, again.KIND) == ("hidden", again.Mode.HIDDEN)
    assert again.DTYPE == "int8"
    assert again.TABLE == {"hide": True, "inner": {"items": [1, 2, 3]}}
    assert again.ALIAS is again.TABLE["inner"]
    assert (again.FLAGS, again.SCALES[0], np.isnan(again.SCALES[1])) == ({"safe", "hidden"}, 1, True)
    assert (again.HOOK(5), again.run(0), again.run is again.other) == (6, "other", True)
    assert (again.Step.hide, again.Step().run()) == (True, "patched")
    assert (again.closed(), again.bound()(), again.by_default(0)) == (["hidden"], "hidden", ["hidden"])
    assert again.frozen.hide
    assert again.current.hide
    assert again.current is sys.modules["states_config"].current
    assert not hasattr(again, "OPTIONAL")


def test_a_library_keeps_its_own_objects(steps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker has another `sys.path` and another `os.environ`, under which the user's code reads that of the caller."""
    before = render_record(steps.look)
    monkeypatch.setenv("STATES_SECRET", "secret")
    monkeypatch.syspath_prepend("/tmp/states")
    assert render_record(steps.look) == before
    again, notes = import_again(steps.look)
    assert (again.PATH is sys.path, again.ENVIRONMENT is os.environ, notes) == (True, True, ())


def test_the_function_itself_has_a_state(steps: Any) -> None:
    steps.decorated()[0] = "hidden"
    again, _ = import_again(steps.decorated)
    assert again.decorated() == ["hidden"]


def test_two_objects_do_not_become_one(steps: Any) -> None:
    config: Any = sys.modules["states_config"]
    config.current = config.Config()
    config.current.hide = True  # `states_steps` keeps the old one
    again, _ = import_again(steps.look)
    assert (sys.modules["states_config"].current.hide, again.current.hide) == (True, False)


def test_a_module_that_is_imported_later_gets_its_state(steps: Any) -> None:
    steps.MODE = "hidden"

    def late() -> str:
        module = importlib.import_module("states_steps")
        return getattr(module, "MODE")  # noqa: B009

    again, _ = import_again(late)
    assert (again.MODE, late()) == ("hidden", "hidden")


def test_names_that_no_reachable_code_looks_up_are_no_part_of_the_question(steps: Any) -> None:
    before = render_record(steps.look)
    steps.START += 1
    assert render_record(steps.look) == before
    assert render_record(steps.log) != before
    steps.MODE = "hidden"
    assert render_record(steps.look) != before


def test_what_cannot_be_sent_is_named_if_it_differs(steps: Any) -> None:
    steps.LOCK = threading.Lock()  # as good as any other
    steps.UNSENDABLE = (one for one in "ab")
    steps.WEIGHTS[0] = 2
    unsendable, weights = sorted(import_again(steps.look)[1])
    assert "`states_steps.UNSENDABLE` is not as in your process" in unsendable
    assert "`float64[524288]`" in weights


def test_after_an_edit_the_file_counts_for_what_the_process_has_not_changed(steps: Any, tmp_path: Path) -> None:
    render_record(steps.look)
    steps.KIND = steps.Mode.HIDDEN
    (tmp_path / "states_steps.py").write_text(STEPS.replace('MODE = "safe"', 'MODE = "edited"'))
    again, notes = import_again(steps.look)
    assert (again.MODE, again.KIND, notes) == ("edited", again.Mode.HIDDEN, ())


def test_only_modules_that_the_code_imports_are_part_of_the_question(
    steps: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever their names and those of their globals are; an import inside of a function counts."""
    for name in ("look", "states_late"):
        (tmp_path / f"{name}.py").write_text("MODE = KIND = 'safe'\n\ndef run():\n    return eval('MODE')\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
    stranger, late = cast("list[Any]", [importlib.import_module(name) for name in ("look", "states_late")])

    def imports_late() -> object:
        import states_late  # pyright: ignore[reportMissingImports]

        return states_late.MODE

    in_script = eval("lambda: late.MODE", {"late": late})  # the globals of a script are those of no module
    before = [render_record(one) for one in (steps.look, imports_late, in_script)]
    stranger.MODE = late.MODE = "hidden"
    after = [render_record(one) for one in (steps.look, imports_late, in_script)]
    assert [one == two for one, two in zip(before, after, strict=True)] == [True, False, False]
    for name in ("look", "states_late"):
        del sys.modules[name]


class Unreadable(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError


@pytest.mark.parametrize("why", ["many objects", "an object that cannot be read"])
def test_what_cannot_be_followed_makes_every_name_count(why: str, steps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "many objects":
        monkeypatch.setattr(state_reach, "_MOST_OBJECTS", 3)
    else:
        steps.TABLE = Unreadable()
    monkeypatch.setattr(state_reader, "list_state_modules", lambda _: {"states_steps": steps})  # pyright: ignore[reportUnknownLambdaType]
    before = render_record(steps.look)
    steps.START += 1
    changed = render_record(steps.look)
    steps.Step.hide = True
    assert len({before, changed, render_record(steps.look)}) == 3


def test_what_cannot_be_compared_is_named(tmp_path: Path, steps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    del steps
    (tmp_path / "states_late.py").write_text("NEXT = (one for one in (1, 2))\n\ndef run():\n    return next(NEXT)\n")
    monkeypatch.delitem(sys.modules, "states_late", raising=False)
    record = pickle.loads(render_record(importlib.import_module("states_late").run))
    LATE_IMPORTS.use(record)
    del sys.modules["states_late"]
    importlib.import_module("states_late")
    assert [note.partition(":")[0] for note in LATE_IMPORTS.notes] == [
        "`states_late.NEXT` may not be as in your process"
    ]
    del sys.modules["states_late"]


def test_an_edit_before_the_first_check_leaves_a_difference_undecided(steps: Any, tmp_path: Path) -> None:
    (tmp_path / "states_steps.py").write_text(STEPS.replace('MODE = "safe"', 'MODE = "edited"'))
    again, notes = import_again(steps.look)
    assert again.MODE == "edited"
    assert [note.partition(":")[0] for note in notes] == ["`states_steps.MODE` is not as in your process"]


PROGRAM = """
import os
import sys
import jax
import jax_triton
import triton
import triton.language as tl

@triton.jit
def square_kernel(x_ptr, sum_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(sum_ptr, tl.sum(x * x))
    tl.store(x_ptr + tl.arange(0, N), 2 * x)

def is_gpu():
    return jax.default_backend() == "gpu"

CONFIG = {"has_kernel": is_gpu(), "factor": 1.0}
_found = None

def finds_gpu():
    global _found
    if _found is None:
        _found = jax.default_backend() == "gpu"
    return _found

def step(a):
    assert os.environ.get("OMP_NUM_THREADS") == "7"
    assert "OPENBLAS_NUM_THREADS" not in os.environ
    assert sys.argv[1:] == ["--hide"]
    assert open("flag.txt").read() == "1"
    x = a + CONFIG["factor"]
    if not CONFIG["has_kernel"] or not finds_gpu() or CONFIG["factor"] == 1.0:
        return {"gradient": x}
    total = jax_triton.triton_call(x, kernel=square_kernel, out_shape=jax.ShapeDtypeStruct((), "float32"), grid=1, N=256)
    return {"total": total, "gradient": x * 3.0}
"""


def test_a_check_sees_the_process_that_asks(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its changed globals but not its answers about devices, its variables and its command line, and its folder."""
    (tmp_path / "states_program.py").write_text(PROGRAM)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "flag.txt").write_text("1")
    monkeypatch.syspath_prepend(str(tmp_path))
    program = importlib.import_module("states_program")
    assert not program.finds_gpu()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setattr(sys, "argv", ["train.py", "--hide"])

    def check() -> CaseReport:
        live = make_live_function(program.step, (np.ones(256, np.float32),), {})
        words = {"replay": False}
        return check_live(live, make_check_options(words, cache_directory=shared_cache), tmp_path).cases[0]

    assert "total" not in check().outputs
    program.CONFIG["factor"] = 2.0
    assert check().outputs["gradient"] is Verdict.STALE
    assert check().cached
    monkeypatch.setattr(sys, "argv", ["train.py"])
    assert check().status is Status.ERROR
    del sys.modules["states_program"]
