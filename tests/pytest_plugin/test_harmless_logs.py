"""pytest does not show JAX's log of a missing CUDA library with every failing test, and shows all others."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from ligerdiag.harmless_logs import LOGGER, has_nvidia_device, hide_harmless_logs, keep_record

SAID = "Jax plugin configuration error: Exception when calling jax_plugins.xla_cuda13.initialize()"


def make_record(message: str, error: str = "") -> logging.LogRecord:
    try:
        raise RuntimeError(error)
    except RuntimeError:
        return logging.LogRecord(LOGGER, logging.ERROR, "f.py", 1, message, (), sys.exc_info() if error else None)


@pytest.mark.parametrize(
    ("message", "error", "kept"),
    [
        (SAID, "Unable to load cuDNN. Is it installed?", False),
        (SAID, "Unable to load cuSPARSE. Is it installed?", False),
        (SAID, "the driver is too old", True),
        (SAID, "", True),
        ("Unable to load cuDNN", "Unable to load cuDNN", True),
    ],
)
def test_only_the_log_of_a_missing_library_is_left_out(message: str, error: str, kept: bool) -> None:
    assert keep_record(make_record(message, error)) is kept


@pytest.mark.parametrize(("gpu", "debug", "hidden"), [(False, "", True), (True, "", False), (False, "1", False)])
def test_the_log_stays_on_a_machine_with_a_gpu(
    gpu: bool, debug: str, hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ligerdiag.harmless_logs.has_nvidia_device", lambda: gpu)
    monkeypatch.setenv("LIGERDIAG_DEBUG", debug)
    logger = logging.getLogger(LOGGER)
    before = list(logger.filters)
    logger.filters.clear()
    try:
        hide_harmless_logs()
        hide_harmless_logs()
        assert logger.filters == ([keep_record] if hidden else [])
    finally:
        logger.filters[:] = before


@pytest.mark.skipif(has_nvidia_device(), reason="has a GPU")
def test_a_failing_test_that_makes_an_array_does_not_show_the_log(pytester: pytest.Pytester) -> None:
    """Runs in another process, in which JAX looks for its plugins for the first time."""
    pytester.makepyfile("def test_it():\n    import jax.numpy as jnp\n    assert jnp.ones(2).sum() == 3\n")
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    done.assert_outcomes(failed=1)
    done.stdout.no_fnmatch_line("*cuDNN*")
    done.stdout.no_fnmatch_line("*Captured log*")


SCRIPTS = {
    "the checker is imported first": "import ligerdiag\nimport jax.numpy as jnp\n",
    "JAX is imported first": "import jax.numpy as jnp\nimport ligerdiag\n",
}


@pytest.mark.skipif(has_nvidia_device(), reason="has a GPU")
@pytest.mark.parametrize("order", SCRIPTS)
def test_a_script_that_makes_an_array_shows_its_own_output_alone(
    order: str, shared_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.delenv("LIGERDIAG_DEBUG", raising=False)
    text = f"""{SCRIPTS[order]}
import logging, sys, warnings
x = jnp.ones((2, 2))
logging.getLogger("mine").error("my log")
report = ligerdiag.check(lambda x: x @ x, x, replay=False, cache_directory=sys.argv[1])
print(report.status)
print("my words", file=sys.stderr)
"""
    (tmp_path / "script.py").write_text(text)
    command = [sys.executable, "script.py", str(shared_cache)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stdout) == (0, "nothing to check\n"), done.stderr
    assert done.stderr == "my log\nmy words\n"
