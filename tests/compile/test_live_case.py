"""A live function arrives at a worker unchanged; here the worker's side runs in this process."""

import dataclasses
import functools
import importlib
import inspect
import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import triton
import triton.language as tl
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from ligerdiag.api.function import LiveFunction, write_live_function
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile import compile_service
from ligerdiag.compile.cases import live_functions, loader
from ligerdiag.compile.cases.live_functions import read_function_file
from ligerdiag.compile.cases.loader import forget_live_case, list_live_files, load_live_case
from ligerdiag.compile.compile_service import discover_cases
from ligerdiag.errors import InputError
from ligerdiag.model.case import Arg, Case, Draw
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.workers.pool import Pool

ROOT = Path(__file__).parents[2]
MODULE = """
import functools
import jax
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr, 1.0)

@jax.custom_vjp
def derived(x):
    return x

@functools.lru_cache
def wrapped(x):
    return x + 1

step = jax.jit(lambda x: x * 2)

@jax.jit
def named(x):
    return x * 3

def uses(x):
    return kernel, derived, named, wrapped
"""

type Send = Callable[..., tuple[Case, Source]]


@pytest.fixture
def send(tmp_path: Path) -> Iterator[Send]:
    path, config = list(sys.path), jax.config.jax_enable_x64

    def send_it(function: Any, *specs: Any, root: Path = ROOT, **words: Any) -> tuple[Case, Source]:
        live = LiveFunction(function=function, specs=specs, **words)
        source = write_live_function(live, Cache(tmp_path / "cache"), root)
        return load_live_case(source), source

    yield send_it
    forget_live_case()
    sys.path[:] = path
    assert jax.config.jax_enable_x64 == config


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A user's module that workers find by name."""
    (tmp_path / "users_steps.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("users_steps")
    del sys.modules["users_steps"]


def make_scaled(scale: Any) -> Callable[[Any], Any]:
    return lambda x: x * scale


def test_a_closure_arrives_with_its_captured_values(send: Send) -> None:
    case, source = send(make_scaled(jnp.full(3, 2.0)), np.ones(3))
    assert np.asarray(case.function(np.ones(3))).tolist() == [2.0, 2.0, 2.0]
    assert (case.id, str(source)) == ("lambda", f"{__name__}:make_scaled.<locals>.<lambda>")


def test_importable_functions_are_passed_by_reference_with_their_decorators(send: Send, module: Any) -> None:
    for function in (module.uses, module.kernel, module.derived, module.named, module.wrapped):
        case, source = send(functools.partial(max, function))
        assert case.function.args[0] is function
        assert list_live_files(source) == (source.pickled,)
    case, _ = send(module.named, np.ones(1))
    assert case.function is module.named.__wrapped__


def test_a_module_that_no_worker_finds_is_passed_by_value(
    send: Send, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(Path(module.__file__).parent)])
    case, source = send(module.uses, np.ones(1))
    assert case.function is not module.uses
    assert list_live_files(source)[1:] == (module.__file__,)
    kernel = case.function(None)[0]
    assert type(kernel) is type(module.kernel)
    assert kernel is not module.kernel


def test_a_kernel_passed_by_value_has_its_own_module(send: Send) -> None:
    @triton.jit
    def helper(x):
        return x * 2.0

    @triton.jit(do_not_specialize=["n"])
    def kernel(x_ptr, n):
        tl.store(x_ptr, helper(1.0))

    case, source = send(functools.partial(max, kernel))
    (arrived,) = case.function.args
    assert arrived is not kernel
    assert (arrived.src, arrived.do_not_specialize) == (kernel.src, ["n"])
    assert getattr(sys.modules[arrived.fn.__module__], arrived.fn.__qualname__) is arrived
    assert inspect.getsource(arrived.fn) == inspect.getsource(kernel.fn)
    assert arrived.__globals__ is not kernel.__globals__
    assert str(Path(__file__)) in list_live_files(source)
    forget_live_case()
    assert arrived.fn.__module__ not in sys.modules


