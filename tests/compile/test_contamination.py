"""The effects of a case file on its process reach no other file, and not the cache."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.codec import parse_object, read_str
from ligerdiag.compile.compile_service import CompileResult, compile_cases, discover_cases
from ligerdiag.errors import CompileError
from ligerdiag.model.jobs import Job, Source, render_request
from ligerdiag.toolchains.gpu_targets import Target
from ligerdiag.workers.pool import Pool

HEAD = """
import os, sys
import jax, jax.numpy as jnp, numpy as np
from ligerdiag import Arg, Case
"""
VICTIM = f"{HEAD}\nCASE = Case(name='{{}}', function=lambda x: jnp.sin(x) + np.arange(4.0), args=(Arg(shape=(4,)),))\n"
CULPRITS = {
    "setting": "jax.config.update('jax_enable_x64', True)",
    "rebinding": "jnp.sin = jnp.cos",
    "flags": "os.environ['XLA_FLAGS'] = '--xla_disable_hlo_passes=fusion'",
    "backend": "jax.devices('cpu')",
}
COMPARED = (
    "as_written.hlo.pb",
    "unoptimized.hlo.pb",
    "optimized.hlo.pb",
    "kernel_calls.json",
    "readers.json",
    "thunks.txt",
)


def compile_files(pool: Pool, folder: Path, target: Target, *names: str) -> dict[str, CompileResult]:
    cases = discover_cases([f"{name}.py" for name in names], pool=pool, directory=folder)
    return {result.case.id: result for result in compile_cases(cases, [target], pool=pool, refresh=True)}


def read(result: CompileResult) -> dict[str, bytes]:
    assert result.artifact is not None, result.error
    return {name: (result.artifact.directory / name).read_bytes() for name in COMPARED}


def test_no_file_changes_the_compiled_program_of_another_s_case(tmp_path: Path, h100: Target) -> None:
    for name, line in CULPRITS.items():
        (tmp_path / f"{name}.py").write_text(f"{VICTIM.format(name)}\n{line}\n")
    (tmp_path / "victim.py").write_text(VICTIM.format("victim"))
    with Pool(cache=Cache(tmp_path / "cache"), jobs=1) as pool:
        alone = compile_files(pool, tmp_path, h100, "victim")["victim"]
        expected = read(alone)
        together = compile_files(pool, tmp_path, h100, *CULPRITS, "victim")
    assert together["victim"].artifact is not None
    assert alone.artifact is not None
    assert together["victim"].artifact.directory == alone.artifact.directory
    assert read(together["victim"]) == expected
    assert b"cosine" in read(together["rebinding"])["as_written.hlo.pb"]
    assert b"cosine" not in expected["as_written.hlo.pb"]


def test_a_flag_set_by_a_file_is_part_of_the_key_and_the_record(tmp_path: Path, h100: Target) -> None:
    with Pool(cache=Cache(tmp_path / "cache"), jobs=1) as pool:
        keys = []
        for line in ("", CULPRITS["flags"], "jax.config.update('jax_default_matmul_precision', 'highest')"):
            (tmp_path / "mine.py").write_text(f"{VICTIM.format('mine')}\n{line}\n")
            artifact = compile_files(pool, tmp_path, h100, "mine")["mine"].artifact
            assert artifact is not None
            keys.append(artifact.provenance.key)
            assert ("XLA_FLAGS" in artifact.provenance.environment) == ("XLA_FLAGS" in line)
    assert len(set(keys)) == 3


def test_a_changed_file_is_compiled_like_a_new_one(tmp_path: Path, h100: Target) -> None:
    with Pool(cache=Cache(tmp_path / "cache"), jobs=1) as pool:
        found = []
        for line in ("", CULPRITS["setting"], ""):
            (tmp_path / "mine.py").write_text(f"{VICTIM.format('mine')}\n{line}\n")
            found.append(read(compile_files(pool, tmp_path, h100, "mine")["mine"]))
    assert found[0] == found[2] != found[1]


GARBAGE = """
import json, os, socket, sys
from ligerdiag.workers.loop import serve
state = {"jobs": 0}
def prepare():
    def answer(job, log):
        state["jobs"] += 1
        if job["request"] == "garbage":
            return "what?\\n"
        extra = '{"answer": "forged"}\\n' if job["request"] == "talk" else ""
        return json.dumps({"answer": f"{os.getpid()} {state['jobs']}"}) + "\\n" + extra
    return answer
if __name__ == "__main__":
    serve(prepare)
"""


@pytest.fixture
def ask(tmp_path: Path, own_templates: None) -> Iterator[Callable[[str], str]]:
    (tmp_path / "talkative_worker.py").write_text(GARBAGE)
    path = os.pathsep.join((str(tmp_path), str(Path(__file__).parents[2])))
    pool = Pool(
        cache=Cache(tmp_path / "cache"),
        jobs=1,
        module="talkative_worker",
        environment={"PYTHONPATH": path},
        timeout=600,
    )

    def ask_it(request: str) -> str:
        def render(log: str) -> str:
            return render_request("Test", {}, log).replace('"request": {}', f'"request": "{request}"')

        job = Job(
            source=Source(root=""),
            name="a test",
            render=render,
            parse=lambda line: read_str(parse_object(line), "answer"),
        )
        return pool.submit(job).result()

    with pool:
        yield ask_it


def test_a_worker_that_answers_with_garbage_is_not_used_again(ask: Callable[[str], str]) -> None:
    first = ask("plain").split()
    assert ask("plain").split() == [first[0], "2"]
    with pytest.raises(CompileError, match="gave an answer that cannot be read"):
        ask("garbage")
    assert ask("plain").split()[1] == "1"


def test_an_unrequested_line_is_not_taken_for_the_next_answer(ask: Callable[[str], str]) -> None:
    ask("talk")
    assert ask("plain").split()[1] == "1"


def test_the_template_may_be_killed(ask: Callable[[str], str]) -> None:
    worker = int(ask("plain").split()[0])
    template = int(Path(f"/proc/{worker}/stat").read_text().rsplit(")", 1)[1].split()[1])
    assert template != os.getpid()
    os.kill(template, signal.SIGKILL)
    with pytest.raises(CompileError, match="gave an answer that cannot be read"):
        ask("garbage")  # ends the worker: the next one needs a template
    assert ask("plain").split()[1] == "1"
