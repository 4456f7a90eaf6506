"""`ligerdiag.check` of the functions and arguments that JAX takes, in a program of the user's that is compiled for an
H100.
"""

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ligerdiag
from ligerdiag.errors import InputError
from ligerdiag.model.findings import ReplayState, Verdict
from ligerdiag.model.report import Status

PROGRAM = """
import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl
from flax import nnx


@triton.jit
def double(x_ptr, sums_ptr, N: tl.constexpr):
    offsets = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + offsets)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(x))
    tl.store(x_ptr + offsets, 2 * x)


def sums_of(x):
    rows, columns = x.shape
    shape = jax.ShapeDtypeStruct((rows,), x.dtype)
    return jax_triton.triton_call(x, kernel=double, out_shape=shape, grid=(rows,), N=columns)


def noisy(key, x):
    h = x + jax.random.normal(key, x.shape)
    return {"sums": sums_of(h), "h": h * 3, "key": jax.random.split(key)[0]}


def noisy_state(state, x):
    return noisy(state["keys"][1], x)


class Model:
    def __init__(self):
        self.w = jnp.ones((16, 16))

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def step(self, x):
        h = x @ self.w
        return {"sums": sums_of(h), "h": h * 3}

    @partial(jax.jit, static_argnames=("self", "factor"))
    def scaled(self, x, factor=3):
        h = x + 1
        assert isinstance(factor, int)
        return {"sums": sums_of(h), "h": h * factor}


@partial(jax.jit, static_argnames="factor", donate_argnames="scale")
def by_keyword(x, shift=0.0, *, scale, factor=3):
    h = x * scale + shift
    assert isinstance(factor, int)
    return {"sums": sums_of(h), "h": h * factor, "scale": scale + 1}


def without_arguments():
    h = jnp.ones((8, 16)) * jnp.arange(16.0)
    return {"sums": sums_of(h), "h": h * 3}


def of_complex(z, factor):
    h = z.real + 1
    return {"sums": sums_of(h), "h": h * 3, "z": jnp.exp(z) * factor, "imaginary": z.imag}


class Net(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.linear = nnx.Linear(16, 16, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.calls = nnx.Variable(jnp.zeros(8))

    def __call__(self, x):
        h = self.dropout(self.linear(x))
        self.calls[...] = self.calls[...] + sums_of(h)
        return h * 3


def apply(model, x):
    return model(x)
"""

SCRIPT = """
import dataclasses
import sys

import jax
import numpy as np

import ligerdiag
from callables_of_user import sums_of


class Registering(type):
    # as the metaclass of Equinox: it makes a dataclass and a pytree of each class when the class is made
    def __new__(cls, name, bases, body):
        made = super().__new__(cls, name, bases, body)
        made = dataclasses.dataclass(frozen=True, init="__init__" not in body)(made)
        names = [one.name for one in dataclasses.fields(made)]
        arrays = [one.name for one in dataclasses.fields(made) if not one.metadata.get("static")]
        static = [name for name in names if name not in arrays]

        def unflatten(known, values):
            module = object.__new__(made)
            for name, value in (*zip(static, known), *zip(arrays, values)):
                object.__setattr__(module, name, value)
            return module

        def flatten(module):
            return [getattr(module, name) for name in arrays], tuple(getattr(module, name) for name in static)

        jax.tree_util.register_pytree_node(made, flatten, unflatten)
        return made


class Base(metaclass=Registering):
    weight: object
    factor: int = dataclasses.field(metadata={"static": True}, default=3)


class Model(Base):
    bias: object = 0.0

    def __init__(self, weight, bias):
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "factor", 3)
        object.__setattr__(self, "bias", bias)

    def __call__(self, x):
        h = x * self.weight + self.bias
        return {"sums": sums_of(h), "h": h * self.factor}


x = np.linspace(-1.0, 1.0, 128, dtype=np.float32).reshape(8, 16)
report = ligerdiag.check(lambda model, x: model(x), Model(x, x + 1), x, cache_directory=sys.argv[1])
print(report.error or dict(report.outputs), report.replay and report.replay.state)
"""
EQUINOX = """
import sys

import equinox as eqx
import jax
import numpy as np

import ligerdiag
from callables_of_user import sums_of


class Model(eqx.Module):
    layers: list
    activation: object
    factor: int = eqx.field(static=True, default=3)

    def __call__(self, x):
        h = self.activation(x * self.layers[0])
        return {"sums": sums_of(h), "h": h * self.factor}


x = np.linspace(-1.0, 1.0, 128, dtype=np.float32).reshape(8, 16)
model = Model([x + 2], jax.nn.relu)
for function in (eqx.filter_jit(lambda model, x: model(x)), eqx.filter_jit(Model.__call__)):
    report = ligerdiag.check(function, model, x, cache_directory=sys.argv[1])
    print(report.error or dict(report.outputs), report.replay and report.replay.state)
try:
    ligerdiag.check(lambda model, x: model(x), model, x, cache_directory=sys.argv[1])
except ligerdiag.LigerdiagError as error:
    print(error)
"""

