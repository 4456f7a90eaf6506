"""`ligerdiag reduce` on real cases: compiles every candidate."""

import os
import re
import signal
import subprocess
import sys
from time import sleep

import pytest

from ligerdiag import api
from ligerdiag.api import ReduceOptions
from ligerdiag.ending import Ending, RunEnded
from ligerdiag.errors import InputError
from tests.reduce.test_printing import read_program

KERNEL = """\
import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl

from ligerdiag import Arg, Case

FACTOR = tl.constexpr(2)


@triton.jit
def double(x):
    return FACTOR * x


@triton.jit
def double_kernel(x_ptr, sum_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, double(x))  # overwrites its operand


def step(x, w):
    h = (jnp.sin(x) @ w).astype(jnp.float32)
    sums = jt.triton_call(
        h, kernel=double_kernel, out_shape=jax.ShapeDtypeStruct((2,), h.dtype), grid=(2,), COLUMNS=2
    )
    return {"sums": sums * 3.0, "back": h.astype(jnp.bfloat16) @ w.T}


CASE = Case(name="folded", function=step, args=(Arg(shape=(2, 2), dtype="bfloat16"), Arg(shape=(2, 2), dtype="bfloat16")))
"""
COPY = """\
import jax
import jax.numpy as jnp

from ligerdiag import Arg, Case


def write(cache, row):
    new = jax.lax.dynamic_update_slice(cache, row * 2.0, (3, 0))
    return new, jnp.abs(new - cache).sum(), jnp.cumsum(cache, axis=0)


CASE = Case(name="read_after", function=write, args=(Arg(shape=(128, 128), donate=True), Arg(shape=(1, 128))))
"""


def reduce_text(tmp_path, text, **options):
    """Returns the result for the only case of a file with this text, and the lines of progress."""
    file, lines = tmp_path / "mine.py", []
    file.write_text(text)
    reduced, ending = api.reduce(
        ReduceOptions(selector=str(file), output=tmp_path / "out.py", cache_directory=tmp_path / "cache", **options),
        lines.append,
    )
    assert ending is None
    return reduced, lines


def get_program(text):
    """Returns the lines of the traced function."""
    return re.search(r"^def program.*?(?=\n\n\n)", text, re.M | re.S)[0].splitlines()


def test_a_folded_cast_is_left_with_the_kernel_and_its_helpers(tmp_path):
    reduced, lines = reduce_text(tmp_path, KERNEL)
    program = get_program(reduced.text)
    assert reduced.symptom.describe() == "LD002 on operand 0 of `double_kernel`"
    assert reduced.lines == len(program) <= 12
    assert "astype(jnp.float32)" in "\n".join(program)
    assert "jt.triton_call(" in "\n".join(program)
    assert "FACTOR = tl.constexpr(2)\n" in reduced.text
    assert "tl.store(x_ptr + at, double(x))  # overwrites its operand\n" in reduced.text
    assert "ligerdiag" not in reduced.text
    assert reduced.after < reduced.before
    assert reduced.hlo.startswith("HloModule")
    assert lines[0].startswith("start: ")
    compile(reduced.text, "out.py", "exec")


@pytest.mark.nightly
def test_a_second_call_asks_nothing_again(tmp_path):
    first, _ = reduce_text(tmp_path, KERNEL)
    known = (tmp_path / "out.steps").read_text()
    second, _ = reduce_text(tmp_path, KERNEL)
    assert second.text == first.text
    assert (tmp_path / "out.steps").read_text() == known


