"""The work for a judgement grows in proportion to the module, even if each of its blocks calls a kernel.

The test counts calls of functions, which are the same on every machine; four times the blocks may take five times as
many.
"""

from cProfile import Profile
from pathlib import Path

import pytest

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.xla_pb2 import HloProto
from ligerdiag.inspection.compilation import analyse_compilation
from ligerdiag.inspection.coverage import Compilation
from ligerdiag.model.findings import Verdict
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tools.repeat_module import repeat_module

ROOT = Path(__file__).parents[2]
FEW, MANY = 30, 120
GROWTH = 5.0


def compile_case(selector: str, cache: Cache) -> Artifact:
    with Pool(cache=cache, jobs=1) as pool:
        (case,) = discover_cases([str(ROOT / selector)], pool=pool)
        (result,) = compile_cases([case], [load_target("h100")], pool=pool)
    assert result.artifact is not None, result.error
    return result.artifact


def count_calls(artifact: Artifact, blocks: int, folder: Path, effects: Path) -> tuple[int, set[Verdict]]:
    """Judges the module repeated `blocks` times, without tags; returns the number of calls and the outputs' verdicts."""
    found: list[Path] = []
    for number, path in enumerate((artifact.optimized, artifact.unoptimized)):
        module = HloProto()
        module.ParseFromString(path.read_bytes())
        for computation in module.hlo_module.computations:
            for one in computation.instructions:
                one.metadata.op_name = one.metadata.op_name.partition("#ld")[0]
        found.append(folder / f"{blocks}_{number}.hlo.pb")
        found[-1].write_bytes(repeat_module(module, blocks, every_kernel=True).SerializeToString())
    (optimized, buffers), (program, _) = map(load_hlo, found)
    compilation = Compilation(
        name="repeated", program=program, as_written=False, optimized=optimized, buffers=buffers, output_names=()
    )
    profile = Profile()
    inspection = profile.runcall(analyse_compilation, compilation, effects_cache=effects).inspection
    return sum(entry.callcount for entry in profile.getstats()), set(inspection.outputs.values())


@pytest.mark.nightly
def test_four_times_the_kernels_take_about_four_times_the_work(shared_cache: Path, tmp_path: Path) -> None:
    """Each instruction may belong to any block."""
    artifact = compile_case("cases/bf16_flce.py::bf16_flce[False-True-1-4-32-16]", Cache(shared_cache))
    few, verdicts = count_calls(artifact, FEW, tmp_path, tmp_path)
    many, same = count_calls(artifact, MANY, tmp_path, tmp_path)
    assert verdicts == same
    assert many < GROWTH * few, (few, many)
