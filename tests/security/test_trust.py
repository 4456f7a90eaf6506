"""Only the user's own case runs, with the paths that it needs, and no code of anybody else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ligerdiag.effects.call import CustomCall
from ligerdiag.effects.effects_worker import EFFECTS_WORKER, make_effects_job
from ligerdiag.effects.isolated import read_modules_isolated
from ligerdiag.sandbox.child import lend_entries
from ligerdiag.toolchains.toolchain import describe_interpreter
from ligerdiag.workers.pool import Pool
from tests.security.conftest import Run

CASE = "from ligerdiag import Arg, Case\nCASE = Case(name={}, function=abs, args=(Arg(shape=(4,)),))\n"
AUDITED = """
import sys
seen = []
sys.addaudithook(lambda event, arguments: seen.append(arguments) if event == "pickle.find_class" else None)
from ligerdiag.cli.main import main
try:
    main()
finally:
    sys.stderr.write(f"unpickled: {len(seen)}\\n")
"""


def test_a_case_file_is_run_as_the_user(run: Run, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "case.py").write_text(f"open({str(mark)!r}, 'w').close()\n" + CASE.format("'mine'"))
    done = run("list", "case.py", "--ids", cwd=tmp_path)
    assert done.stdout == "mine\n", done.stderr
    assert mark.exists()


def test_a_case_imports_from_its_project_pythonpath_and_installed_packages(run: Run, tmp_path: Path) -> None:
    project = tmp_path / "project"
    for folder in (project / "inner", tmp_path / "lib", tmp_path / "far"):
        folder.mkdir(parents=True)
    (project / "pyproject.toml").touch()
    (project / "in_root.py").write_text("NAME = 'root'\n")
    (project / "inner" / "beside.py").write_text("NAME = 'beside'\n")
    (tmp_path / "lib" / "on_path.py").write_text("NAME = 'path'\n")
    (tmp_path / "far" / "by_program.py").write_text("NAME = 'program'\n")
    imports = "import subprocess, sys, in_root, beside, on_path, numpy\n"
    started = "said = subprocess.run([sys.executable, '-c', 'import by_program; print(by_program.NAME)'],"
    started += " capture_output=True, text=True, check=True).stdout.strip()\n"
    names = "'-'.join((in_root.NAME, beside.NAME, on_path.NAME, numpy.__name__, said))"
    (project / "inner" / "case.py").write_text(imports + started + CASE.format(names))
    path = os.pathsep.join(("lib", str(tmp_path / "far")))
    done = run("list", "project/inner/case.py", "--ids", cwd=tmp_path, PYTHONPATH=path)
    assert done.stdout == "root-beside-path-numpy-program\n", done.stderr


def test_a_worker_runs_in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    call = CustomCall(target="triton_kernel_call", backend_config=b"", operands=1, outputs=1)
    with Pool(toolchain=describe_interpreter(), jobs=1, module=EFFECTS_WORKER) as pool:
        pool.submit(make_effects_job(call)).result()
        (worker,) = pool._workers  # pyright: ignore[reportPrivateUsage]
        process = Path(f"/proc/{worker._process.pid}")  # pyright: ignore[reportPrivateUsage]
        assert os.readlink(process / "cwd") == str(pool._folder.path)  # pyright: ignore[reportPrivateUsage]
        assert b"-P" in (process / "cmdline").read_bytes().split(b"\0")
        variables = dict(one.partition(b"=")[::2] for one in (process / "environ").read_bytes().split(b"\0"))
        assert str(tmp_path).encode() not in variables.get(b"PYTHONPATH", b"").split(os.pathsep.encode())


def test_the_effects_of_a_stranger_s_kernel_are_not_kept(
    artifact: Path, run: Run, workplace: Path, tmp_path: Path
) -> None:
    done = run("inspect", str(artifact), cwd=tmp_path, cache="reading")
    assert done.returncode == 1, done.stderr
    assert "LD0" in done.stdout
    assert [path for path in (workplace / "reading").rglob("*") if path.is_file()] == []


def test_known_effects_of_a_kernel_are_read_but_not_written(tmp_path: Path) -> None:
    module, other = (b"module { tt.func public @%c() { tt.return } }" % name for name in b"kl")
    known, own = tmp_path / "known", tmp_path / "own"
    read_modules_isolated([module], known)
    (entry,) = known.iterdir()
    entry.write_text("true")
    lend_entries(known, own)
    (found,) = read_modules_isolated([module], own).values()
    assert found.read_text() == "true"
    assert len(read_modules_isolated([module, other], own)) == 2
    assert len([path for path in own.iterdir() if path.is_file()]) == 1
    assert list(known.iterdir()) == [entry]


def test_reading_needs_no_pickle(artifact: Path, tmp_path: Path) -> None:
    (tmp_path / "audited.py").write_text(AUDITED)
    environment = os.environ | {"LIGERDIAG_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(tmp_path / "audited.py"), "inspect", str(artifact), "--html", str(tmp_path / "html")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr.endswith("unpickled: 0\n")
