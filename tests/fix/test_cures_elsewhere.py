"""Cures that change another place than the kernel's call: each program is compiled, judged and replayed."""

import json
import subprocess
from pathlib import Path
from shutil import copy

import jsonschema
import pytest

from ligerdiag.api import CheckOptions
from ligerdiag.fix.cure_search import FixOptions, find_fixes
from ligerdiag.fix.fix_json import render_fixes_json
from ligerdiag.fix.records import CaseFix, Proof
from tools.json_schema import load_schema

PROGRAMS = Path(__file__).parent / "programs"
NIGHTLY = pytest.mark.nightly


def fix(program: str, cache: Path, *cures: str) -> CaseFix:
    """Returns the answer for the only case of a program."""
    checked = CheckOptions(selectors=(str(PROGRAMS / f"{program}.py"),), cache_directory=cache)
    (answer,) = find_fixes(FixOptions(check=checked, cures=cures))
    return answer


@pytest.mark.parametrize(
    ("program", "cure", "line"),
    [
        ("flagged", "mode", "+    sums, doubled = Scale(in_place=False)(h)"),
        ("restart", "no-donation", "+@jax.jit"),
        pytest.param("moded", "mode", '+    sums, doubled = double_rows(h, write="new")', marks=NIGHTLY),
        pytest.param("forwarded", "declare", "+    sums, h = run(", marks=NIGHTLY),
        pytest.param("layers", "traced-zeros", "optimization_barrier((jnp.zeros_like(x), x))[0])", marks=NIGHTLY),
        pytest.param("unfilled", "filled", "+    start = jax.numpy.zeros(x.shape, x.dtype)", marks=NIGHTLY),
        pytest.param("unread", "keep-unused", "keep_unused=True)", marks=NIGHTLY),
        pytest.param("pieces", "xla-flag", 'xla_flags={"xla_disable_hlo_passes": "priority-fusion"}', marks=NIGHTLY),
    ],
    ids=lambda value: value if str(value).isalpha() else "",
)
def test_a_change_elsewhere_is_proved(shared_cache: Path, program: str, cure: str, line: str) -> None:
    answer = fix(program, shared_cache, cure)
    assert answer.best is not None
    assert (answer.best.cure, answer.best.proof, answer.best.left) == (cure, Proof.PROVED, ())
    assert line in answer.best.diff
    written = json.loads(render_fixes_json([answer], written=set(), exit_code=1))
    schema = load_schema()
    assert not list(jsonschema.Draft202012Validator(schema | schema["$defs"]["fixes"]).iter_errors(written))
    assert written["fixes"][0]["cure"] == cure


@NIGHTLY
def test_on_several_devices_each_calls_the_kernel_on_its_own_rows(shared_cache: Path) -> None:
    answer = fix("sharded", shared_cache, "declare", "shard-map")
    declared, mapped = answer.attempts
    assert declared.proof is Proof.REFUTED  # XLA gathers all rows on each device
    assert "LD032" in declared.reason
    assert answer.best is mapped
    assert mapped.costs["h100"].peak < 0


@NIGHTLY
def test_the_newest_jax_triton_gets_the_same_cures(plain_python: Path, tmp_path: Path) -> None:
    expected = {"flagged": "mode", "forwarded": "declare", "sharded": "shard-map", "restart": "no-donation"}
    files = [copy(PROGRAMS / f"{name}.py", tmp_path) for name in expected]
    words = ["fix", *files, "--format", "json", "--cache-dir", str(tmp_path / "cache")]
    run = [plain_python, "-P", "-m", "ligerdiag", *words]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 1, done.stderr
    assert {one["case"]: one["cure"] for one in json.loads(done.stdout)["fixes"]} == expected


@NIGHTLY
def test_two_cures_together_are_proved_where_neither_is_alone(shared_cache: Path) -> None:
    """A layer of a library takes `in_place=False`; the other kernel's call is written out, and needs an alias."""
    answer = fix("mixed", shared_cache, "mode", "declare")
    assert answer.best is not None
    assert (answer.best.cure, answer.best.proof, answer.best.left) == ("mode + declare", Proof.PROVED, ())
    assert "+    sums, doubled = Scale(in_place=False)(h)" in answer.best.diff
    assert "+    count, y = jt.triton_call(" in answer.best.diff
    assert [one.proof for one in answer.attempts] == [Proof.NOT_APPLICABLE, Proof.REFUTED, Proof.PROVED]
