"""Pickles a live function (a function of the running program, checked without a case file) and its arguments in the
caller's process; arrays become records.

An object that a worker can import is pickled by reference. The worker's answer then depends on the object's file, as on
every project file that the worker imports: the cache no longer gives the answer once the file has changed. Everything
else is pickled by value: `__main__`, lambdas, closures, local functions, and modules that a worker does not find by name.
cloudpickle does not know Triton's kernels, functions of `jax.jit` and meshes with devices; `live_functions` has the
functions that rebuild them.

This module imports neither jax nor triton; it recognizes objects of the two by the names of their classes.
"""

import io
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from hashlib import sha256
from threading import Lock
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, cast

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

from ligerdiag.compile.cases.array_records import (
    MAXIMUM_VALUE_BYTES,
    build_arg,
    is_array,
    record_array,
)
from ligerdiag.compile.cases.cell_texts import add_cell_text
from ligerdiag.compile.cases.live_functions import (
    build_field,
    build_jitted,
    build_kernel,
    build_named_sharding,
    build_partition_spec,
    build_unplaced_mesh,
    find_object,
    find_reference,
    initialize_nothing,
)
from ligerdiag.compile.cases.module_state.state_records import describe_type
from ligerdiag.compile.cases.shardings import list_explicit_axes, read_memory, read_shardings
from ligerdiag.errors import InputError, is_project_file, read_message
from ligerdiag.model.case import Case

_KERNEL_OPTIONS = (
    "version", "do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline", "launch_metadata",
)  # fmt: skip
_PROTOCOL = 5
_SPEC_SETS = ("unreduced", "reduced")
"""Names of the attributes of a `PartitionSpec` that hold axes beside those of the dimensions."""

type PytreeClass = tuple[type[Any], tuple[Any, Any] | None, tuple[Any, Any] | None]
"""(class, (data fields, meta fields) or None, (flatten function, unflatten function) or None): a class that is a pytree
node, and how to register it. Exactly one of the two pairs is None.
"""

_library: Any = cloudpickle
_Pickler: Any = _library.Pickler
_register = Lock()


class FunctionPickler(_Pickler):
    """Pickles functions for a worker, and records facts about the objects that it pickles by value. `files` has the
    project's files that define such objects. `texts` has the source of objects that no file defines. `classes` has the
    classes pickled by value.

    by_value: names of the modules that a worker cannot import.
    """

    def __init__(self, stream: io.BytesIO, by_value: frozenset[str]) -> None:
        inherited: Any = super()
        inherited.__init__(stream, protocol=_PROTOCOL)
        self._reduce: Any = inherited.reducer_override
        self.files: set[str] = set()
        self.texts: dict[str, str] = {}
        self.classes: list[type[Any]] = []
        self._by_value = by_value

    def reducer_override(self, obj: Any) -> Any:
        """Returns how to pickle an object. The pickle module calls this method for each object that is not of a basic
        type.
        """
        match describe_type(obj):
            case "triton.JITFunction" | "triton.InterpretedFunction" | "jaxlib.PjitFunction":
                return self._refer(obj) or self._reduce_wrapped(obj)
            case "triton.Autotuner" | "triton.Heuristics":
                return self._refer(obj) or NotImplemented
            case "jax.Mesh" | "jax.AbstractMesh":
                return build_unplaced_mesh, (tuple(obj.axis_sizes), tuple(obj.axis_names), list_explicit_axes(obj))
            case "jax.NamedSharding" | "jaxlib.NamedSharding":
                return build_named_sharding, (obj.mesh, obj.spec, read_memory(obj) or None)
            case "jax.PartitionSpec" | "jax.P":
                others = {name: value for name in _SPEC_SETS if (value := getattr(obj, name, None))}
                return build_partition_spec, (tuple(obj), others)
            case _:
                pass
        if isinstance(obj, type):
            kind = cast("type[Any]", obj)
            self._note_class(kind)
            return _add_fields(kind, self._reduce(kind))
        reference = find_reference(obj, self._by_value)
        if isinstance(obj, FunctionType):
            if reference is None:
                self._note(obj.__code__)
            return self._reduce(obj) if reference is None or not reference[2] else (find_object, reference)
        return NotImplemented if reference is None else (find_object, reference)

    def _refer(self, obj: Any) -> Any:
        """Returns how to pickle the object by reference: by its own name or, for an object without a name such as an
        autotuner, by the name of the function inside it. None if neither name leads to the object.
        """
        reference = find_reference(obj, self._by_value)
        if reference is None:
            inner = find_reference(getattr(obj, "fn", None), self._by_value)
            reference = None if inner is None else (*inner[:2], inner[2][:-1])
        return None if reference is None or find_object(*reference) is not obj else (find_object, reference)

    def _reduce_wrapped(self, obj: Any) -> Any:
        if hasattr(obj, "_jit_info"):
            return build_jitted, (obj.__wrapped__, _read_jit_options(obj))
        lines, start = _read_source(obj)
        return build_kernel, (obj.fn, lines, start, _read_kernel_options(obj))

    def _note(self, code: CodeType) -> None:
        if is_project_file(code.co_filename):
            self.files.add(code.co_filename)
        add_cell_text(self.texts, code)

    def _note_class(self, kind: type[Any]) -> None:
        if kind.__module__ == "__main__" or kind.__module__ in self._by_value or "<" in kind.__qualname__:
            self.classes.append(kind)
            for value in vars(kind).values():
                if isinstance(value, FunctionType):
                    self._note(value.__code__)