def test_an_ended_search_has_the_smallest_program_so_far(tmp_path):
    file, seen = tmp_path / "mine.py", []
    file.write_text(ODD)
    options = ReduceOptions(selector=str(file), output=tmp_path / "out.py", cache_directory=tmp_path / "cache")

    def end_after_the_first_step(line):
        seen.append(line)
        if len(seen) == 2:
            raise RunEnded(Ending.INTERRUPT)

    reduced, ending = api.reduce(options, end_after_the_first_step)
    assert ending is Ending.INTERRUPT
    assert len(reduced.steps) == 1
    assert 1 < reduced.after.equations < reduced.before.equations
    whole, ending = api.reduce(options)
    assert ending is None
    assert whole.after.equations == 1


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_reduction_that_was_ended_half_way_gives_the_same_file(tmp_path, number):
    whole, _ = reduce_text(tmp_path, KERNEL)
    known = (tmp_path / "out.steps").read_text()
    words = ["reduce", "mine.py", "--output", "small.py", "--cache-dir", "other"]
    with subprocess.Popen([sys.executable, "-m", "ligerdiag", *words], cwd=tmp_path, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith(b"fewer operations"):
                running.send_signal(number)
                if number == signal.SIGINT:  # once more, while the result is replayed or after that
                    sleep(0.3)
                    running.send_signal(number)
                break
        running.stderr.read()
    assert running.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    assert (tmp_path / "small.py").exists() == (number == signal.SIGINT)
    left = (tmp_path / "small.steps").read_text()
    assert left != known
    assert known.startswith(left)
    ran = subprocess.run(
        [sys.executable, "-m", "ligerdiag", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "small.steps").read_text() == known
    assert (tmp_path / "small.py").read_text() == whole.text


@pytest.mark.nightly
def test_a_copy_is_left_and_its_file_fails_where_xla_copies(tmp_path):
    reduced, _ = reduce_text(tmp_path, COPY, rule="LD027")
    assert reduced.after.equations == 2
    assert "donate_argnums=(0,)" in reduced.text
    assert "assert not copies" in reduced.text
    file = tmp_path / "copied.py"
    file.write_text(reduced.text)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-c", "import copied; copied.main()"]  # XLA copies on a CPU, too
    ran = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert "AssertionError: XLA copies" in ran.stderr


ODD = """\
import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl

from ligerdiag import Arg, Case


@triton.jit
def odd_kernel(x_ptr, sum_ptr):
    tl.store(sum_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, 3))))


def step(x, w):
    h = jnp.sin(x) @ w
    total = jt.triton_call(h, kernel=odd_kernel, out_shape=jax.ShapeDtypeStruct((), h.dtype), grid=(1,))
    return total * 2.0, h + 1.0


CASE = Case(name="odd", function=step, args=(Arg(shape=(2, 2)), Arg(shape=(2, 2))))
"""


def test_an_error_of_the_compile_is_kept(tmp_path):
    reduced, _ = reduce_text(tmp_path, ODD)
    assert "arange's range must be a power of 2" in reduced.symptom.describe()
    assert reduced.after.equations == 1
    assert reduced.hlo == ""
    assert "compiled.lower(*arrays).compile()" in reduced.text


def test_the_command_writes_the_file_and_says_what_it_kept(tmp_path):
    (tmp_path / "mine.py").write_text(ODD)
    words = ["reduce", "mine.py", "--output", "small.py", "--cache-dir", "cache", "--quiet"]
    ran = subprocess.run(
        [sys.executable, "-m", "ligerdiag", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "after:   1 operations" in ran.stdout
    assert ran.stdout.splitlines()[0].startswith("kept:    the error `a kernel of case `odd` does not compile")
    assert (tmp_path / "small.py").read_text().count("odd_kernel") == 2
    assert ", jax-triton " in (tmp_path / "small.py").read_text()  # whose versions take other keywords
    assert not (tmp_path / "small.hlo").exists()
    words[-1:] = ["--format", "issue"]
    told = subprocess.run(
        [sys.executable, "-m", "ligerdiag", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0
    assert ran.stdout in told.stderr  # the summary makes room for the report
    assert told.stdout.startswith(
        "# Compiling for h100 ends with an error: a kernel of case `reduced` does not compile"
    )
    assert f"\n```python\n{(tmp_path / 'small.py').read_text()}```\n" in told.stdout
    assert "\n```sh\npip install 'jax[cuda13]==" in told.stdout
    assert "\npython small.py\n```\n" in told.stdout
    assert "To the author of the kernel." in told.stdout
    assert "candidate_" not in told.stdout
    assert str(tmp_path) not in told.stdout


@pytest.mark.nightly
def test_a_bug_report_that_is_ended_leaves_the_reduced_program(tmp_path):
    (tmp_path / "mine.py").write_text(ODD)
    words = ["reduce", "mine.py", "--output", "small.py", "--cache-dir", "cache", "--quiet", "--format", "issue"]
    with subprocess.Popen(
        [sys.executable, "-m", "ligerdiag", *words], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith(b"written: "):
                running.send_signal(signal.SIGINT)
                break
        out, err = running.communicate()
    assert (running.returncode, out) == (130, b"")
    assert err.decode().startswith(
        "issue:   no bug report, because Ctrl-C ended the work; run the same command again to continue\n"
    )
    assert (tmp_path / "small.py").read_text().count("odd_kernel") == 2


def test_a_right_program_has_nothing_to_keep(tmp_path):
    right = "def write(x, y):\n    return x @ y\n"
    text = (
        COPY.split("def write", maxsplit=1)[0]
        + right
        + '\n\nCASE = Case(name="right", function=write, args=(Arg(shape=(2, 2)),) * 2)\n'
    )
    with pytest.raises(InputError, match="`right` has no finding, so there is nothing to reduce"):
        reduce_text(tmp_path, text)


def test_a_rule_without_a_finding_is_refused(tmp_path):
    with pytest.raises(InputError, match="`read_after` has no finding of LD001, so there is nothing to reduce"):
        reduce_text(tmp_path, COPY, rule="LD001")


def test_an_operation_that_cannot_be_printed_is_named_in_the_program():
    import jax
    import jax.numpy as jnp

    def call(x):
        return jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct((2,), jnp.float32), x)

    (equation,) = read_program(call, jnp.ones(2)).body.equations
    assert (equation.primitive, equation.kind.value) == ("pure_callback", "unprintable")
