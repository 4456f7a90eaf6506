"""A package index and `pip install` get a complete wheel, its licence, and a description with no dangling links."""

import re
import subprocess
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from ligerdiag.toolchains.environments import find_uv

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [*find_uv(ROOT), "build", "--wheel", "--quiet", "--out-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def find(wheel: zipfile.ZipFile, end: str) -> str:
    (name,) = (name for name in wheel.namelist() if name.endswith(end))
    return wheel.read(name).decode()


def test_the_licence_is_named_and_shipped(wheel: zipfile.ZipFile) -> None:
    metadata = Parser().parsestr(find(wheel, ".dist-info/METADATA"))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert find(wheel, ".dist-info/licenses/LICENSE") == (ROOT / "LICENSE").read_text()


def test_the_description_has_only_absolute_links(wheel: zipfile.ZipFile) -> None:
    description = Parser().parsestr(find(wheel, ".dist-info/METADATA")).get_payload()
    assert isinstance(description, str)
    targets = re.findall(r"\]\(([^)]+)\)", description)
    assert [target for target in targets if not target.startswith("https://")] == []
    assert "ligerdiag init" in description


def test_the_wheel_has_no_cases_and_the_help_promises_none(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert not [name for name in names if name.startswith(("cases/", "kernels/", "tests/", "tools/"))]
    assert "come with it" not in find(wheel, "ligerdiag/cli/main.py")
    starter = {name for name in names if name.startswith("ligerdiag/cli/starter/")}
    assert starter == {f"ligerdiag/cli/starter/{path.name}" for path in (ROOT / "ligerdiag/cli/starter").iterdir()}
    assert "ligerdiag/cli/starter/case.py.txt" in starter
