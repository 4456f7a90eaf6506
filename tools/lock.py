"""Pins every package of every group and extra in `[tool.uv] constraint-dependencies`: `python tools/lock.py`.

The list in pyproject.toml has two parts. People choose the entries above the line `# resolved`, and they stay. uv's new
resolution of the dependencies and these choices replaces the entries below. uv.lock is not kept, because it names the
index that it was made with. The resolution runs in a temporary directory, so that a failing one changes nothing.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

MARK = "  # resolved: rewritten by `make lock`\n"
LIST = re.compile(r"(?ms)^constraint-dependencies = \[\n(?P<entries>.*?)^\]\n")
REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+?)(?:\s*;\s*(?P<marker>.+))?$")


def parse_choices(pyproject: str) -> str:
    """Returns the chosen part of the constraint list, unchanged."""
    found = LIST.search(pyproject)
    if found is None:
        raise SystemExit("expected `constraint-dependencies = [` in pyproject.toml")
    return found["entries"].partition(MARK)[0]


def parse_export(text: str) -> list[str]:
    """Returns the exact requirements of `uv export`, sorted; keeps a marker only if versions differ by it."""
    found = [match for line in text.splitlines() if (match := REQUIREMENT.match(line.strip()))]
    versions: dict[str, set[str]] = {}
    for match in found:
        versions.setdefault(match["name"], set()).add(match["version"])
    lines = {
        f"{match['name']}=={match['version']}"
        + (f" ; {match['marker']}" if match["marker"] and len(versions[match["name"]]) > 1 else "")
        for match in found
    }
    return sorted(lines, key=lambda line: line.replace("==", " "))


def render_pyproject(pyproject: str, choices: str, resolved: list[str]) -> str:
    """Returns the file with these choices and pins; a package that was chosen is not pinned twice."""
    chosen = set(re.findall(r'"([A-Za-z0-9._-]+)==', choices))
    pins = [line for line in resolved if line.partition("==")[0] not in chosen]
    quoted = "".join('  "{}",\n'.format(line.replace('"', "'")) for line in pins)
    body = choices + (MARK + quoted if pins else "")
    return LIST.sub(lambda _: f"constraint-dependencies = [\n{body}]\n", pyproject, count=1)


def run_uv_export(pyproject: str) -> str:
    """Returns uv's resolution of this pyproject.toml, without the results of an earlier one."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "pyproject.toml").write_text(pyproject, encoding="utf-8")
        Path(directory, "README.md").touch()
        options = "--no-hashes --no-header --no-annotate --all-groups --all-extras --no-emit-project --quiet"
        command = ["uv", "export", "--directory", directory, "--python", sys.executable, *options.split()]
        result = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if result.returncode:
        raise SystemExit("uv found no resolution; pyproject.toml is as it was")
    return result.stdout


def main() -> None:
    path = Path(__file__).parents[1] / "pyproject.toml"
    before = path.read_text(encoding="utf-8")
    choices = parse_choices(before)
    resolved = parse_export(run_uv_export(render_pyproject(before, choices, [])))
    path.write_text(render_pyproject(before, choices, resolved), encoding="utf-8")
    sys.stdout.write(f"pinned {len(resolved)} packages\n")


if __name__ == "__main__":
    main()
