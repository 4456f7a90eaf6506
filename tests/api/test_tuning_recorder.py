"""The worker that records the choices of XLA's autotuner reports a missing GPU and takes the next case."""

from pathlib import Path

import pytest

from ligerdiag.api.tuning_recorder import tune_cases
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import discover_cases
from ligerdiag.errors import InputError
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.workers.pool import Pool

PROGRAMS = Path(__file__).parents[1] / "compile" / "programs"

pytestmark = pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="there is an NVIDIA GPU on this machine")


def test_each_case_gets_the_error_and_nothing_is_raised(tmp_path: Path) -> None:
    cache, toolchain = Cache(tmp_path / "cache"), current_toolchain()
    with Pool(cache=cache, jobs=1) as pool:
        cases = discover_cases(["products.py", "doubling.py::single"], pool=pool, directory=PROGRAMS)
    found = list(tune_cases(cases, tmp_path / "tuned.pbtxt", cache=cache, toolchain=toolchain, timeout=120.0))
    assert [one.case.id for one in found] == ["products", "single"]
    for one in found:
        assert isinstance(one.error, InputError)
        assert str(one.error).startswith("`ligerdiag record-tuning` needs a GPU that JAX can use, and JAX finds none")
        assert (one.results, one.artifact) == (b"", None)
    assert not (tmp_path / "tuned.pbtxt").exists()