type CheckFunction = Callable[..., ligerdiag.CaseReport]


@pytest.fixture
def check_function(cache: Path) -> CheckFunction:
    def check(*arguments: Any, **words: Any) -> ligerdiag.CaseReport:
        return ligerdiag.check(*arguments, cache_directory=cache, **words)

    return check


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "callables_of_user.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("callables_of_user")
    del sys.modules["callables_of_user"]


X = np.linspace(-1.0, 1.0, 128, dtype=np.float32).reshape(8, 16)


def assert_wrong(report: ligerdiag.CaseReport, *, output: str = "h") -> None:
    """Asserts that exactly this output is stale, or fresh only by luck, and that the replay has computed it."""
    assert report.error == ""
    assert {name for name, verdict in report.outputs.items() if verdict is not Verdict.FRESH} == {output}
    assert report.outputs[output] in (Verdict.STALE, Verdict.LATENT)
    assert report.replay is not None
    assert (report.replay.state, report.replay.reason) == (ReplayState.DONE, "")


@pytest.mark.parametrize("generator", ["threefry2x32", "rbg"])
def test_a_typed_random_key_is_an_argument(program: Any, check_function: CheckFunction, generator: str) -> None:
    key = program.jax.random.key(1, impl=generator)
    report = check_function(program.noisy, key, X)
    assert_wrong(report)
    assert report.outputs["key"] is Verdict.FRESH


def test_typed_random_keys_without_values_and_inside_of_pytrees_are_drawn(
    program: Any, check_function: CheckFunction
) -> None:
    keys = program.jax.eval_shape(lambda: program.jax.random.split(program.jax.random.key(0), 3))
    assert_wrong(check_function(program.noisy_state, {"keys": keys}, X))


def test_a_jitted_method_keeps_its_static_self_and_its_donations(program: Any, check_function: CheckFunction) -> None:
    model = program.Model()
    report = check_function(model.step, X)
    assert_wrong(report)
    assert report.id == "step"
    assert_wrong(check_function(model.scaled, X, kwargs={"factor": 5}))


def test_arguments_by_keyword_are_arguments_and_static_ones_are_bound(
    program: Any, check_function: CheckFunction
) -> None:
    report = check_function(program.by_keyword, X, kwargs={"scale": X[:, :1] + 2, "factor": 5})
    assert_wrong(report)
    partly = program.partial(program.by_keyword, scale=X[:, :1] + 2)
    assert_wrong(check_function(partly, X, 1.0, kwargs={"factor": 4}))


def test_a_keyword_of_the_function_that_is_no_option_is_explained(program: Any, check_function: CheckFunction) -> None:
    with pytest.raises(TypeError, match=r"keywords of the function go into `kwargs`, as in kwargs=\{'scale'"):
        check_function(program.by_keyword, X, scale=X)


def test_a_function_of_pmap_is_an_input_error_that_says_what_to_check(check_function: CheckFunction) -> None:
    import jax

    doubled = jax.pmap(lambda x: 2 * x, axis_name="i")
    for function, said in ((doubled, "is made by"), (lambda x: doubled(x), "uses `doubled`, which is made by")):  # noqa: PLW0108
        with pytest.raises(InputError, match=rf"{said} `jax.pmap`, .* check a function that calls `jax.pmap` itself"):
            check_function(function, X)


def test_a_function_without_arguments_is_compiled_for_the_target(program: Any, check_function: CheckFunction) -> None:
    report = check_function(program.without_arguments)
    assert report.error == ""
    assert set(report.outputs) == {"h", "sums"}
    assert report.status is Status.FINDINGS


@pytest.mark.filterwarnings("error")
def test_complex_numbers_are_drawn_and_compared(program: Any, check_function: CheckFunction) -> None:
    z = (X + 1j * X[::-1]).astype(np.complex64)
    assert_wrong(check_function(program.of_complex, z, 1 + 2j))
    assert_wrong(check_function(program.of_complex, program.jax.ShapeDtypeStruct((8, 16), np.complex64), 2.0))


