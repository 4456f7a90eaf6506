"""The key of a stored replay covers all code that computes its numbers."""

import ast
from collections.abc import Iterator
from pathlib import Path

from ligerdiag.replay import replay_service

PACKAGE = Path(replay_service.__file__).parents[1]


def list_imports_of_compile(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ligerdiag.compile.cases."):
            yield f"{(node.module or '').removeprefix('ligerdiag.').replace('.', '/')}.py"


def test_the_code_that_draws_arguments_is_part_of_the_fingerprint() -> None:
    parts = replay_service._PARTS  # pyright: ignore[reportPrivateUsage]
    drawing = [PACKAGE / part for part in parts if part.startswith("compile/")]
    files = [*(PACKAGE / "replay" / "runs").glob("*.py"), PACKAGE / "replay" / "dump_replay.py", *drawing]
    found = {name for file in files for name in list_imports_of_compile(file)}
    assert len(found) >= 2
    assert found <= set(parts)
