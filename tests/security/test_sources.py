"""The files that a report quotes, and the comments it obeys, through the command line."""

from pathlib import Path

import pytest

from tests.security.conftest import Run

CALL = "count = jax_triton.triton_call("
STORE = "tl.store(x_ptr + offsets, tl.minimum(x, 1.0))"
ALLOW = "# ligerdiag: allow LD001, LD002, LD003, LD004, LD006 it excuses itself"


def test_inspect_quotes_nothing_unless_a_root_is_given(
    run: Run, artifact: Path, workplace: Path, tmp_path: Path
) -> None:
    files = {form: tmp_path / form for form in ("json", "sarif", "markdown", "junit", "github")}
    issue = tmp_path / "issue"
    outputs = [word for form, file in {**files, "issue": issue}.items() for word in ("--output", f"{form}={file}")]
    done = run("inspect", artifact, "--no-replay", *outputs, "--html", tmp_path / "html", cwd=workplace / "mine")
    assert done.returncode == 1, done.stderr
    pages = "".join(page.read_text() for page in (tmp_path / "html").iterdir())
    for said in (done.stdout, *(file.read_text() for file in files.values())):
        for text in (CALL, STORE):
            assert text not in said + pages
        assert "mine.py" in said
    assert "This report has no program" in issue.read_text()
    assert "its versions and flags are not in it" in issue.read_text()
    written = "".join(file.read_text() for file in tmp_path.glob("issue*"))  # the HLO may have a file of its own
    assert not any(text in written for text in (CALL, STORE))
    shown = run("inspect", artifact, "--no-replay", "--source-root", workplace / "mine", cwd=tmp_path)
    assert CALL in shown.stdout
    assert STORE in shown.stdout
    other = run("inspect", artifact, "--no-replay", "--source-root", tmp_path, cwd=tmp_path)
    assert CALL not in other.stdout


def test_check_quotes_the_project_of_its_case_wherever_it_runs(
    run: Run, artifact: Path, workplace: Path, tmp_path: Path
) -> None:
    del artifact  # it is compiled
    mine = workplace / "mine" / "mine.py"
    for cwd in (workplace / "mine", tmp_path):
        done = run("check", mine, "--no-replay", cwd=cwd)
        assert CALL in done.stdout
        assert STORE in done.stdout
    done = run("check", mine, "--no-replay", "--source-root", tmp_path, cwd=workplace / "mine")
    assert CALL not in done.stdout


def test_a_root_that_is_not_a_folder_is_an_input_error(run: Run, workplace: Path, tmp_path: Path) -> None:
    done = run("inspect", tmp_path, "--source-root", "nowhere", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: expected a folder for --source-root but got `nowhere`\n")


@pytest.fixture
def excusing(artifact: Path, workplace: Path, tmp_path: Path) -> Path:
    """A dump together with its sources, each line of which allows everything, and with a configuration."""
    folder = tmp_path / "dump"
    folder.mkdir()
    lines = (workplace / "mine" / "mine.py").read_text().splitlines()
    (folder / "mine.py").write_text("".join(f"{line}  {ALLOW}\n" if line else "\n" for line in lines))
    old, new = str(workplace / "mine" / "mine.py").encode(), str(folder / "mine.py").encode()
    for name, stage in (("unoptimized", "before_optimizations"), ("optimized", "sm_9.0_gpu_after_optimizations")):
        text = (artifact / f"{name}.hlo.pb").read_bytes()
        assert old in text
        (folder / f"module_0001.jit_step.{stage}.hlo.pb").write_bytes(_replace(text, old, new))
    (folder / "pyproject.toml").write_text(
        '[tool.ligerdiag]\nfail_on = "never"\n'
        '[[tool.ligerdiag.suppress]]\nrule = "LD006"\nreason = "it excuses itself"\n'
    )
    return folder


def _replace(data: bytes, old: bytes, new: bytes) -> bytes:
    """Exchanges a file name in a serialized module."""
    from ligerdiag.hlo import xla_pb2

    module = xla_pb2.HloProto.FromString(data)
    names = module.hlo_module.stack_frame_index.file_names
    for number, name in enumerate(names):
        names[number] = name.replace(old.decode(), new.decode())
    return module.SerializeToString()


@pytest.mark.parametrize("words", [(), ("--source-root", ".")], ids=["no root", "the dump as root"])
def test_a_dump_does_not_excuse_itself(words: tuple[str, ...], run: Run, excusing: Path) -> None:
    done = run("inspect", ".", "--no-replay", *words, cwd=excusing)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "it excuses itself" not in done.stdout.replace(ALLOW, "")
    assert f"`{excusing / 'pyproject.toml'}` came with the inspected files and is ignored" in done.stdout


def test_the_user_s_own_comments_and_configuration_count(run: Run, excusing: Path) -> None:
    file = next(excusing.glob("*after_optimizations*"))
    moved = excusing.parent / "moved"
    moved.mkdir()
    for path in excusing.glob("*.pb"):
        path.rename(moved / path.name)
    done = run("inspect", moved / file.name, "--no-replay", "--source-root", excusing, "-v", cwd=excusing)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "it excuses itself" in done.stdout
