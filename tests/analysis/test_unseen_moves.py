"""Outputs are unknown, and not fresh, if JAX hides what happens to Refs or jaxlib cannot translate a program.

Each case file removes, in the worker that loads it, one of the functions that `compile.lowering` looks up by name.
"""

from pathlib import Path

import pytest

from ligerdiag import api

PROGRAM = """\
import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case
from ligerdiag.compile.lowering import compile_job, refs

{removal}


def of_zeros(x):
    ref = jax.new_ref(jnp.zeros(8))
    ref[...] = jnp.sin(x)
    return ref[...]


def added(x):
    ref = jax.new_ref(jnp.zeros(8))
    jax.ref.addupdate(ref, ..., jnp.sin(x))
    return ref[(x[0] > 1e9).astype(int)] * jnp.ones(8)


def of_iteration(x):
    ref = jax.new_ref(0 * x)
    ref[...] = jnp.sin(x)
    return ref[...]


def differentiate(function, xs, w):
    def total(w):
        return (jax.lax.scan(lambda c, x: (c + function(x * w), None), jnp.zeros(8), xs)[0] ** 2).sum()

    return {{"gradient": jax.grad(total)(w)}}


def make(name, function):
    return Case(name=name, function=lambda xs, w: differentiate(function, xs, w), args=ARGS)


ARGS = (Arg(shape=(3, 8)), Arg(shape=(8,)))
CASES = (
    make("moved", of_zeros),
    make("shared", added),
    make("kept", of_iteration),
    make("without", jnp.sin),
    Case(name="inline", function=lambda xs, w: {{"gradient": of_zeros(xs[0] * w)}}, args=ARGS),
)
"""
NAMES = ("moved", "shared", "kept", "without", "inline")
SEEN = "in which ligerdiag observes how JAX moves Refs"
REMOVALS = {
    "nothing": ("", "stale clobbered fresh fresh fresh", "", ""),
    "out_of_loop": ('refs._LOOPS = "gone"', "stale unknown unknown fresh fresh", SEEN, "moved shared kept"),
    "computed_again": (
        'refs._SPLIT = refs._SPLIT_REFS = "gone"', "stale clobbered unknown fresh fresh", SEEN, "moved shared kept",
    ),
    "frames": (
        "refs._find_frames = lambda: None", "unknown unknown unknown fresh unknown", SEEN, "moved shared kept inline",
    ),
    "discharge": (
        "refs._find_discharge = lambda: None", "unknown clobbered fresh fresh fresh", "Refs by values", "moved shared",
    ),
    "translation": (
        'compile_job.convert_to_hlo = lambda text: b""', "unknown unknown unknown fresh fresh", "cannot translate",
        "moved shared kept",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REMOVALS)
def test_a_ref_that_jax_may_have_moved_unseen_is_unknown(name: str, shared_cache: Path, tmp_path: Path) -> None:
    """A program without a Ref, or with a Ref outside of inner functions, has nothing to move."""
    removal, verdicts, phrase, noted = REMOVALS[name]
    path = tmp_path / f"{name}.py"
    path.write_text(PROGRAM.format(removal=removal))
    options = api.CheckOptions(selectors=(str(path),), cache_directory=shared_cache, replay=False)
    cases = {case.id: case for case in api.check(options).cases}
    assert not any(case.error for case in cases.values()), cases
    assert " ".join(cases[one].outputs["gradient"].value for one in NAMES) == verdicts
    assert [
        one for one in NAMES if phrase and any(phrase in note for note in cases[one].coverage.not_covered)
    ] == noted.split()
