"""An artifact in the cache is not used after something outside has changed that the user's code read: an environment
variable, the contents or the presence of a file, the names in a folder.
"""

import json
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool

PROGRAM = """
import json
import os
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from ligerdiag import Arg, Case

FOLDER = Path(__file__).parent
ROWS = json.loads((FOLDER / "config.json").read_text())["rows"]


def step(x):
    weights = np.load(FOLDER / "weights.npy")
    if os.environ.get("PROGRAM_IS_SAFE", "1") == "1":
        x = x + 1
    os.environ["PROGRAM_SETS"] = "1"
    assert os.getenv("PROGRAM_SETS")
    if (FOLDER / "note.txt").exists():
        x = x + 2
    exec((FOLDER / "constants.py").read_text())
    parts = [one.name for one in (FOLDER / "parts").iterdir()]
    os.environb.get(b"PROGRAM_BYTES")
    (FOLDER / "log.txt").write_text("traced")
    return jnp.sum(x * weights)


CASE = Case(name="reader", function=step, args=(Arg(shape=(ROWS, 2)),))
"""


def test_what_the_users_code_reads_is_part_of_the_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    def is_cached() -> bool:
        with Pool(cache=Cache(tmp_path / "cache"), jobs=1) as pool:
            cases = discover_cases(["program.py"], pool=pool, directory=tmp_path)
            (result,) = compile_cases(cases, [load_target("h100")], pool=pool)
        assert result.error is None
        return result.cached

    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "config.json").write_text(json.dumps({"rows": 4}))
    (tmp_path / "constants.py").write_text("K = 1")
    (tmp_path / "parts").mkdir()
    np.save(tmp_path / "weights.npy", np.ones(2, np.float32))
    assert not is_cached()
    assert is_cached()
    monkeypatch.setenv("PROGRAM_IS_SAFE", "0")
    assert not is_cached()
    assert is_cached()
    monkeypatch.setenv("PROGRAM_SETS", "2")  # the program sets it before it reads it
    monkeypatch.setenv("PROGRAM_DOES_NOT_READ", "2")
    (tmp_path / "log.txt").write_text("another")
    assert is_cached()
    (tmp_path / "config.json").write_text(json.dumps({"rows": 8}))
    assert not is_cached()
    np.save(tmp_path / "weights.npy", np.full(2, 3, np.float32))
    assert not is_cached()
    assert is_cached()
    (tmp_path / "note.txt").write_text("present")
    assert not is_cached()
    (tmp_path / "note.txt").write_text("present, with another text")
    assert is_cached()
    (tmp_path / "constants.py").write_text("K = 2")
    assert not is_cached()
    (tmp_path / "parts" / "one.txt").touch()
    assert not is_cached()
    monkeypatch.setenv("PROGRAM_BYTES", "1")
    assert not is_cached()
    assert is_cached()
    monkeypatch.delenv("PROGRAM_IS_SAFE")
    assert not is_cached()
