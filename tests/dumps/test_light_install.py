"""`inspect` in an environment that has only the packages of docs/inspect-requirements.txt, without JAX and Triton."""

import json
import os
import re
import shutil
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from ligerdiag import missing_packages
from ligerdiag.artifacts.cache import Cache
from ligerdiag.missing_packages import describe_missing, is_missing, render_command
from ligerdiag.toolchains.toolchain import current_toolchain, worker_environment
from tests.dumps.conftest import ROOT
from tests.light_environment import list_requirements, measure_megabytes
from tools.running import Outcome, run_process

HEAVY = ("jax", "jaxlib", "jax_plugins", "jax_cuda13_plugin", "triton", "jax_triton", "scipy", "cloudpickle")
CONSTANT = ROOT / "cases" / "constant.py"


def run(python: Path, folder: Path, *words: str | Path) -> Outcome:
    environment = os.environ | {"LIGERDIAG_CACHE_DIR": str(folder / "cache")}
    environment.pop("PYTHONPATH", None)
    return run_process([str(python), "-m", "ligerdiag", *map(str, words)], cwd=folder, environment=environment)


def inspect_as_json(python: Path, folder: Path, dump: Path, *, code: int) -> dict[str, Any]:
    done = run(python, folder, "inspect", dump, "--no-replay", "--format", "json")
    assert done.code == code, done
    return json.loads(done.out)


@pytest.fixture(scope="module")
def updates(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """Returns a dump, as protobuf, of a program without kernels that works in place."""
    folder = tmp_path_factory.mktemp("updates")
    program = {"file": str(ROOT / "tests" / "dumps" / "programs" / "two_updates.py"), "id": "two_updates"}
    job = program | {"into": str(folder), "tagged": False, "flags": {"xla_dump_hlo_as_proto": True}}
    environment = worker_environment(current_toolchain(), Cache(cache).root)
    command = [sys.executable, "-m", "tests.dumps.make_dumps", json.dumps([job])]
    done = run_process(command, cwd=ROOT, environment=environment)
    assert done.code == 0, done.err
    return folder


def test_the_list_has_requirements_of_the_package_and_none_that_is_large() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert set(list_requirements()) <= set(dependencies)
    assert {re.split(r"[<>=]", line)[0].replace("-", "_") for line in list_requirements()}.isdisjoint(HEAVY)


@pytest.mark.nightly
def test_the_environment_is_small_and_has_neither_jax_nor_triton(light_python: Path, tmp_path: Path) -> None:
    assert measure_megabytes(light_python) < 200
    tries = f"import importlib.util as u; print([name for name in {HEAVY} if u.find_spec(name)])"
    done = run_process([str(light_python), "-c", tries], cwd=tmp_path, environment=os.environ)
    assert done.out == "[]\n", done


@pytest.mark.nightly
def test_a_dump_without_kernels_gets_the_same_report(light_python: Path, updates: Path, tmp_path: Path) -> None:
    light, full = (
        inspect_as_json(Path(python), tmp_path, updates, code=0) for python in (light_python, sys.executable)
    )
    assert light["cases"][0]["memory"]["copies"]
    assert len(light["cases"][0]["memory"]["requests"]) == 3
    for report in (light, full):
        report["seconds"] = report["cases"][0]["seconds"] = 0
    assert light == full


@pytest.mark.nightly
def test_a_kernel_that_cannot_be_read_makes_outputs_unknown_and_names_the_command(
    light_python: Path, dumps: Path, tmp_path: Path
) -> None:
    case = inspect_as_json(light_python, tmp_path, dumps / "fresh", code=1)["cases"][0]
    assert set(case["outputs"].values()) == {"unknown"}
    (finding,) = case["findings"]
    assert finding["rule"] == "LD014"
    said = {entry["label"]: entry["text"] for entry in finding["evidence"]}
    assert said["reason"].startswith(
        "reading the kernel needs `triton`, which is not installed: `pip install 'triton>="
    )
    assert "install the package that the reason names" in finding["help"]


@pytest.mark.nightly
def test_what_could_not_be_read_is_read_after_the_installation(light_python: Path, dumps: Path, tmp_path: Path) -> None:
    """The answer of the small environment is not kept in the cache."""
    inspect_as_json(light_python, tmp_path, dumps / "fresh", code=1)
    case = inspect_as_json(Path(sys.executable), tmp_path, dumps / "fresh", code=0)["cases"][0]
    assert set(case["outputs"].values()) == {"fresh"}


@pytest.mark.nightly
def test_text_needs_jaxlib_and_the_message_says_so(light_python: Path, dumps: Path, tmp_path: Path) -> None:
    (text,) = (dumps / "fresh").glob("*gpu_after_optimizations.txt")
    shutil.copy(text, tmp_path / "step.txt")
    done = run(light_python, tmp_path, "inspect", "step.txt")
    assert done.code == 3, done
    wanted = "`step.txt` is HLO text, whose parser needs `jaxlib`, which is not installed: `pip install 'jaxlib"
    assert wanted in done.out


@pytest.mark.nightly
def test_check_says_which_packages_it_needs(light_python: Path, tmp_path: Path) -> None:
    done = run(light_python, tmp_path, "check", CONSTANT)
    assert done.code == 3, done
    assert done.err.startswith("error: cannot compile for a GPU without `jax`, `jaxlib`, ")
    assert "`pip install 'jax" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.nightly
def test_every_format_and_the_pages_are_written(light_python: Path, updates: Path, tmp_path: Path) -> None:
    outputs = [f"--output={form}=report.{form}" for form in ("sarif", "junit", "markdown", "github", "json")]
    done = run(light_python, tmp_path, "inspect", updates, "--html", "pages", *outputs)
    assert done.code == 0, done
    assert "Traceback" not in done.err
    assert len(list(tmp_path.glob("report.*"))) == 5
    assert (tmp_path / "pages" / "index.html").is_file()


def test_a_command_has_the_versions_that_the_package_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _: ["triton>=3.6", 'triton==1 ; extra == "old"', "scipy"])
    assert render_command(["triton", "scipy", "numba"]) == "pip install 'triton>=3.6' scipy numba"
    assert describe_missing("this", "scipy") == "this needs `scipy`, which is not installed: `pip install scipy`"


def test_a_command_works_without_the_metadata_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> list[str]:
        raise missing_packages.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", refuse)
    assert render_command(["triton"]) == "pip install triton"
    assert not is_missing("numpy")
    assert is_missing("no_such_package_anywhere")
