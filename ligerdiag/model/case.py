"""A case: a JAX function, its arguments, its mesh, and the expected verdicts on its schedule.

This file imports neither jax nor triton: only a compile worker calls the function of a case.
"""

import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from operator import index
from typing import Any, cast

AXES = "xyzwvu"
"""Names of the mesh axes, in order, if a mesh is given by its sizes alone."""
SIZES = "LIGERDIAG_SIZES"
"""Name of the environment variable through which `ligerdiag sweep` sets sizes in a case file: its value is a JSON
object from the name of a size to a whole number.
"""
ASKED_SIZES: set[str] = set()
"""Names of the sizes that calls of `size` in this process have requested."""
_KINDS = ("usual", "normal", "squares", "uniform", "randint", "bernoulli", "zeros")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """The random values of an argument, drawn by NumPy's `Generator` from `seed`.

    kind: the distribution: `normal` (times `scale`), `squares` of normal values (times `scale`), `uniform` in [low, high),
        `randint` in [low, high), `bernoulli` with probability `scale`, `zeros`, or `usual`. Which one `usual` means
        depends on the argument. It is `randint` for integers: by default they are 0 or 1, which are legal labels, token
        ids and step numbers in any program. It is `bernoulli` with probability 1/2 for booleans. It is `squares` for an
        optimizer's averages of squared gradients, because the optimizer takes their square root: for a leaf of an
        argument below `nu`, `nu_max`, `v_row`, `v_col`, `sum_of_squares`, `exp_avg_sq` or `second_moment`, or below a
        field `v` of a class, as in AdamW's `opt_state[0].nu`. It is `normal` for everything else.
    seed: the integer of `numpy.random.PCG64(seed)`; by default the number of arguments before this one that are drawn in
        the same way and have as many elements, so that no two arguments have equal numbers. Two arguments with the same
        explicit seed have equal numbers.
    scale: the factor of `normal` and `squares`, and the probability of `bernoulli`.
    low: the least value of `uniform` and `randint`.
    high: the bound below which the values of `uniform` and `randint` stay.
    """

    kind: str = "usual"
    seed: int | None = None
    scale: float = 1.0
    low: float = 0
    high: float = 2

    def __post_init__(self) -> None:
        """Raises InputError for an unknown kind."""
        if self.kind not in _KINDS:
            from ligerdiag.text import suggest

            known = f"{', '.join(_KINDS[:-1])} or {_KINDS[-1]}"
            raise _refuse(f"expected {known} as a draw but got {_describe(self.kind)}{suggest(self.kind, _KINDS)}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Values:
    """Values that the user gives for an argument, instead of random ones. Every draw (set of inputs) uses them."""

    data: bytes
    """The bytes of the elements, in the shape and dtype of the argument, row-major."""

    def __repr__(self) -> str:
        return f"Values({sha256(self.data).hexdigest()})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arg:
    """One argument of a case, an array, by its type and its values.

    shape: the sizes of the dimensions; a number means one dimension, `()` a scalar.
    dtype: the name of a dtype of NumPy or ml_dtypes, such as `float32`, `bfloat16` or `int32`; also a dtype of NumPy or
        JAX, such as `jnp.float32`.
    draw: its values in a replay and on a device: a `Draw`, or a function such as
        `lambda key, shape, dtype: jax.random.randint(key, shape, 0, 100)`, which gets `jax.random.key(0)`, or the key of
        another draw, and whose array is cast to the dtype.
    partition: for each dimension the mesh axis (or tuple of axes) over which it is split, or None; missing means
        replicated.
    donate: whether the program donates it, as with `donate_argnums` of `jax.jit`, so that an output may take its bytes.
        In an argument that is a pytree, all or none have to be donated. If `jax.jit` made the function, you need not
        repeat its donations here.
    weak: whether it has JAX's weak type, as a Python number has: it does not turn a bfloat16 beside it into a float32.
    array: arguments with the same number are one JAX array in memory; 0 means an array of its own. ligerdiag sets it for
        JAX arrays that a case or a call gives.
    memory: the kind of memory in which it lies, such as `pinned_host`; empty for that of the device. It only matters for
        donation: the program is compiled for arguments on the device.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    draw: Draw | Values | Callable[..., Any] = field(default_factory=Draw)
    partition: tuple[str | tuple[str, ...] | None, ...] = ()
    donate: bool = False
    weak: bool = False
    array: int = field(default=0, repr=False)
    memory: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        """Converts the fields to their types. Raises InputError for a value that does not fit."""
        object.__setattr__(self, "shape", _read_shape(self.shape))
        object.__setattr__(self, "dtype", _read_dtype(self.dtype))
        object.__setattr__(self, "partition", _read_partition(self.partition))
        if not isinstance(self.draw, Draw | Values) and not callable(self.draw):
            raise _refuse(f"expected draw to be a Draw or a function but got {_describe(self.draw)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program and the expected verdicts on its schedule.

    name: its name in reports and on the command line.
    function: takes `args` by position and `kwargs` by keyword, returns any pytree of arrays; the paths of its leaves
        name the outputs. A mapping at the top gives plain names, such as {"loss": ..., "bias": ...}. If it is made by
        `jax.jit`, its donated arguments (`donate_argnums`, `donate_argnames`), its static ones and its `keep_unused`
        hold for the case as well.
    args: the arguments in order, each an `Arg` or any pytree of them. A `jax.ShapeDtypeStruct` counts as an `Arg`, a
        JAX or NumPy array as an `Arg` with the values of the array, and a Python number as in `jax.jit`.
    kwargs: arguments that the function gets by keyword, by name.
    params: the values that distinguish this case from others of the same name; they make the id `name[a-b-c]`.
    keep_unused: whether JAX keeps the arguments that the function never reads, as with `jax.jit(..., keep_unused=True)`.
        By default JAX drops them: a donated one is then neither reused nor deleted. You need not repeat the
        `keep_unused=True` of a function that `jax.jit` made.
    mesh: the size of each axis by its name, in order, or the sizes alone, whose axes are then called x, y, z; empty for
        one device.
    explicit_axes: the axes of the mesh that have JAX's type Explicit. Explicit axes in the shardings of the arguments need
        not be listed. All remaining axes have the type Auto.
    expected: None (no expectation: a finding fails the run), `fresh` (every output fresh), `hazard` (at least one
        output stale, clobbered or latent), or a mapping from output name to a verdict or to alternatives
        (`stale|latent`). Outputs without an entry must be fresh, unless the name `*` has an entry, which is for all of
        them. An error of a rule about an output that is expected to be right, such as LD016, is unexpected as well;
        `hazard` allows any error.
    expected_rules: None (not compared), or the ids of exactly the rules that have findings, such as ("LD006",
        "LD009"); allowed only beside `expected`. A rule that needs a replay or a device run is compared only if there
        was one. An id with a question mark, such as "LD017?", may have findings in one run and none in the next.
    effects: declares which operands a custom call overwrites and reads, for calls whose IR ligerdiag cannot follow. It
        maps the name of the call's target or kernel to the numbers of the operands: {"my_ffi_target": {"writes": [0]}}.
        These effects take precedence over those of the configuration file.
    xla_flags: XLA's flags for this case, such as {"xla_gpu_enable_dynamic_slice_fusion": False}. They are added to the
        environment variable XLA_FLAGS and override it. Your own program needs them in XLA_FLAGS.
    expected_elsewhere: replaces `expected` and `expected_rules` when a toolchain other than the default one compiles. It
        maps the name of the toolchain to a value as in `expected`.
    reference: a function that computes the same outputs in plain jnp; None if there is none.
    about: one line on the bug report or the question that the case is about.
    mitigation: the measure against a kernel's hidden write, in one word, such as `trivial` or `aliased`.
        `bisect --over mitigation` compares the cases of one file that have the same name, differ in exactly one of their
        params, and have different mitigations. If it is empty and exactly one of the params is a usual name of a measure
        (hidden, trivial, barrier, aliased, out_of_place, shard_map), that param counts as the mitigation.
    made_at: the file and line that make the case, such as `mine.py:12`, for findings about its arguments; empty if
        unknown. By default ligerdiag finds them.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    params: tuple[Any, ...] = ()
    keep_unused: bool = False
    mesh: Mapping[str, int] = field(default_factory=dict[str, int])
    explicit_axes: tuple[str, ...] = ()
    expected: str | Mapping[str, str] | None = None
    expected_rules: tuple[str, ...] | None = None
    effects: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict[str, Mapping[str, Sequence[int]]])
    xla_flags: Mapping[str, str | int | float | bool] = field(default_factory=dict[str, str | int | float | bool])
    expected_elsewhere: Mapping[str, str | Mapping[str, str]] = field(
        default_factory=dict[str, str | Mapping[str, str]]
    )
    reference: Callable[..., Any] | None = None
    about: str = ""
    mitigation: str = ""
    made_at: str | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Converts the fields to their types. Raises InputError for a value that does not fit."""
        if not isinstance(cast("object", self.name), str) or not self.name:
            raise _refuse(f"expected name to be a string but got {_describe(self.name)}")
        if not callable(self.function):
            raise _refuse(f"expected function to be a function but got {_describe(self.function)}")
        object.__setattr__(self, "args", _read_sequence("args", self.args, "arguments"))
        object.__setattr__(self, "kwargs", _read_keywords(self.kwargs))
        object.__setattr__(self, "params", _read_sequence("params", self.params, "values"))
        if not isinstance(cast("object", self.keep_unused), bool):
            raise _refuse(f"expected keep_unused to be True or False but got {_describe(self.keep_unused)}")
        object.__setattr__(self, "mesh", read_mesh(self.mesh))
        if not isinstance(cast("object", self.effects), Mapping):
            raise _refuse(f"expected effects to be a mapping of target to operands but got {_describe(self.effects)}")
        object.__setattr__(self, "xla_flags", _read_flags(self.xla_flags))
        if self.made_at is None:
            object.__setattr__(self, "made_at", _find_maker())

    @property
    def id(self) -> str:
        """Returns the case's id: `name`, or `name[a-b-c]` if the case has the params a, b and c."""
        if not self.params:
            return self.name
        return f"{self.name}[{'-'.join(str(p) for p in self.params)}]"


def _find_maker() -> str:
    """Returns the innermost line of the user's code that is being executed, such as `mine.py:12`; "" if there is none."""
    from ligerdiag.errors import is_project_file  # a case file imports nothing else of ligerdiag

    frame = inspect.currentframe()
    while frame is not None:
        if is_project_file(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def size(name: str, default: int) -> int:
    """Returns the value that `ligerdiag sweep` sets for the size `name`, or `default` if no sweep sets it.

    Call it at the top level of the case's file, such as `TOKENS = size("tokens", 512)`: a sweep imports the file and
    learns the names from these calls. Raises InputError unless the default is a whole number above 0.
    """
    ASKED_SIZES.add(name)
    return _require_size(read_sizes().get(name, default), name)


def read_sizes() -> dict[str, int]:
    """Returns the sizes that the sweep sets, such as `{"tokens": 512}`.

    Raises InputError if the environment variable with the sizes is malformed.
    """
    try:
        given = cast("object", json.loads(os.environ.get(SIZES) or "{}"))
    except ValueError:
        given = None
    if not isinstance(given, Mapping):
        raise _refuse(f'expected {SIZES} to be like {{"tokens": 512}} but got {_describe(os.environ.get(SIZES))}')
    return {str(name): _require_size(value, name) for name, value in cast("Mapping[str, object]", given).items()}


def _require_size(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _refuse(f"expected a whole number above 0 for the size `{name}` but got {_describe(value)}")
    return value


def read_mesh(mesh: Mapping[str, int] | Sequence[int]) -> dict[str, int]:
    """Returns the mesh as a dict from axis to size.

    mesh: such a dict, or the sizes alone; the axes are then called x, y, z. Raises InputError for anything else.
    """
    wanted = "expected mesh to be a mapping of axis name to size, or sizes, but got"
    given = cast("object", mesh)
    if isinstance(given, Mapping):
        sizes = cast("Mapping[object, object]", given)
    elif isinstance(given, tuple | list):
        if len(mesh) > len(AXES):
            raise _refuse(f"expected a mesh of at most {len(AXES)} axes but got {len(mesh)}: give their names, too")
        sizes = dict(zip(AXES, cast("Sequence[object]", given), strict=False))
    else:
        raise _refuse(f"{wanted} {_describe(mesh)}")
    try:
        return {str(axis): index(cast("Any", size)) for axis, size in sizes.items()}
    except TypeError:
        raise _refuse(f"{wanted} {_describe(mesh)}") from None


def _read_shape(shape: Any) -> tuple[int, ...]:
    try:
        read = tuple(map(index, shape if hasattr(shape, "__iter__") else (shape,)))
    except TypeError:
        read = (-1,)
    if any(size < 0 for size in read):
        raise _refuse(f"expected shape to be a tuple of sizes but got {_describe(shape)}")
    return read


def _read_dtype(dtype: object) -> str:
    """Returns the name of the dtype, which may also be given as a scalar type of JAX."""
    names = (dtype, getattr(dtype, "name", None), getattr(getattr(dtype, "dtype", None), "name", None))
    name = next((name for name in (*names, getattr(dtype, "__name__", None)) if isinstance(name, str)), None)
    if name is None:
        raise _refuse(f"expected dtype to be a name such as `float32` but got {_describe(dtype)}")
    return name


def _read_partition(partition: object) -> tuple[Any, ...]:
    if isinstance(partition, str):
        return (partition,)
    if not isinstance(partition, Iterable):
        raise _refuse(f"expected partition to be a tuple of mesh axes but got {_describe(partition)}")
    return tuple(cast("Iterable[Any]", partition))


def _read_sequence(field_name: str, value: object, of: str) -> tuple[Any, ...]:
    if not isinstance(value, tuple | list):
        raise _refuse(f"expected {field_name} to be a tuple of {of} but got {_describe(value)}: write one as `(x,)`")
    return tuple(cast("list[Any]", value))


def _read_keywords(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _refuse(f"expected kwargs to be a mapping of name to argument but got {_describe(value)}")
    return {str(name): argument for name, argument in cast("Mapping[object, Any]", value).items()}


def _read_flags(value: object) -> dict[str, str | int | float | bool]:
    flags = cast("Mapping[object, object]", value) if isinstance(value, Mapping) else {None: None}
    for name, one in flags.items():
        if not (isinstance(name, str) and name.startswith("xla_") and isinstance(one, str | int | float | bool)):
            wanted = "a mapping of names such as `xla_gpu_autotune_level` to values"
            raise _refuse(f"expected xla_flags to be {wanted} but got {_describe(cast('object', value))}")
    return cast("dict[str, str | int | float | bool]", dict(flags))


def _describe(value: object) -> str:
    """Returns the value and its type for a message, such as `(8,) (type tuple)`; a long value is cut."""
    return f"{value!r:.60} (type {type(value).__name__})"


def _refuse(message: str) -> Exception:
    """Returns an InputError with this message, for the caller to raise."""
    from ligerdiag.errors import InputError

    return InputError(message)
