"""Workers of other toolchains are forked too, and the effects of one file reach no other file.

The environments are large, so a test runs only if its environment exists already, see `test_other_toolchains`.
"""

from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.toolchains.environments import describe_toolchain, locate_environment
from ligerdiag.toolchains.gpu_targets import Target, load_target
from ligerdiag.toolchains.toolchain import Toolchain
from ligerdiag.toolchains.toolchain_table import find_spec, known_toolchains
from ligerdiag.workers.pool import Pool
from tests.compile.test_contamination import COMPARED, CULPRITS, VICTIM
from tests.compile.test_other_toolchains import require

NAMES = [spec.name for spec in known_toolchains()]
KERNEL = Path(__file__).parent / "programs" / "doubling.py"


def find_toolchain(name: str) -> Toolchain:
    """Returns the toolchain; skips the test if its environment does not exist."""
    require(name, may_create=False)
    spec = find_spec(name)
    return describe_toolchain(spec, locate_environment(spec, Cache()))


def compile_files(folder: Path, target: Target, pool: Pool, *selectors: str) -> dict[str, dict[str, bytes]]:
    """Returns each case with the bytes of its artifact's files."""
    found: dict[str, dict[str, bytes]] = {}
    cases = discover_cases(selectors, pool=pool, directory=folder)
    for result in compile_cases(cases, [target], pool=pool):
        assert result.artifact is not None, result.error
        found[result.case.id] = {name: (result.artifact.directory / name).read_bytes() for name in COMPARED}
    return found


def forks(pool: Pool) -> bool:
    starters = pool._templates._starters.values()  # pyright: ignore[reportPrivateUsage]
    return any(starter._template is not None for starter in starters)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.usefixtures("own_templates")
@pytest.mark.parametrize("name", NAMES)
def test_forked_workers_separate_files_and_compile_like_a_fresh_process(
    name: str, tmp_path: Path, h100: Target
) -> None:
    toolchain = find_toolchain(name)
    target = h100 if toolchain.platform is h100.platform else load_target("mi300")
    for culprit, line in CULPRITS.items():
        (tmp_path / f"{culprit}.py").write_text(f"{VICTIM.format(culprit)}\n{line}\n")
    (tmp_path / "victim.py").write_text(VICTIM.format("victim"))
    selectors = ("victim.py", f"{KERNEL}::step")
    with Pool(cache=Cache(tmp_path / "alone"), toolchain=toolchain, jobs=1, forks=False) as pool:
        expected = compile_files(tmp_path, target, pool, *selectors)
        assert not forks(pool)
    with Pool(cache=Cache(tmp_path / "forked"), toolchain=toolchain, jobs=1) as pool:
        together = compile_files(tmp_path, target, pool, *(f"{name}.py" for name in CULPRITS), *selectors)
        assert forks(pool)
    assert len(expected) == 2
    assert {name: together[name] for name in expected} == expected
    assert b"cosine" in together["rebinding"]["as_written.hlo.pb"]
