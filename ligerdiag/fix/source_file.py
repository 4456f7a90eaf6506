"""One source file as a syntax tree that keeps the user's formatting, with the changes that a cure makes to it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, ParentNodeProvider, PositionProvider

from ligerdiag.source_text import compute_near

type Change = Callable[[cst.CSTNode], cst.CSTNode | cst.FlattenSentinel[cst.BaseStatement]]
"""A function from a node, in which the changes of its children are made already, to what replaces it."""


class CannotFixError(Exception):
    """Raised if a cure cannot be applied to the source. The message is the reason, a clause in lower case."""


class UnrelatedCureError(CannotFixError):
    """Raised if no finding is about the kind of hazard that a cure removes. A report need not mention such a cure."""


class SourceFile:
    """A file of the user's project with changes that are not written yet.

    Positions and parents of nodes are those of the original text.
    """

    def __init__(self, path: Path, text: bytes | None = None) -> None:
        """text: the text of the file; None to read it. Raises CannotFixError if the file cannot be read or parsed."""
        self.path = path
        try:
            self.original = path.read_bytes() if text is None else text
            self.module = cst.parse_module(self.original)
        except (OSError, cst.ParserSyntaxError, UnicodeDecodeError) as error:
            raise CannotFixError(f"`{compute_near(str(path))}` cannot be parsed: {error}".splitlines()[0]) from error
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        positions = wrapper.resolve(PositionProvider)
        self._positions = cast("dict[cst.CSTNode, CodeRange]", positions)
        self._parents = cast("dict[cst.CSTNode, cst.CSTNode]", wrapper.resolve(ParentNodeProvider))
        self._changes: dict[cst.CSTNode, list[Change]] = {}
        self._imports: list[str] = []

    @property
    def is_changed(self) -> bool:
        return bool(self._changes or self._imports)

    def change(self, node: cst.CSTNode, change: Change) -> None:
        """Adds a change of this node. The changes of one node are applied in the order in which they were added."""
        self._changes.setdefault(node, []).append(change)

    def require_unchanged(self, node: cst.CSTNode) -> None:
        """Raises CannotFixError if the node has a change already, because a second change may conflict with it."""
        if node in self._changes:
            raise CannotFixError(f"the cure would have to change two calls in one statement{self.render_place(node)}")

    def add_import(self, line: str) -> None:
        """Adds a line with an import, unless the file has this line already."""
        present = {self.module.code_for_node(one).strip() for one in self.find(cst.SimpleStatementLine)}
        if line not in present and line not in self._imports:
            self._imports.append(line)

    def render(self) -> bytes:
        """Returns the text of the file with all changes."""
        applied = self.module.visit(_Apply(self._changes))
        assert isinstance(applied, cst.Module)
        if self._imports:
            new = [cst.parse_statement(line) for line in self._imports]
            place = _find_import_place(applied.body)
            applied = applied.with_changes(body=[*applied.body[:place], *new, *applied.body[place:]])
        return applied.bytes

    def render_with(
        self, changes: Sequence[tuple[cst.CSTNode, Change]], *, imports: Sequence[str] = ()
    ) -> dict[Path, bytes]:
        """Returns the text that the file would have with these changes and import lines, without keeping them.

        The result is a dict from the file's path to the text; it is empty if the text would not differ from the present
        one.
        """
        self._changes.clear()
        self._imports.clear()
        for node, change in changes:
            self.change(node, change)
        for line in imports:
            self.add_import(line)
        text = self.render()
        self._changes.clear()
        self._imports.clear()
        return {} if text == self.original else {self.path: text}

    def find[Node: cst.CSTNode](self, kind: type[Node], within: cst.CSTNode | None = None) -> Iterator[Node]:
        """Yields the nodes of a kind in the order of the text, such as all `cst.Call`.

        within: the node to search; None for the whole file.
        """
        pending: list[cst.CSTNode] = [within or self.module]
        while pending:
            node = pending.pop()
            if isinstance(node, kind):
                yield node
            pending += reversed(node.children)

    def get_lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """Returns the 1-based numbers of the first and the last line of a node."""
        place = self._positions[node]
        return place.start.line, place.end.line

    def get_column(self, node: cst.CSTNode) -> int:
        """Returns the number of characters before a node in its line."""
        return self._positions[node].start.column

    @property
    def width(self) -> int:
        """Returns the longest line that the file's author accepts: 88 characters, or as many as the file's longest line
        has.
        """
        return max(88, *map(len, self.module.code.splitlines()), 0)

    @property
    def indentation(self) -> str:
        """Returns the text by which the file's author indents a block: four spaces, or a tab."""
        return self.module.default_indent

    def render_place(self, node: cst.CSTNode) -> str:
        """Returns the place of a node as ` (FILE:LINE)`. The path is relative to the current directory if the file is
        below it.
        """
        return f" ({compute_near(str(self.path))}:{self.get_lines(node)[0]})"

    def list_parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yields the nodes around a node, innermost first."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def find_function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Returns the innermost `def` around the node; None at the top level of the module."""
        return next((one for one in self.list_parents(node) if isinstance(one, cst.FunctionDef)), None)

    def find_class(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """Returns the class in whose body the node is, such as that of a method; None if it is in no class, or in a function
        inside of one.
        """
        kinds = cst.ClassDef | cst.FunctionDef
        owner = next((one for one in self.list_parents(node) if isinstance(one, kinds)), None)
        return owner if isinstance(owner, cst.ClassDef) else None

    def find_statement(self, call: cst.CSTNode) -> cst.SimpleStatementLine:
        """Returns the statement that contains a call and evaluates it exactly once each time the statement runs.

        Raises CannotFixError for a call in the head of a compound statement, and for a call that is evaluated later,
        several times or not at all.
        """
        for node in self.list_parents(call):
            if type(node) in _GUARDS:
                raise CannotFixError(
                    f"the call is inside of a {_GUARDS[type(node)]}: move it into a statement{self.render_place(call)}"
                )
            if isinstance(node, cst.SimpleStatementLine):
                if len(node.body) != 1:
                    raise CannotFixError(f"the line of the call has several statements{self.render_place(call)}")
                return node
            if isinstance(node, cst.BaseStatement | cst.SimpleStatementSuite):
                break
        raise CannotFixError(f"the call is in the head of a compound statement, such as `if`{self.render_place(call)}")

    def list_names(self, within: cst.CSTNode | None = None) -> set[str]:
        """Returns all names in the file, or in the node `within`."""
        return {one.value for one in self.find(cst.Name, within)}

    def find_unused_name(self, wish: str, within: cst.CSTNode | None = None) -> str:
        """Returns a name that is not used yet in the file, or in the node `within`.

        It is `wish` or, if that is taken, `wish_2` and so on.
        """
        used = self.list_names(within)
        return next(name for name in _number(wish) if name not in used)

    def find_module_name(self, module: str) -> str:
        """Returns the name by which the file refers to a module, such as `jnp` for `jax.numpy`.

        Adds an import if the file does not import the module.
        """
        parent, _, last = module.rpartition(".")
        imported = [alias for statement in self.find(cst.Import) for alias in statement.names]
        for alias in imported:
            if self.module.code_for_node(alias.name) == module and alias.asname is not None:
                return self.module.code_for_node(alias.asname.name)
        for statement in self.find(cst.ImportFrom):
            if statement.module is None or isinstance(statement.names, cst.ImportStar):
                continue
            for alias in statement.names:
                if self.module.code_for_node(statement.module) == parent and alias.evaluated_name == last:
                    return alias.evaluated_alias or last
        for alias in imported:
            name = self.module.code_for_node(alias.name)
            if name == module or module.startswith(f"{name}."):
                return module if alias.asname is None else module.replace(name, _read_alias(alias), 1)
        self.add_import("import jax.numpy as jnp" if module == "jax.numpy" else f"import {module}")
        return "jnp" if module == "jax.numpy" else module


_GUARDS: dict[type[cst.CSTNode], str] = {
    cst.Lambda: "lambda",
    cst.IfExp: "conditional expression",
    cst.BooleanOperation: "boolean expression",
    cst.NamedExpr: "named expression",
    cst.ListComp: "comprehension",
    cst.SetComp: "comprehension",
    cst.DictComp: "comprehension",
    cst.GeneratorExp: "comprehension",
}
"""Expressions that evaluate a part of themselves later, several times or not at all, and their names."""


class _Apply(cst.CSTTransformer):
    def __init__(self, changes: dict[cst.CSTNode, list[Change]]) -> None:
        super().__init__()
        self._changes = changes

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.FlattenSentinel[cst.BaseStatement]:
        changed: cst.CSTNode | cst.FlattenSentinel[cst.BaseStatement] = updated_node
        for change in self._changes.get(original_node, ()):
            assert isinstance(changed, cst.CSTNode)
            changed = change(changed)
        return changed


def _read_alias(alias: cst.ImportAlias) -> str:
    return alias.evaluated_alias or alias.evaluated_name


def _number(wish: str) -> Iterator[str]:
    yield wish
    number = 2
    while True:
        yield f"{wish}_{number}"
        number += 1


_FOREIGN = ("jax", "jax_triton", "triton", "numpy", "ligerdiag")
"""Packages beside which a new import belongs."""


def _find_import_place(body: Sequence[cst.CSTNode]) -> int:
    """Returns the index in a module's body behind its last import of JAX or Triton at the top, or else its last import."""
    place = foreign = 0
    for number, statement in enumerate(body):
        if not isinstance(statement, cst.SimpleStatementLine):
            break
        found = [one for one in statement.body if isinstance(one, cst.Import | cst.ImportFrom)]
        if found:
            place = number + 1
            foreign = place if any(_read_root(one) in _FOREIGN for one in found) else foreign
        elif number:
            break
    return foreign or place


def _read_root(statement: cst.Import | cst.ImportFrom) -> str:
    """Returns the first package that an import names; empty for a relative one."""
    node = statement.names[0].name if isinstance(statement, cst.Import) else statement.module
    if node is None or (isinstance(statement, cst.ImportFrom) and statement.relative):
        return ""
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def get_name(node: cst.CSTNode) -> str:
    """Returns the last part of a dotted name, such as `triton_call`. Empty for any other expression."""
    match node:
        case cst.Name(value=name):
            return name
        case cst.Attribute(attr=cst.Name(value=name)):
            return name
        case _:
            return ""