def test_two_kernels_with_the_same_source_stay_two(send: Send) -> None:
    def make(value: Any) -> Any:
        @triton.jit
        def kernel(x_ptr):
            tl.store(x_ptr, value)

        return kernel

    case, _ = send(functools.partial(max, make(1), make(2)))
    first, second = case.function.args
    assert first.fn.__module__ != second.fn.__module__
    assert [kernel.fn.__closure__[0].cell_contents for kernel in (first, second)] == [1, 2]


def test_a_kernel_of_a_notebook_cell_has_its_source_without_a_file(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = "\n\n@triton.jit\ndef kernel(x_ptr):\n    tl.store(x_ptr, 1.0)\n"
    monkeypatch.setitem(linecache.cache, "<cell 7>", (len(cell), None, cell.splitlines(keepends=True), "<cell 7>"))
    namespace: dict[str, Any] = {"__name__": "__main__", "triton": triton, "tl": tl}
    exec(compile(cell, "<cell 7>", "exec"), namespace)
    live = LiveFunction(function=functools.partial(max, namespace["kernel"]), specs=())
    monkeypatch.setattr(loader, "_settings", {})
    _, source = send(live.function)
    forget_live_case()
    del linecache.cache["<cell 7>"]
    (arrived,) = load_live_case(source).function.args
    assert arrived.src == namespace["kernel"].src
    assert arrived.starting_line_number == 3


def test_a_kernel_whose_file_has_changed_is_the_imported_version(send: Send, module: Any) -> None:
    local = Path(module.__file__)
    function = functools.partial(max, importlib.import_module("users_steps").kernel)
    sys.path.remove(str(local.parent))
    _, source = send(function)
    local.write_text("# another line\n" + MODULE.replace("1.0", "2.0"))
    linecache.checkcache()
    forget_live_case()
    (arrived,) = load_live_case(source).function.args
    assert "1.0" in arrived.src
    sys.path.insert(0, str(local.parent))


def test_triton_itself_refuses_a_kernel_without_source() -> None:
    with pytest.raises(ValueError, match="should be defined in a Python file"):
        exec("@triton.jit\ndef kernel(x_ptr): pass", {"triton": triton, "__name__": "__main__"})


def test_donated_and_static_arguments_of_jit_are_kept(send: Send) -> None:
    def step(params: Any, steps: int, batch: Any, name: str = "") -> Any:
        return params * steps + batch, name

    jitted = jax.jit(step, donate_argnums=2, static_argnames=("steps", "name"))
    case, _ = send(jitted, np.ones(1), 3, {"x": np.ones(1)}, "mine")
    assert [arg.donate for arg in (case.args[0], case.args[1]["x"])] == [False, True]
    assert len(case.args) == 2
    assert case.function(2.0, 4.0) == (10.0, "mine")


MESH = AbstractMesh((2,), ("x",))
SPLIT, WHOLE = NamedSharding(MESH, PartitionSpec("x")), NamedSharding(MESH, PartitionSpec())


def test_shardings_of_a_jit_that_cannot_be_imported_arrive_with_their_mesh(send: Send) -> None:
    jitted = jax.jit(lambda x: x, out_shardings=SPLIT)
    case, _ = send(jitted, np.ones(2))
    assert case.mesh == {"x": 2}
    assert case.function._jit_info.out_shardings_leaves == (SPLIT,)
    assert case.args[0].partition == ()


def test_arguments_have_the_shardings_that_their_jit_gives_them(send: Send) -> None:
    given = (None, {"w": SPLIT, "b": PartitionSpec()}, SPLIT)
    jitted = jax.jit(lambda key, p, n, x: x * n, in_shardings=given, static_argnums=2, donate_argnums=3)
    placed = jax.ShapeDtypeStruct((4, 2), "float32", sharding=NamedSharding(MESH, PartitionSpec(None, "x")))
    case, _ = send(jitted, np.ones(2), {"w": np.ones(2), "b": np.ones(2)}, 3, [np.ones(2), placed])
    key, params, x = case.args
    assert [key.partition, params["w"].partition, params["b"].partition] == [(), ("x",), ()]
    assert [one.partition for one in x] == [("x",), (None, "x")], "an array keeps a sharding of its own"
    assert [one.donate for one in x] == [True, True]
    assert (case.mesh, case.explicit_axes) == ({"x": 2}, ("x",))


def test_arguments_that_are_one_array_arrive_as_one(send: Send) -> None:
    array, other = jnp.ones(2), jnp.ones(2)
    case, _ = send(lambda state, x: x, {"a": array, "b": array, "n": np.ones(2)}, other)
    assert [arg.array for arg in jax.tree.leaves(case.args)] == [1, 1, 0, 0]
    assert (case.made_at or "").startswith(f"{__file__}:")
    alone, _ = send(lambda state, x: x, {"a": array}, other)
    assert alone.made_at == "", "the line of a call is no reason to judge a function again"


def test_an_argument_in_the_memory_of_the_host_arrives_as_one(send: Send) -> None:
    device = next(iter(jnp.ones(1).devices()))
    library: Any = jax
    array = library.device_put(jnp.ones(2), jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host"))
    case, _ = send(lambda x, y: x, array, jnp.ones(2))
    assert [arg.memory for arg in case.args] == ["pinned_host", ""]


def test_a_sharding_that_no_other_process_can_have_is_refused_with_a_remedy(send: Send) -> None:
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    with pytest.raises(InputError, match=r"`SingleDeviceSharding` in its out_shardings, .* `NamedSharding`"):
        send(jax.jit(lambda x: x, out_shardings=here), np.ones(2))


def test_shardings_that_do_not_fit_the_arguments_are_an_input_error(send: Send) -> None:
    with pytest.raises(InputError, match="in_shardings of `<lambda>` do not fit its arguments: "):
        send(jax.jit(lambda x: x, in_shardings=({"w": WHOLE},)), {"b": np.ones(2)})


def test_numbers_get_the_types_that_jit_gives_them(send: Send) -> None:
    case, _ = send(max, {"flag": True, "steps": 3}, (0.5, None))
    flag, steps, rate = case.args[0]["flag"], case.args[0]["steps"], case.args[1][0]
    assert (flag.dtype, steps.dtype, rate.dtype) == ("bool", "int32", "float32")
    assert (flag.weak, steps.weak, rate.weak) == (False, True, True)
    assert steps.draw == Draw(kind="randint", low=3, high=4)
    assert case.args[1][1] is None


def test_a_value_that_is_not_an_array_is_refused_with_its_place(send: Send) -> None:
    with pytest.raises(InputError, match=r"argument `arg\.1\['mode'\]` of `max` but got 'fast' \(type=str\): bind it"):
        send(max, np.ones(1), {"mode": "fast"})


def test_a_dataclass_of_the_script_is_a_pytree_there_too(send: Send) -> None:
    @dataclasses.dataclass
    class State:
        w: Any
        name: str

    jax.tree_util.register_dataclass(State, data_fields=["w"], meta_fields=["name"])
    case, _ = send(lambda state: state.w, State(np.ones(2), "mine"))
    assert case.args[0].name == "mine"
    assert jax.tree.leaves(case.args) == [case.args[0].w]


def test_the_caller_s_64_bit_setting_is_used(send: Send) -> None:
    jax.config.update("jax_enable_x64", True)
    try:
        case, source = send(max, np.ones(2), 0.5)
    finally:
        jax.config.update("jax_enable_x64", False)
    assert [arg.dtype for arg in case.args] == ["float64", "float64"]
    load_live_case(source)
    assert jax.config.jax_enable_x64
    forget_live_case()
    assert not jax.config.jax_enable_x64


def test_the_mesh_is_given_or_comes_from_the_arguments(send: Send) -> None:
    def spec(devices: int) -> Any:
        sharding = NamedSharding(AbstractMesh((devices,), ("data",)), PartitionSpec("data"))
        return jax.ShapeDtypeStruct((8,), "float32", sharding=sharding)

    assert send(max, spec(4))[0].mesh == {"data": 4}
    assert send(max, spec(4), mesh={"data": 2})[0].mesh == {"data": 2}
    assert send(max, np.ones(1), mesh=(8, 2))[0].mesh == {"x": 8, "y": 2}
    with pytest.raises(InputError, match="lie on two meshes"):
        send(max, spec(4), spec(2))


def test_a_mesh_of_devices_arrives_as_an_abstract_mesh(send: Send) -> None:
    mesh = jax.make_mesh((1,), ("data",))
    case, _ = send(make_scaled(NamedSharding(mesh, PartitionSpec("data"))), np.ones(1))
    (cell,) = case.function.__closure__
    assert cell.cell_contents.mesh.shape == {"data": 1}
    assert isinstance(cell.cell_contents.mesh, AbstractMesh)
    assert cell.cell_contents.mesh.axis_types == mesh.axis_types


def test_a_value_that_cannot_be_pickled_is_named_with_a_remedy(send: Send, tmp_path: Path) -> None:
    lock = threading.Lock()

    def locks(x: Any) -> Any:
        with lock:
            return x

    with pytest.raises(InputError, match=r"`locks` uses `lock`, a lock, which cannot be .* see `ligerdiag init`"):
        send(locks, np.ones(1))
    with (
        (tmp_path / "log").open("w") as log,
        pytest.raises(InputError, match="arguments of `max`: a value cannot be passed"),
    ):
        send(max, log)
    with pytest.raises(InputError, match="expected a function but got 3"):
        send(3)


def test_the_same_function_gives_the_same_file(send: Send) -> None:
    files = {send(make_scaled(2.0), np.ones(3))[1].pickled for _ in range(3)}
    assert len(files) == 1
    assert send(make_scaled(3.0), np.ones(3))[1].pickled not in files


def test_a_modified_file_is_not_unpickled(send: Send) -> None:
    _, source = send(max, Arg(shape=()))
    path = Path(source.pickled)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(InputError, match="has changed since it was written"):
        load_live_case(source)
    path.unlink()
    with pytest.raises(InputError, match="cannot read"):
        read_function_file(path)


def test_a_toolchain_without_cloudpickle_uses_the_caller_s(send: Send) -> None:
    _, source = send(make_scaled(2.0), np.ones(1))
    surroundings, _ = read_function_file(Path(source.pickled))
    assert [path.name for path in Path(surroundings.path[-1]).iterdir()] == ["cloudpickle"]


def test_an_index_that_names_another_file_is_not_followed(send: Send, tmp_path: Path) -> None:
    _, source = send(max, Arg(shape=()))
    asked, evil = Source(module="a:b", root="/"), dataclasses.replace(source, root="/")
    spec = CaseSpec(id="a", name="a", params=(), source=evil, mesh={}, expected=None, about="", draws="")
    with Pool(cache=Cache(tmp_path / "cache")) as pool:
        question = compile_service._make_cases_question(pool.toolchain, asked)
        kept = {"cases": [dataclasses.asdict(spec)], "printed": ""}
        pool.cache.keep_answer(question, {source.pickled: Path(source.pickled).stem}, kept)
        (found,) = discover_cases([asked], pool=pool)
    assert (found.id, found.source) == ("a", asked)


def test_another_python_is_reported_before_anything_is_unpickled(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    _, source = send(max, Arg(shape=()))
    monkeypatch.setattr(loader, "sys", type("Sys", (), {"version_info": (3, 99), "path": sys.path}))
    with pytest.raises(InputError, match=r"was pickled by Python 3.*, but the toolchain has Python 3.99"):
        load_live_case(source)


def test_each_module_of_the_project_is_looked_for_once(send: Send, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    find: Any = live_functions._find_spec

    def note(name: str, *rest: Any, **words: Any) -> Any:
        looked.append(name)
        return find(name, *rest, **words)

    monkeypatch.setattr(live_functions, "_find_spec", note)
    send(make_scaled(2.0), jnp.ones(3))
    assert "tests" in looked
    assert len(set(looked)) == len(looked)
