"""The commands of the Containerfile, run by sh in a new environment: no container engine is needed, or asked.

The layers, the base image and the user are not tested: an engine would have to download the image.
docs/measurements/2026-11-27-container.md tells how they were tried by hand.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from ligerdiag.toolchains.environments import find_uv
from tools.documents import ROOT

_CONTINUED = re.compile(r"\\\n")


def read_instructions() -> list[tuple[str, str]]:
    """Returns the instructions of the Containerfile with their words, in order."""
    lines = _CONTINUED.sub("", (ROOT / "Containerfile").read_text(encoding="utf-8")).splitlines()
    parts = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(name, words) for name, _, words in parts]


def find_words(name: str) -> list[str]:
    return [words for instruction, words in read_instructions() if instruction == name]


def read_variables(name: str) -> dict[str, str]:
    """Returns the variables that `ARG` or `ENV` instructions set."""
    pairs = [pair.partition("=") for words in find_words(name) for pair in shlex.split(words)]
    return {key: value for key, _, value in pairs}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of an environment in which the RUN instruction has installed the files that COPY copies. Their
    dependencies are those of the tests.
    """
    folder = tmp_path_factory.mktemp("image")
    copy_context(folder / "source")
    build = [*find_uv(ROOT), "build", "--wheel", "--quiet", "--out-dir", str(folder)]
    done = subprocess.run(build, cwd=folder / "source", capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=600)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    (command,) = find_words("RUN")
    environment = make_environment(folder) | read_variables("ARG") | {"LIGERDIAG": str(wheel)}
    environment |= {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_IGNORE_INSTALLED": "1"}
    done = subprocess.run(
        ["sh", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "ligerdiag 0." in done.stdout
    return folder


def list_context() -> list[str]:
    """Returns the files and folders of this repository that .dockerignore lets an engine copy into the image."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert rules[-1] == "**/__pycache__", "the last rule that matches decides"
    assert all(rule.startswith("!") for rule in rules[1:-1])
    return [rule.removeprefix("!") for rule in rules[1:-1]]


def copy_context(folder: Path) -> None:
    for name in list_context():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)


def make_environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join((str(folder / "venv" / "bin"), "/usr/local/bin", "/usr/bin", "/bin"))
    return {"PATH": path, "LANG": "C.UTF-8"}


def test_the_image_starts_from_a_python_that_the_package_allows() -> None:
    assert read_instructions()[0][0] == "FROM"
    assert find_words("FROM") == ["docker.io/library/python:3.12-slim"]
    assert read_variables("ARG") == {"LIGERDIAG": "/source[jax-triton]", "PACKAGES": ""}
    assert find_words("USER") == ["1000:1000"], "the image must not run as root"


def test_the_image_has_the_package_of_the_folder_that_it_is_built_from_and_nothing_else_of_it() -> None:
    assert find_words("COPY") == [". /source"]
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, wheel = built["project"], built["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", project["readme"], *project["license-files"], *wheel["packages"]}
    assert set(list_context()) == needed


@pytest.mark.nightly
def test_the_image_checks_the_folder_and_keeps_what_it_compiled_there(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "step.py").write_text(
        "from ligerdiag import Arg, Case\n"
        "CASE = Case(name='step', function=lambda x: {'y': x.at[0].set(0.0)}, args=(Arg(shape=(8, 64), donate=True),))\n"
    )
    words = [word for name in ("ENTRYPOINT", "CMD") for word in parse_form(find_words(name)[0])]
    assert words == ["ligerdiag", "check"]
    variables = read_variables("ENV") | {"HOME": str(tmp_path / "home")}
    variables["LIGERDIAG_CACHE_DIR"] = variables["LIGERDIAG_CACHE_DIR"].replace("/work", str(tmp_path))
    done = subprocess.run(
        ["sh", "-ec", shlex.join(words)],
        cwd=tmp_path,
        env=make_environment(installed) | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done
    assert re.search(r"^step +fresh +agrees ", done.stdout, re.MULTILINE), done
    assert list((tmp_path / ".ligerdiag" / "artifacts").iterdir())


def parse_form(words: str) -> list[str]:
    """Returns the words of the JSON form of an instruction."""
    found = json.loads(words)
    assert all(isinstance(word, str) for word in found)
    return found
