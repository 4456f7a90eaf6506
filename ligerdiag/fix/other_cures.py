"""Cures that do not add outputs to the kernel: barriers, Refs, copies, zeros."""

import re
from collections.abc import Sequence

import libcst as cst

from ligerdiag.fix.call_arguments import add_keyword, wrap
from ligerdiag.fix.call_site import ALIASES, OUTPUT_KEYWORDS, CallSite, Project
from ligerdiag.fix.declared_aliases import Circumstances
from ligerdiag.fix.readers.array_names import NOWHERE
from ligerdiag.fix.results.bound_results import Returned, bind_results
from ligerdiag.fix.source_file import CannotFixError, SourceFile, UnrelatedCureError, get_name


def tie_readers(project: Project, sites: Sequence[CallSite], given: Circumstances) -> None:
    """Puts an optimization barrier after each call, around the call's results and the overwritten arrays.

    Every later reader of such an array then waits for the kernel.
    """
    del project, given
    for site in sites:
        names = _require_variables(site)
        barrier = f"{find_lax(site.file)}.optimization_barrier"
        outputs = _find_returned(site)
        if outputs is Returned.NOTHING:
            raise CannotFixError(
                f"the kernel returns nothing, so no reader can wait for it{site.file.render_place(site.call)}"
            )

        def make(call: cst.Call) -> cst.Call:
            return call

        def wait(results: str, names: Sequence[str] = names, barrier: str = barrier) -> Sequence[str]:
            tied = ", ".join(
                one.strip() for one in results.split(",") if one.strip() not in (NOWHERE, f"*{NOWHERE}", "")
            )
            if not tied:
                raise CannotFixError(
                    "the results of the call are not assigned to a name, so no reader can wait for them"
                )
            both = f"{tied}, {', '.join(names)}"
            return [f"{both} = {barrier}(({both}))"]

        bind_results(site.file, site.call, make, outputs, [], after=wait)


def pass_ref(project: Project, sites: Sequence[CallSite], given: Circumstances) -> None:
    """Changes the call so that the kernel gets a Ref (`jax.new_ref`) of each overwritten array.

    Later reads get the contents of the Ref. Only jax-triton 0.4 and later take Refs.
    """
    del project
    if given.is_old:
        raise CannotFixError("only jax-triton 0.4 and later take Refs")
    for site in sites:
        site.require_arguments()
        names, jax = _require_variables(site), site.file.find_module_name("jax")
        function = site.file.find_function(site.call)
        refs = [site.file.find_unused_name(f"{name}_ref", function) for name in names]
        for one, ref in zip(site.written, refs, strict=True):
            site.file.change(one.argument, lambda node, ref=ref: node.with_changes(value=cst.Name(ref)))
        before = [f"{ref} = {jax}.new_ref({name})" for name, ref in zip(names, refs, strict=True)]
        after = [f"{name} = {ref}[...]" for name, ref in zip(names, refs, strict=True)]
        bind_results(
            site.file,
            site.call,
            lambda call: call,
            _find_returned(site),
            [],
            before=before,
            after=lambda _, after=after: after,
        )


def pass_copy(project: Project, sites: Sequence[CallSite], given: Circumstances) -> None:
    """Changes the call so that the kernel gets a copy of each overwritten array, and overwrites this copy.

    No array that is read later then changes.
    """
    del project, given
    for site in sites:
        site.require_arguments()
        numpy = site.file.find_module_name("jax.numpy")
        for one in site.written:

            def copy(node: cst.CSTNode, numpy: str = numpy) -> cst.CSTNode:
                assert isinstance(node, cst.Arg)
                function = cst.parse_expression(f"{numpy}.copy")
                return node.with_changes(value=cst.Call(func=function, args=[cst.Arg(node.value)]))

            site.file.change(one.argument, copy)


def keep_apart(project: Project, sites: Sequence[CallSite], given: Circumstances) -> None:
    """Puts an optimization barrier around each aliased operand and around the results.

    Otherwise XLA would fuse the call with slices around it and drop the alias.
    """
    del project, given
    for site in sites:
        if site.find_keyword(ALIASES) is None:
            raise UnrelatedCureError(
                f"the call declares no alias, so XLA cannot drop one{site.file.render_place(site.call)}"
            )
        site.require_arguments()
        barrier = f"{find_lax(site.file)}.optimization_barrier"

        def wrap(node: cst.BaseExpression, barrier: str = barrier) -> cst.Call:
            return cst.Call(func=cst.parse_expression(barrier), args=[cst.Arg(node)])

        for one in site.written:
            site.file.change(one.argument, lambda node, wrap=wrap: node.with_changes(value=wrap(node.value)))  # type: ignore[attr-defined]
        site.file.change(site.call, lambda node, wrap=wrap: wrap(node))  # type: ignore[arg-type]


def zero_outputs(project: Project, sites: Sequence[CallSite], outputs: Sequence[tuple[int, ...]]) -> None:
    """Makes the launcher fill outputs with zeros before the kernel runs.

    outputs: for each call site, the numbers of the outputs to fill.
    """
    del project
    for site, numbers in zip(sites, outputs, strict=True):
        if site.is_pallas or not numbers:
            raise CannotFixError("only jax-triton has the keyword `zeroed_outputs`")
        if site.find_keyword("zeroed_outputs") is not None:
            raise CannotFixError(f"the call zeroes outputs already{site.file.render_place(site.call)}")
        text = f"({', '.join(map(str, numbers))}{',' if len(numbers) == 1 else ''})"

        def add(node: cst.CSTNode, text: str = text, site: CallSite = site) -> cst.Call:
            assert isinstance(node, cst.Call)
            changed = add_keyword(node, f"zeroed_outputs={text}", after=OUTPUT_KEYWORDS)
            return wrap(changed, site.file.get_column(site.call), site.file)

        site.file.change(site.call, add)


def read_zeroed(help_text: str) -> tuple[int, ...]:
    """Returns the numbers of the outputs that have to be filled with zeros, as the help text of a finding says.

    Empty if the text names no such output.
    """
    found = re.search(r"zeroed_outputs=\(([\d, ]+)\)", help_text)
    return () if found is None else tuple(int(one) for one in found[1].split(",") if one.strip())


def _require_variables(site: CallSite) -> list[str]:
    names = [one.name for one in site.written]
    if not all(names):
        site.require_arguments()
        raise CannotFixError(
            f"the array that the kernel overwrites has no name in the source{site.file.render_place(site.call)}"
        )
    return names


def _find_returned(site: CallSite) -> Returned:
    if site.outputs == 0:
        return Returned.NOTHING
    place = site.find_outputs_argument()
    is_sequence = place is not None and isinstance(site.options.args[place].value, cst.Tuple | cst.List)
    return Returned.SEQUENCE if is_sequence or site.outputs > 1 else Returned.ONE


def find_lax(file: SourceFile) -> str:
    """Returns the expression by which the file refers to `jax.lax`, such as `lax` or `jax.lax`."""
    for statement in file.find(cst.ImportFrom):
        if statement.module is not None and not isinstance(statement.names, cst.ImportStar):
            for alias in statement.names:
                if get_name(statement.module) == "jax" and alias.evaluated_name == "lax":
                    return alias.evaluated_alias or "lax"
    return f"{file.find_module_name('jax')}.lax"
