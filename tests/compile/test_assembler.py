"""The scripts that replace ptxas change no byte of the judged files. The real ptxas comes from `nvidia-cuda-nvcc`."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ligerdiag.artifacts.artifact import AS_WRITTEN, OPTIMIZED, THUNKS, UNOPTIMIZED
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import Variation, compile_cases, discover_cases
from ligerdiag.compile.lowering import compile_job
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool

CASES = Path(__file__).parents[2] / "cases"
STAND_INS = Path(compile_job.__file__).with_name("assembler") / "bin"


def make_witnessed(folder: Path) -> Path:
    """Returns a file that gets a line for each kernel that the real ptxas assembles for the folder's scripts."""
    import nvidia

    found = [path for root in nvidia.__path__ for path in Path(root).glob("cu*/bin")]
    assert found, "nvidia-cuda-nvcc has no folder of binaries"
    (folder / "bin").mkdir(parents=True)
    calls = folder / "calls"
    for name in ("ptxas", "nvlink"):
        script = folder / "bin" / name
        script.write_text(f'#!/bin/sh\ncase "$*" in *-o*) echo {name} >>{calls};; esac\nexec {found[0] / name} "$@"\n')
        script.chmod(0o755)
    return calls


@pytest.mark.parametrize(
    "selector", ["seed_flce.py::seed_flce[False-float32-True-1-4-32-16]", "sharded_flce.py::sharded_flce[batch-hidden]"]
)
def test_modules_and_thunks_equal_those_with_the_real_ptxas(selector: str, tmp_path: Path) -> None:
    calls = make_witnessed(tmp_path / "real")
    flags = {"xla_gpu_cuda_data_dir": str(tmp_path / "real")}
    made: list[dict[str, bytes]] = []
    for name, variation in (("with", Variation(flags=flags)), ("without", Variation())):
        with Pool(cache=Cache(tmp_path / name), jobs=1, timeout=600) as pool:
            case, *_ = discover_cases([str(CASES / selector)], pool=pool)
            (result,) = compile_cases([case], [load_target("h100")], pool=pool, variation=variation)
        assert result.artifact is not None, result.error
        files = (AS_WRITTEN, UNOPTIMIZED, OPTIMIZED, THUNKS)
        made.append({file: (result.artifact.directory / file).read_bytes() for file in files})
        assembled = calls.read_text().count("ptxas") if calls.exists() else 0
        assert (assembled > 5) == (name == "with")
        calls.unlink(missing_ok=True)
    assert made[0] == made[1]


def test_the_replacements_run_and_are_part_of_the_wheel(tmp_path: Path) -> None:
    output = tmp_path / "kernel.cubin"
    for name in ("ptxas", "nvlink"):
        done = subprocess.run([STAND_INS / name, "--version"], check=True, capture_output=True, text=True)
        assert "release 13." in done.stdout
        subprocess.run([STAND_INS / name, "kernel.ptx", "-o", output, "-arch=sm_90a"], check=True)
        assert output.read_bytes() == b""
        output.unlink()
        assert subprocess.run([STAND_INS / name, "kernel.ptx"], check=False, capture_output=True).returncode == 1
    assert shutil.which("ptxas", path=str(STAND_INS))


def test_the_replacement_names_the_newest_ptx_it_supports() -> None:
    """Mosaic GPU passes ptxas a version that no ptxas supports, and parses the version in its error message."""
    told = subprocess.run(
        [STAND_INS / "ptxas", "--input-as-string", ".version 99.99"], capture_output=True, text=True, check=False
    )
    assert told.returncode != 0
    assert "current version is '9.0'" in told.stderr
