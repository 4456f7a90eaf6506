"""Nothing in the folder where a command runs is imported: no `pickle.py`, no `numpy`."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.security.conftest import Run

EXIT_CODES = (0, 1, 3, 4)


@pytest.fixture
def dump(artifact: Path, hostile: Path) -> Path:
    """The hostile folder, with XLA's dump beside its modules."""
    for name in ("unoptimized.hlo.pb", "optimized.hlo.pb"):
        stage = "before_optimizations" if name.startswith("un") else "sm_9.0_gpu_after_optimizations"
        shutil.copy(artifact / name, hostile / f"module_0001.jit_step.{stage}.hlo.pb")
    return hostile


def test_importing_the_modules_does_leave_a_mark(run: Run, hostile: Path, markers: Path, workplace: Path) -> None:
    run("list", cwd=hostile, PYTHONPATH=str(hostile))
    assert list(markers.iterdir()) != []


def test_python_m_imports_from_the_current_folder(hostile: Path, markers: Path) -> None:
    """Python does this, which is why the page says to use the command."""
    subprocess.run([sys.executable, "-m", "ligerdiag", "list"], cwd=hostile, capture_output=True, check=False)
    assert list(markers.iterdir()) != []


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("inspect", "."), id="inspect"),
        pytest.param(("inspect", ".", "--no-replay", "--html", "{pages}"), id="inspect --html"),
        pytest.param(("report", ".", "--html", "{pages}"), id="report"),
        pytest.param(("diff", ".", "{artifact}"), id="diff"),
    ],
)
def test_reading_a_dump_imports_nothing_from_it(
    words: tuple[str, ...],
    run: Run,
    dump: Path,
    artifact: Path,
    markers: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    texts = [word.format(pages=tmp_path / "pages", artifact=artifact) for word in words]
    done = run(*texts, cwd=dump, cache=f"cold-{request.node.callspec.id}")  # cold: kernels are read by workers
    assert done.returncode in EXIT_CODES, done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in markers.iterdir()] == []


def test_hlo_text_is_parsed_without_the_folder(run: Run, hostile: Path, markers: Path) -> None:
    text = "HloModule m, is_scheduled=true\n\nENTRY e {\n  p = f32[2] parameter(0)\n"
    text += '  ROOT c = f32[2] custom-call(p), custom_call_target="triton_kernel_call"\n}\n'
    (hostile / "step.txt").write_text(text)
    done = run("inspect", "step.txt", cwd=hostile)
    assert done.returncode in EXIT_CODES, done.stderr
    assert [path.name for path in markers.iterdir()] == []


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("check", "{mine}", "--refresh", "--jobs", "1"), id="check"),
        pytest.param(("bisect", "{mine}", "--over", "targets", "--target", "h100", "--no-replay"), id="bisect"),
        pytest.param(("diff", "{mine}", "--targets", "h100,a100"), id="diff of two compiles"),
    ],
)
def test_a_case_from_elsewhere_imports_nothing_from_the_current_folder(
    words: tuple[str, ...], run: Run, hostile: Path, workplace: Path, artifact: Path, markers: Path
) -> None:
    done = run(*(word.format(mine=workplace / "mine" / "mine.py") for word in words), cwd=hostile)
    assert done.returncode in EXIT_CODES, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in markers.iterdir()] == []
