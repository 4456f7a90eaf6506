"""The cure for a kernel call in a program that runs on several devices: the call moves into a `jax.shard_map`, so that each
device calls the kernel on its own rows.

XLA cannot split a kernel's call. If the operand is split over devices, XLA gathers the whole array on each device, the
kernel overwrites this copy, and each device needs memory for all rows. In a `jax.shard_map` the call gets only the rows of
its device. Comparing the results shows whether the kernel treats each row by itself.
"""

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from ligerdiag.fix.call_site import CallSite, Project
from ligerdiag.fix.declared_aliases import Circumstances, declare
from ligerdiag.fix.readers.callers import list_callers
from ligerdiag.fix.source_file import CannotFixError, SourceFile, UnrelatedCureError, get_name


def declare_in_shards(project: Project, sites: Sequence[CallSite], given: Circumstances) -> None:
    """Declares each write, and calls the function around the kernel's call in a `jax.shard_map` over the mesh's axis.

    Raises UnrelatedCureError unless the program runs on several devices. Raises CannotFixError if the mesh has several
    axes, or if the kernel's call is not in a function that takes arrays by position only.
    """
    if not given.axes:
        raise UnrelatedCureError("the program runs on one device")
    axis, *others = given.axes
    if others:
        raise CannotFixError("the mesh has several axes, and it is unknown which of them splits the rows")
    if any("shard_map" in site.file.list_names() for site in sites):
        raise UnrelatedCureError("the program has a `shard_map` already")
    declare(project, sites, replace(given, depth=max(given.depth, 1)))
    done: set[cst.CSTNode] = set()
    for site in sites:
        function = site.file.find_function(site.call)
        if function is None or function in done:
            continue
        done.add(function)
        name = function.name.value
        for caller in list_callers(project, site.file, function):
            user, call = caller.file, caller.call
            if call is None:
                raise CannotFixError(f"`{name}` is passed as a value{user.render_place(caller.node)}")
            if not call.args or any(one.keyword is not None or one.star for one in call.args):
                raise CannotFixError(f"`{name}` gets arguments other than arrays by position{user.render_place(call)}")
            _wrap(user, call, axis)
    if not done:
        raise CannotFixError("none of the functions that enclose the kernel's call can be wrapped in `shard_map`")


def _wrap(file: SourceFile, call: cst.Call, axis: str) -> None:
    jax = file.find_module_name("jax")
    spec = f'{jax}.sharding.PartitionSpec("{axis}")'

    def change(node: cst.CSTNode) -> cst.Call:
        assert isinstance(node, cst.Call)
        text = f"{jax}.shard_map(f, in_specs={spec}, out_specs={spec}, check_vma=False)"
        mapped = cst.ensure_type(cst.parse_expression(text), cst.Call)
        first = mapped.args[0].with_changes(value=node.func)
        return node.with_changes(func=mapped.with_changes(args=[first, *mapped.args[1:]]))

    if not get_name(call.func):
        raise CannotFixError(f"the function is not called by its name{file.render_place(call)}")
    file.change(call, change)
