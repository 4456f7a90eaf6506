"""Writes a copy of the benchmark in which every identifier of the programs has another, random name.

Renamed are the functions, parameters and variables that a file defines, the names of its outputs and cases, and the
instructions and computations of an HLO module. The names that `benchmark.report` asks for and those of libraries stay, and
so do comments, in which the marks are.
"""

import random
import re
import shutil
import string
from collections.abc import Sequence
from pathlib import Path

import libcst as cst

from benchmark.report import FOLDER, load_entry

_KEPT = {"REPORT", "BAD", "CURED", "CASES", "self"}
_WORDS = """
args axis axes name params function mesh donate draw dtype shape reference kernel grid written outputs out_shape in_specs
out_specs num_warps num_stages length keepdims mask other seed kind partition effects high low dim at mode keep_unused
input_output_aliases zeroed_outputs compiler_params reads writes donate_argnums
"""
_LIBRARY = frozenset(_WORDS.split())
"""Names that calls of libraries take as keywords, and that a file therefore may not lose."""
_HLO_NAME = re.compile(r"%[A-Za-z_][\w.-]*")


def write_renamed_copy(target: Path, seed: int, names: Sequence[str]) -> None:
    """Writes the package `benchmark` with these reports into the folder, renamed."""
    package = target / "benchmark"
    shutil.copytree(FOLDER.parent, package, ignore=shutil.ignore_patterns("reports", "__pycache__", "*.json"))
    (package / "reports").mkdir()
    shutil.copy(FOLDER / "__init__.py", package / "reports")
    (target / "pyproject.toml").write_text("")
    for name in names:
        entry = load_entry(name)
        chosen = random.Random(f"{seed} {name}")
        (package / "reports" / entry.file.name).write_text(rename_program(entry.file.read_text(), name, chosen))
        for path in (entry.bad, entry.cured):
            if isinstance(path, Path):
                (package / "reports" / path.name).write_text(rename_module(path.read_text(), chosen))


def rename_program(text: str, stem: str, chosen: random.Random) -> str:
    """Returns the text of a report's file with other names. stem: the name of the file, which its cases have."""
    tree = cst.parse_module(text)
    defined = _Definitions()
    tree.visit(defined)
    found = defined.names - _KEPT - _LIBRARY - defined.imported
    new = {name: _make_name(chosen) for name in sorted(found)}
    keys = defined.keys - _LIBRARY
    old = sorted({*keys, stem})
    drawn = sorted(_make_name(chosen) for _ in old)  # JAX sorts outputs by name, and their order may matter
    texts = {name: new.get(name, text) for name, text in zip(old, drawn, strict=True)}
    return tree.visit(_Renamer(new, texts)).code


def rename_module(text: str, chosen: random.Random) -> str:
    """Returns the text of an HLO module with other names after `%`."""
    new = {name: f"%{_make_name(chosen)}" for name in sorted(set(_HLO_NAME.findall(text)))}
    return _HLO_NAME.sub(lambda found: new[found[0]], text)


def _make_name(chosen: random.Random) -> str:
    return "".join(chosen.choices(string.ascii_lowercase, k=9))


class _Definitions(cst.CSTVisitor):
    """The names that a file defines and imports, and the keys of its dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.imported: set[str] = set()
        self.keys: set[str] = set()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.names.add(node.name.value)

    def visit_Param(self, node: cst.Param) -> None:
        self.names.add(node.name.value)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._add_target(node.target)

    def visit_For(self, node: cst.For) -> None:
        self._add_target(node.target)

    def visit_CompFor(self, node: cst.CompFor) -> None:
        self._add_target(node.target)

    def visit_ImportAlias(self, node: cst.ImportAlias) -> None:
        name = node.asname.name if node.asname is not None else node.name
        while isinstance(name, cst.Attribute):
            name = name.value
        if isinstance(name, cst.Name):
            self.imported.add(name.value)

    def visit_DictElement(self, node: cst.DictElement) -> None:
        if isinstance(node.key, cst.SimpleString):
            self.keys.add(str(node.key.evaluated_value))

    def _add_target(self, target: cst.BaseExpression) -> None:
        match target:
            case cst.Name(value=name):
                self.names.add(name)
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                for element in elements:
                    self._add_target(element.value)
            case _:
                pass


class _Renamer(cst.CSTTransformer):
    def __init__(self, names: dict[str, str], texts: dict[str, str]) -> None:
        super().__init__()
        self._names, self._texts = names, texts

    def visit_Arg(self, node: cst.Arg) -> bool:
        return node.keyword is None or node.keyword.value != "at"  # names of marks, which are in comments

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_ImportAlias(self, original_node: cst.ImportAlias, updated_node: cst.ImportAlias) -> cst.ImportAlias:
        del updated_node
        return original_node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return updated_node.with_changes(value=self._names.get(original_node.value, original_node.value))

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        first, *rest = str(original_node.evaluated_value).split(
            "."
        )  # an output may be a part of one, such as `state.0`
        if first not in self._texts:
            return updated_node
        return updated_node.with_changes(value=f'"{".".join((self._texts[first], *rest))}"')