class _FieldRecord:
    """A field of a dataclass, pickled as a call of `dataclasses.field` with the field's options, so that the class can
    be made again in another process.
    """

    def __init__(self, field: Field[Any]) -> None:
        self._field = field

    def __reduce__(self) -> Any:
        given = {name: getattr(self._field, name) for name in _FIELD_OPTIONS}
        options = {name: value for name, value in given.items() if value is not MISSING}
        return build_field, (options | {"metadata": dict(self._field.metadata)},)


_FIELD_OPTIONS = ("default", "default_factory", "init", "repr", "hash", "compare", "kw_only")


def _add_fields(kind: type[Any], reduced: Any) -> Any:
    """Returns how to pickle a class whose metaclass turns it into a dataclass and a pytree, as that of Equinox does.

    cloudpickle makes an empty class first and adds its contents later. Such a metaclass reads the fields when the class
    is made, so they are given then. reduced: the tuple by which cloudpickle would pickle the class (that of
    `__reduce__`); it is returned unchanged for a class without such a metaclass.
    """
    if type(kind) is type or not is_dataclass(kind) or not isinstance(reduced, tuple):
        return reduced
    make, arguments, *rest = cast("tuple[Any, ...]", reduced)
    if getattr(make, "__name__", "") != "_make_skeleton_class":
        return cast("Any", reduced)
    own = [field for field in fields(kind) if field.name in vars(kind).get("__annotations__", {})]
    body: dict[str, Any] = {field.name: _FieldRecord(field) for field in own}
    body["__annotations__"] = {field.name: object for field in own}
    code = getattr(vars(kind).get("__init__"), "__code__", None)
    if code is not None and code.co_filename != "<string>":  # the text from which dataclasses make their own
        body["__init__"] = initialize_nothing
    meta, name, bases, words, *others = arguments
    return (make, (meta, name, bases, {**words, **body}, *others), *rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pickled:
    """An object pickled for a worker, with facts about those of its parts that a worker cannot import."""

    data: bytes
    files: frozenset[str]
    """Files of the project that define the objects that were pickled by value."""
    texts: Mapping[str, str]
    """For code that no file holds, such as a notebook's cell: maps the code's file name, such as `<string>`, to its source
    text.
    """
    classes: tuple[type[Any], ...]
    """Classes that were pickled by value."""


def pickle_live(
    value: Any, unimportable: tuple[ModuleType, ...], make: Callable[..., FunctionPickler] = FunctionPickler
) -> Pickled:
    """Pickles an object for a worker. Raises InputError if a part cannot be pickled; the message names the part.

    unimportable: the modules that the worker cannot import (`list_unimportable`). make: the class of the pickler.
    """
    by_value = frozenset(module.__name__ for module in unimportable)
    stream = io.BytesIO()
    pickler = make(stream, by_value)
    with _pickled_by_value(unimportable):
        try:
            pickler.dump(value)
        except InputError:
            raise
        except Exception as fault:
            raise _explain(value, fault, by_value) from fault
    return Pickled(
        data=stream.getvalue(),
        files=frozenset(pickler.files),
        texts=pickler.texts,
        classes=tuple(pickler.classes),
    )


def list_pytree_classes(classes: Iterable[type[Any]]) -> list[PytreeClass]:
    """Returns a record for each class that is a pytree node. With the record, another process can register the class."""
    registry: Any = getattr(sys.modules.get("jax._src.tree_util"), "_registry", {})
    return [_describe_pytree_class(kind, registry[kind]) for kind in dict.fromkeys(classes) if kind in registry]


def settle_class_names(data: bytes, classes: Iterable[type[Any]]) -> bytes:
    """Makes the pickles of equal functions equal. Cloudpickle gives each class that it pickles by value a random id;
    the new id depends only on the class's content.

    data: the pickles of one function file, joined. classes: those that were pickled by value in them.
    """
    names: Mapping[type[Any], str] = getattr(_library.cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_CLASS", {})
    drawn = [names[kind].encode() for kind in dict.fromkeys(classes) if kind in names]
    blank = data
    for number, name in enumerate(drawn):
        blank = blank.replace(name, b"%032d" % number)
    content = sha256(blank).hexdigest()
    for number, name in enumerate(drawn):
        data = data.replace(name, sha256(f"{content} {number}".encode()).hexdigest()[: len(name)].encode())
    return data


def _describe_pytree_class(kind: type[Any], entry: Any) -> PytreeClass:
    if isinstance(entry.to_iter, FunctionType):
        held = dict(zip(entry.to_iter.__code__.co_freevars, entry.to_iter.__closure__ or (), strict=True))
        if "data_fields" in held and "meta_fields" in held:
            return kind, (held["data_fields"].cell_contents, held["meta_fields"].cell_contents), None
    return kind, None, (entry.to_iter, entry.from_iter)


def _read_jit_options(jitted: Any) -> dict[str, Any]:
    """Returns the options of a `jax.jit` that have an effect even inside another `jax.jit`, static arguments and
    shardings, and `keep_unused`, which counts where the library that made the `jax.jit` stays around it.
    """
    info = jitted._jit_info
    options = {name: getattr(info, name) for name in ("static_argnums", "static_argnames", "keep_unused")}
    return {name: value for name, value in options.items() if value} | read_shardings(jitted)


@contextmanager
def _pickled_by_value(modules: tuple[ModuleType, ...]) -> Generator[None]:
    """Makes cloudpickle pickle these modules by value inside the context; only one thread at a time, because
    cloudpickle has one list for the process.
    """
    with _register:
        known: set[str] = set(_library.list_registry_pickle_by_value())
        new = [module for module in modules if module.__name__ not in known]
        for module in new:
            _library.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in new:
                _library.unregister_pickle_by_value(module)


def _read_source(kernel: Any) -> tuple[list[str], int]:
    if hasattr(kernel, "raw_src"):
        return list(kernel.raw_src), int(kernel.starting_line_number)
    import inspect

    try:
        return inspect.getsourcelines(kernel.fn)
    except OSError as fault:
        raise InputError(f"cannot read the source of kernel `{kernel.fn.__name__}`: {fault}") from fault


def _read_kernel_options(kernel: Any) -> Mapping[str, Any]:
    if hasattr(kernel, "kwargs"):
        return dict(kernel.kwargs)
    options = {name: getattr(kernel, name, None) for name in _KERNEL_OPTIONS} | {"repr": getattr(kernel, "_repr", None)}
    return {name: value for name, value in options.items() if value}


def _explain(value: Any, fault: Exception, by_value: frozenset[str]) -> InputError:
    """Returns the error for a value that cannot be pickled. If the value is a Case whose function directly uses the
    variable that cannot be pickled, the message names the variable.

    fault: the exception that pickling raised. by_value: names of the modules that a worker cannot import.
    """
    reason = read_message(fault)
    if not isinstance(value, Case):
        return InputError(f"a value cannot be passed to a worker: {reason}")
    if _is_pmap(value.function):
        return InputError(f"`{value.name}` is made by `jax.pmap`, {_PMAP}")
    for name, used in _list_variables(value.function):
        if _is_pmap(used):
            return InputError(f"`{value.name}` uses `{name}`, which is made by `jax.pmap`, {_PMAP}")
        try:
            FunctionPickler(io.BytesIO(), by_value).dump(used)
        except Exception:
            return InputError(
                f"`{value.name}` uses `{name}`, a {type(used).__name__}, which cannot be passed to a worker ({reason}):"
                f" leave it out of the function, or write a case file, see `ligerdiag init`"
            )
    return InputError(
        f"`{value.name}` cannot be passed to a worker ({reason}): write a case file, see `ligerdiag init`"
    )


_PMAP = "and cannot be passed to a worker: check a function that calls `jax.pmap` itself, `lambda *x: jax.pmap(f)(*x)`"


def _is_pmap(value: Any) -> bool:
    """Returns whether the value is a function that `jax.pmap` returned: a closure in one of JAX's own modules."""
    if not isinstance(value, FunctionType) or not hasattr(value, "lower"):
        return False
    place = f"{value.__globals__.get('__name__', '')}.{value.__code__.co_qualname}"
    return place.startswith("jax.") and "pmap" in place


def _list_variables(function: Any) -> list[tuple[str, Any]]:
    function = getattr(function, "__func__", getattr(function, "func", function))
    if not isinstance(function, FunctionType):
        return []
    code, cells = function.__code__, function.__closure__ or ()
    held = [(name, cell.cell_contents) for name, cell in zip(code.co_freevars, cells, strict=True) if _is_full(cell)]
    used = [(name, function.__globals__[name]) for name in code.co_names if name in function.__globals__]
    defaults = [("a default value", value) for value in function.__defaults__ or ()]
    return [*held, *used, *defaults]


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


class ArgumentPickler(FunctionPickler):
    """Pickles arguments, which may be any pytree of arrays, and records their meshes. `meshes` has the mesh of each
    array that lies on one. `explicit` has the axes of these meshes that have JAX's type Explicit.

    shared: maps the `id` of each array that is passed as more than one argument to the array's number
    (`number_shared_arrays`).
    """

    def __init__(
        self, stream: io.BytesIO, by_value: frozenset[str], shared: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        super().__init__(stream, by_value)
        self._shared = shared
        self.meshes: list[Mapping[str, int]] = []
        self.explicit: set[str] = set()
        self._float_bytes = MAXIMUM_VALUE_BYTES

    def reducer_override(self, obj: Any) -> Any:
        """Returns how to pickle an object. An array becomes its record."""
        if not is_array(obj):
            return super().reducer_override(obj)
        record = record_array(obj, self._float_bytes)
        if record.mesh:
            self.meshes.append(record.mesh)
        self.explicit.update(record.explicit)
        if record.values is not None and "float" in record.fields["dtype"]:
            self._float_bytes -= len(record.values)
        number = self._shared.get(id(obj), 0)
        fields = {**record.fields, "array": number} if number else record.fields
        return build_arg, (fields, record.draw, record.values)
