"""Calls of jax-triton 0.4, which `pip` installs, are printed so that tracing the text gives the same calls again."""

import json
import subprocess
from pathlib import Path

import pytest

CONSTANTS = """\
import triton
import triton.language as tl

FACTOR = tl.constexpr(2)
SIZE = 64


@triton.jit
def enlarge(x):
    return FACTOR * x
"""
PROGRAMS = """\
import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl

import constants
from constants import enlarge as grow

FACTOR = tl.constexpr(3)
VECTOR = jax.ShapeDtypeStruct((256,), jnp.float32)


@triton.autotune(configs=[triton.Config({"BLOCK": size}, num_warps=2) for size in (64, 128)], key=[])
@triton.jit
def tuned_kernel(x, out, LAST: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at))
    tl.store(x + at, 2 * tl.load(x + at))


@triton.jit
def twice_kernel(x, size, y, ACC: tl.constexpr, MAP: tl.constexpr, BLOCK: tl.constexpr = 256):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, MAP(tl.load(x + at).to(ACC)) * constants.FACTOR + FACTOR, mask=at < constants.SIZE)


def tuned(a, b):
    x = a + 1.0
    grid = lambda meta: (triton.cdiv(256, meta["BLOCK"]),)
    return jt.triton_call(x, kernel=tuned_kernel, out_type=jax.typeof(x), grid=grid, LAST=256), x


def named(a, b):
    more = {"ACC": tl.float32, "MAP": grow}
    return jt.triton_call(x=a, size=7, kernel=twice_kernel, out_type=VECTOR, grid=(1,), num_warps=8, **more)


def declared(a, b):
    return jt.triton_call(
        a, 7, b, kernel=twice_kernel, out_type=VECTOR, grid=1, ACC=tl.float16, MAP=grow, input_output_aliases={1: 0}
    )


def in_refs(a, b):
    x, y = jax.new_ref(a), jax.new_ref(jnp.zeros(256))
    x[...] = x[...] + 1.0
    y[2:4] = b[:2]
    jt.triton_call(x, 3, y, kernel=twice_kernel, out_type=(), grid=1, ACC=tl.float32, MAP=grow)
    return x[...] * 2.0, y[5], jax.freeze(y)
"""
COMPARE = """\
import importlib, json, sys
sys.path.insert(0, ".")
import jax
import programs
from ligerdiag.reduce.jaxpr_reader import JaxprReader
from ligerdiag.reduce.program_text import print_function, print_head
from ligerdiag.reduce.reduced_program import Program, ReducedArgument

def trace(function):
    return jax.jit(function, keep_unused=True).trace(programs.VECTOR, programs.VECTOR).jaxpr

def describe(eqn):
    said = [eqn.primitive.name, [str(one.aval) for one in eqn.invars], [str(one.aval) for one in eqn.outvars]]
    if eqn.primitive.name != "triton_kernel_call":
        return str(said)
    fn, grid = eqn.params["fn"], eqn.params["grid"]
    sizes = [one.kwargs for one in getattr(fn, "configs", ())] or [{}]
    grids = [jt.normalize_grid(grid, {**eqn.params["metaparams"], **one}) for one in sizes]
    left = {name: eqn.params[name] for name in ("in_tree", "out_shapes", "backend_options", "input_output_aliases")}
    constants = {name: getattr(value, "__name__", value) for name, value in eqn.params["metaparams"].items()}
    return str([*said, grids, left, sorted(constants.items(), key=str)])

import jax_triton.triton_lib as jt
found = {}
for name in ("tuned", "named", "declared", "in_refs"):
    closed, reader = trace(getattr(programs, name)), JaxprReader()
    body = reader.read(closed, ["a", "b"])
    program = Program(name="program", body=body, arguments=(ReducedArgument(),) * 2, outputs=(),
                      definitions=dict(reader.definitions), imports=tuple(reader.imports))
    text = print_head(program) + "\\n" + "\\n".join(print_function(program)) + "\\n"
    with open(f"printed_{name}.py", "w") as file:
        file.write(text)
    again = trace(importlib.import_module(f"printed_{name}").program)
    found[name] = [text, *([describe(eqn) for eqn in one.jaxpr.eqns if eqn.primitive.name != "jit"]
                           for one in (closed, again))]
print(json.dumps(found))
"""
NAMES = ("tuned", "named", "declared", "in_refs")


@pytest.fixture(scope="module")
def printed(plain_python: Path, tmp_path_factory: pytest.TempPathFactory):
    """Returns, by name: the printed program, the operations of the original, and those of the printed one."""
    folder = tmp_path_factory.mktemp("printed")
    (folder / "constants.py").write_text(CONSTANTS)
    (folder / "programs.py").write_text(PROGRAMS)
    ran = subprocess.run([plain_python, "-c", COMPARE], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_a_printed_call_is_the_same_call(printed, name):
    text, original, again = printed[name]
    assert again == original, text
    assert "triton_kernel_call" in str(original)


def test_a_kernel_s_file_needs_no_module_of_the_user_s(printed):
    text, _, _ = printed["named"]
    assert "constants" not in text
    assert "FACTOR = tl.constexpr(3)\n" in text
    assert "FACTOR_2 = tl.constexpr(2)\n" in text
    assert "* FACTOR_2 + FACTOR, mask=at < SIZE)" in text


def test_a_tuned_kernel_s_grid_is_looked_up(printed):
    assert 'grid=lambda meta: {(64,): (4,), (128,): (2,)}[(meta["BLOCK"],)]' in printed["tuned"][0]


@pytest.mark.nightly
def test_a_user_s_package_is_reduced_in_an_empty_folder(plain_python: Path, tmp_path: Path):
    (tmp_path / "constants.py").write_text(CONSTANTS)
    (tmp_path / "programs.py").write_text(PROGRAMS)
    (tmp_path / "mine.py").write_text(
        "import programs\nfrom ligerdiag import Arg, Case\n\n\ndef step(a, b):\n    out, x = programs.tuned(a, b)\n"
        "    return {'sine': out + b, 'gradient': x * 3.0}\n\n\n"
        "CASE = Case(name='mine', function=step, args=(Arg(shape=(256,)),) * 2)\n"
    )
    words = [plain_python.with_name("ligerdiag"), "reduce", "mine.py", "--output", "small.py", "--cache-dir", "cache"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    text = (tmp_path / "small.py").read_text()
    assert "kept:    LD002 on operand 0 of `tuned_kernel`" in ran.stdout
    assert "out_type=jax.ShapeDtypeStruct((256,), jnp.float32)" in text
    assert "programs" not in text.split('"""')[2]
