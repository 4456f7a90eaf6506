"""The `help:` of a finding is code that runs: applied to the program, it makes every output right in both generations.

The test applies it as a reader would: it replaces the call by the suggested one, fills in the omitted arguments, and
gives the kernel the spare pointers that the help asks for.
"""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.documents import ROOT, parse_blocks

_CODE = re.compile(r"`([^`]*call_in_place\([^`]*)`")
_IMPORT = re.compile(r"`(from ligerdiag\.in_place import call_in_place)`")
README = next(block.text for block in parse_blocks(ROOT / "README.md") if block.file_name == "mine.py")
OPTIMIZER = '''\
import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl
from ligerdiag import Arg, Case


@triton.jit
def momentum_kernel(p_ptr, g_ptr, m_ptr, norm_ptr, RATE: tl.constexpr, N: tl.constexpr):
    """Overwrites the parameters and the momentum."""
    at = tl.arange(0, N)
    g = tl.load(g_ptr + at)
    m = 0.9 * tl.load(m_ptr + at) + g
    tl.store(norm_ptr, tl.sum(g * g))
    tl.store(m_ptr + at, m)
    tl.store(p_ptr + at, tl.load(p_ptr + at) - RATE * m)


def step(x, w):
    p, g, m = jnp.tanh(x), jnp.cos(x) * w, x * w
    norm = jax_triton.triton_call(
        p, g, m, kernel=momentum_kernel, out_shape=jax.ShapeDtypeStruct((), "float32"), grid=(1,), RATE=0.1, N=128
    )
    return {"norm": norm, "p": p * 2.0, "m": m + 1.0}


CASE = Case(name="optimizer", function=step, args=(Arg(shape=(128,)), Arg(shape=(128,))))
'''
SHRINKAGE = '''\
import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl
from ligerdiag import Arg, Case


@triton.jit
def shrink_kernel(rate, x_ptr, y_ptr, kept_ptr, N: tl.constexpr):
    """Overwrites `y`, operand 1 of the custom call and argument 2 of the call in Python."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    y = tl.load(y_ptr + at)
    kept = tl.maximum(tl.abs(y) - rate, 0.0)
    tl.store(kept_ptr + tl.program_id(0), tl.sum(kept))
    tl.store(y_ptr + at, (tl.where(y > 0, kept, -kept) + tl.load(x_ptr + at)).to(tl.float32))


def step(x, w):
    y = x @ w
    kept = jax_triton.triton_call(
        RATE, x, y, kernel=shrink_kernel, out_shape=jax.ShapeDtypeStruct((8,), "float32"), grid=(8,), N=32
    )
    return {"kept": kept, "norm": (y * y).sum(1)}


CASE = Case(name="NAME", function=step, args=(Arg(shape=(8, 32)), Arg(shape=(32, 32))))
'''
PROGRAMS = {
    "mine": (README, 1),
    "optimizer": (OPTIMIZER, 2),
    "shrinkage": (SHRINKAGE.replace("RATE, x", "0.3, x").replace("NAME", "shrinkage"), 1),
    "by_one": (
        SHRINKAGE.replace("RATE, x", "1, x").replace("NAME", "by_one"),
        1,
    ),  # the payload lacks a scalar that is 1
}
"""Case name to its file, and the number of operands that its kernel overwrites."""


def apply_help(source: str, text: str, written: int) -> str:
    """Returns the program with the suggested call."""
    (shown,), (imported,) = _CODE.findall(text), _IMPORT.findall(text)
    tree = ast.parse(source)
    statement, call = next(
        (one, one.value)
        for one in ast.walk(tree)
        if isinstance(one, ast.Assign)
        and isinstance(one.value, ast.Call)
        and ast.unparse(one.value.func).endswith("triton_call")
    )
    kept = [one for one in call.keywords if one.arg not in ("out_shape", "out_type")]
    rest = ", ".join(f"{one.arg}={ast.unparse(one.value)}" for one in kept)
    lines = source.splitlines()
    lines[statement.lineno - 1 : statement.end_lineno] = [f"    {shown.replace('…', rest)}"]
    spare = "".join(f", spare_{number}_ptr" for number in range(written))
    cured = re.sub(r"(, \w+: tl\.constexpr)", rf"{spare}\1", "\n".join(lines), count=1)
    return cured.replace("from ligerdiag import", f"{imported}\nfrom ligerdiag import", 1)


def check(folder: Path, python: Path) -> dict[str, Any]:
    words = ["check", *sorted(map(str, folder.glob("*.py"))), "--format", "json", "--cache-dir", str(folder / "cache")]
    run = [python, "-P", "-m", "ligerdiag", *words]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert done.stdout, done.stderr
    return {case["id"]: case for case in json.loads(done.stdout)["cases"]}


@pytest.mark.parametrize("generation", ["newest", pytest.param("pinned", marks=pytest.mark.nightly)])
def test_applying_the_help_makes_every_output_right(
    generation: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    python = request.getfixturevalue("plain_python") if generation == "newest" else Path(sys.executable)
    for name, (source, _) in PROGRAMS.items():
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    for name, case in check(tmp_path, python).items():
        source, written = PROGRAMS[name]
        assert {"stale", "latent", "clobbered"} & set(case["outputs"].values())
        texts = {finding["help"] for finding in case["findings"] if _CODE.search(finding["help"])}
        assert len(texts) == 1, "one cure, and the same in each finding"
        (tmp_path / f"{name}.py").write_text(apply_help(source, texts.pop(), written), encoding="utf-8")
    cured = check(tmp_path, python)
    assert {name: set(case["outputs"].values()) for name, case in cured.items()} == {
        name: {"fresh"} for name in PROGRAMS
    }
    assert {name: case["status"] for name, case in cured.items()} == dict.fromkeys(PROGRAMS, "clean")