def test_a_module_of_nnx_is_an_argument_and_what_it_changes_is_an_output(
    program: Any, check_function: CheckFunction
) -> None:
    for function in (program.apply, program.nnx.jit(program.apply)):
        report = check_function(function, program.Net(), X)
        assert_wrong(report, output="output")
        assert report.outputs["model.calls"] is Verdict.FRESH


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_the_axes_of_a_mesh_keep_their_types_and_a_function_may_close_over_it(
    program: Any, check_function: CheckFunction, kind: str
) -> None:
    jax: Any = program.jax
    sharding: Any = jax.sharding
    mesh = sharding.AbstractMesh((2,), ("data",), axis_types=(sharding.AxisType[kind],))
    split = sharding.PartitionSpec("data")
    x = jax.ShapeDtypeStruct((8, 16), np.float32, sharding=sharding.NamedSharding(mesh, split))

    def step(x: Any) -> Any:
        assert jax.sharding.get_abstract_mesh().axis_types == mesh.axis_types
        h = x + 1
        sums = jax.shard_map(program.sums_of, mesh=mesh, in_specs=split, out_specs=split, check_vma=False)(h)
        return {"sums": sums, "h": h * 3}

    assert_wrong(check_function(step, x))


@pytest.mark.parametrize("devices", [2, 4])
def test_a_local_function_of_jit_with_shardings_is_compiled_for_a_mesh_that_is_not_here(
    program: Any, check_function: CheckFunction, devices: int
) -> None:
    jax: Any = program.jax
    mesh = jax.sharding.AbstractMesh((devices,), ("data",))
    split, whole = (jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)) for axes in (("data",), ()))

    def step(w: Any, x: Any) -> Any:
        h = x * w
        sums = jax.shard_map(program.sums_of, mesh=mesh, in_specs=split.spec, out_specs=split.spec, check_vma=False)(h)
        return {"sums": sums, "h": h * 3}

    shardings = {"in_shardings": (whole, split), "out_shardings": {"sums": whole, "h": split}}
    report = check_function(jax.jit(step, **shardings), X[:1], X)
    assert_wrong(report)
    assert report.memory is not None
    split_bytes, whole_bytes = X.nbytes // devices, X[:1].nbytes
    assert report.memory.arguments == split_bytes + whole_bytes, "each device has its part of `x`, and all of `w`"


def test_an_error_about_an_argument_names_the_path_of_the_leaf(program: Any, check_function: CheckFunction) -> None:
    with pytest.raises(InputError, match=r"argument `model\['layers'\]\[0\]\['weight'\]` of `apply` but got 'relu'"):
        check_function(program.apply, {"layers": [{"weight": "relu"}]}, X)


def test_code_without_a_file_is_named_with_its_line(check_function: CheckFunction) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("def broken(x):\n    y = x + 1\n    return y.nothing\n", space)
    assert " raises: <string>:3: AttributeError: " in check_function(space["broken"], X, replay=False).error


COMMAND = """
import sys
import jax, jax_triton, ligerdiag
from callables_of_user import double

def step(x):
    sums = jax_triton.triton_call(x * 2, kernel=double, out_shape=jax.ShapeDtypeStruct((8,), x.dtype), grid=(8,), N=16)
    return {"sums": sums, "h": x * 2}

report = ligerdiag.check(step, jax.ShapeDtypeStruct((8, 16), "float32"), replay=False, cache_directory=sys.argv[1])
print(report)
"""


def test_a_finding_about_code_without_a_file_shows_its_line(program: Any, tmp_path: Path, cache: Path) -> None:
    assert program
    command = [sys.executable, "-c", COMMAND, str(cache)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "--> <string>:7\n   | sums = jax_triton.triton_call(x * 2, kernel=double, " in done.stdout


def run_script(text: str, folder: Path, cache: Path) -> list[str]:
    (folder / "script.py").write_text(text)
    command = [sys.executable, "script.py", str(cache)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


RIGHT = "{'h': <Verdict.STALE: 'stale'>, 'sums': <Verdict.FRESH: 'fresh'>} done"


@pytest.mark.usefixtures("program")
def test_a_module_class_of_a_script_whose_metaclass_registers_it_keeps_its_fields(tmp_path: Path, cache: Path) -> None:
    assert run_script(SCRIPT, tmp_path, cache) == [RIGHT]


@pytest.mark.usefixtures("program")
def test_a_module_of_equinox_is_an_argument_of_filter_jit(tmp_path: Path, cache: Path) -> None:
    pytest.importorskip("equinox")
    *answers, refused = run_script(EQUINOX, tmp_path, cache)
    assert answers == [RIGHT, RIGHT]
    assert refused.startswith("expected arrays and numbers in argument `model.activation` of `lambda` but got ")


def test_nothing_is_printed_if_the_users_process_asks_for_no_device(
    program: Any, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert program
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    text = (
        "import jax, ligerdiag, sys\nfrom callables_of_user import noisy\n"
        "arguments = jax.eval_shape(jax.random.key, 0), jax.ShapeDtypeStruct((8, 16), 'float32')\n"
        "print(ligerdiag.check(noisy, *arguments, cache_directory=sys.argv[1]).status)\n"
    )
    (tmp_path / "script.py").write_text(text)
    command = [sys.executable, "script.py", str(cache)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=600)
    assert (done.stdout, done.stderr) == ("findings\n", "")
