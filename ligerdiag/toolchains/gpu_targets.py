"""Describes GPUs, so that XLA can compile for a GPU that this machine does not have.

A description is a `GpuTargetConfigProto` in protobuf text format. The descriptions in targets/ name the source of every
number. XLA writes one for a real GPU into each dump (`*gpu_target_config.pbtxt`), and publishes others (`*.txtpb`); any such
file can be used as a target. The target `auto` is the GPU of this machine, which XLA describes (see `this_gpu`).

A description may have fields that the XLA of a toolchain does not know; `compile.cases.known_fields` drops them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ligerdiag.errors import InputError
from ligerdiag.text import compute_printable, join_words
from ligerdiag.toolchains.text_format import FieldLine, find_number, find_value, split_fields, strip_comments
from ligerdiag.toolchains.this_gpu import describe_this_gpu
from ligerdiag.toolchains.toolchain import Platform, Toolchain
from ligerdiag.toolchains.toolchain_table import DEFAULT, find_by_platform

DIRECTORY = Path(__file__).parent / "targets"
SUFFIX = ".pbtxt"
"""File suffix of the target descriptions that come with ligerdiag."""
SUFFIXES = (SUFFIX, ".txtpb")
"""The suffixes that XLA gives to descriptions; a file with any other suffix may be one too."""
AUTO = "auto"
"""Name of the target that is the GPU of this machine."""
COMPARED = ("a100", "b200", "h100", "h200")
"""The targets that a command compares with each other if the user names none."""
MAXIMUM_BYTES = 1 << 20

_NAME = re.compile(r"[\w.-]+")
_INFO = "gpu_device_info"
_CUDA = f"{_INFO}.cuda_compute_capability"
_ROCM_FIELD = "rocm_compute_capability"
_ROCM = f"{_INFO}.{_ROCM_FIELD}"
_PLATFORMS = {Platform.CUDA: "CUDA", Platform.ROCM: "ROCm"}
_EXTENSIONS = {"ACCELERATED_FEATURES": "a", "FAMILY_COMPATIBLE_FEATURES": "f"}
"""From a `feature_extension` to the letter at the end of the architecture's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A GPU model for which XLA can compile from a description alone."""

    name: str
    description: str
    """The `GpuTargetConfigProto` as text, including comments."""
    compute_capability: int
    """Compute capability of an NVIDIA GPU times ten, such as 90 for 9.0; 0 for a GPU of another vendor."""
    path: Path
    platform: Platform = Platform.CUDA
    architecture: str = ""
    """The compiler's name of the generation, such as `sm_90a` or `gfx942`."""
    model: str = ""
    """The vendor's name of the GPU, such as `NVIDIA H200`; empty if the description has none."""
    memory: int = 0
    """Bytes of the GPU's memory; 0 if unknown."""
    cores: int = 0
    """Number of multiprocessors or compute units; 0 if unknown."""

    @property
    def sha256(self) -> str:
        """Returns the sha256 of the description without comments and indentation, which XLA ignores."""
        return sha256(strip_comments(self.description).encode()).hexdigest()

    @property
    def is_own(self) -> bool:
        """Returns whether the description comes with ligerdiag."""
        return self.path.parent == DIRECTORY

    @property
    def generation(self) -> str:
        """Returns the compute capability of an NVIDIA GPU, such as `9.0`, or the architecture of an AMD GPU, such as
        `gfx942`.
        """
        capability = self.compute_capability
        return f"{capability // 10}.{capability % 10}" if capability else self.architecture

    @property
    def vendor(self) -> str:
        return "NVIDIA" if self.platform is Platform.CUDA else "AMD"


def list_targets() -> tuple[Target, ...]:
    """Returns the targets that come with ligerdiag, in the order of their names."""
    return tuple(_load(path, path.stem) for path in sorted(DIRECTORY.glob(f"*{SUFFIX}")))


def list_compared_targets() -> tuple[Target, ...]:
    """Returns the targets that a command compares if the user names none."""
    return tuple(load_target(name) for name in COMPARED)


def load_target(name_or_path: str) -> Target:
    """Returns the target that the user has named.

    name_or_path: the target's name, such as `mi300`; the vendor's name of the GPU, such as `MI300X`; the path of a file that
    describes a GPU; or `auto` for the GPU of this machine. Raises InputError if there is no such target, file or GPU, or if
    the file does not describe a GPU.
    """
    path = DIRECTORY / f"{name_or_path}{SUFFIX}"
    if _NAME.fullmatch(name_or_path) and path.is_file():
        return _load(path, name_or_path)
    if name_or_path == AUTO:
        return _parse(describe_this_gpu(), AUTO, Path(AUTO))
    path = Path(name_or_path)
    if path.is_file():
        return _load(path, path.stem)
    for target in list_targets():
        if target.model.casefold() == name_or_path.casefold():
            return target
    known = ", ".join(sorted(file.stem for file in DIRECTORY.glob(f"*{SUFFIX}")))
    raise InputError(f"expected a target of {known}, {AUTO}, or a description file, but got `{name_or_path}`")


def load_targets(names_or_paths: Iterable[str]) -> tuple[Target, ...]:
    """Returns the targets that the user has named, each once (see `load_target` for names and errors).

    Raises InputError too if two different targets have one name, because reports could not tell them apart.
    """
    found: dict[str, Target] = {}
    for one in names_or_paths:
        target = load_target(one)
        other = found.setdefault(target.name, target)
        if other.sha256 != target.sha256:
            paths = f"`{other.path}` and `{target.path}`"
            raise InputError(f"two different targets have the same name, {paths}: rename one of the files")
    return tuple(found.values())


def explain_unfit(target: Target, toolchain: Toolchain) -> str:
    """Returns why a toolchain cannot compile for a target; '' if nothing is known to prevent it."""
    if target.platform is toolchain.platform:
        return ""
    return (
        f"target `{target.name}` ({target.architecture}) is a GPU of {target.vendor}: it needs a toolchain for"
        f" {_PLATFORMS[target.platform]}, such as `--toolchain {find_by_platform(target.platform)}`, but"
        f" `{toolchain.name}` compiles for {_PLATFORMS[toolchain.platform]}"
    )


def choose_toolchain(name: str, targets: Iterable[Target]) -> str:
    """Returns the name of the toolchain to compile with. It is `name`, or the toolchain for AMD if `name` is the default and
    all targets are GPUs of AMD.
    """
    platforms = {target.platform for target in targets}
    return find_by_platform(Platform.ROCM) if name == DEFAULT and platforms == {Platform.ROCM} else name


def list_unconfirmed(names: Iterable[str]) -> tuple[str, ...]:
    """Returns a line for a report on AMD GPUs: no such GPU has confirmed a verdict. names: the names or architectures of the
    AMD GPUs in the report. Returns () if there are none.
    """
    if not (found := [f"`{name}`" for name in dict.fromkeys(names)]):
        return ()
    return (
        f"no AMD GPU has confirmed a verdict of ligerdiag: for {join_words(found)}, only a replay on the CPU checks"
        " the verdicts",
    )


def find_bandwidth(name: str) -> float:
    """Returns the memory bandwidth of a target that comes with ligerdiag, in bytes per second; 0 for any other name."""
    path = DIRECTORY / f"{name}{SUFFIX}"
    if not _NAME.fullmatch(name) or not path.is_file():
        return 0.0
    return float(find_number(split_fields(_load(path, name).description), f"{_INFO}.memory_bandwidth"))


def _load(path: Path, name: str) -> Target:
    try:
        if path.stat().st_size > MAXIMUM_BYTES:
            raise InputError(f"`{path}` is too large for a target description (more than {MAXIMUM_BYTES} bytes)")
        description = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the target description `{path}`: {error}") from error
    return _parse(description, name, path)


def _parse(description: str, name: str, path: Path) -> Target:
    try:
        lines = split_fields(description)
    except InputError as error:
        raise InputError(f"`{path}` describes no GPU: {error}") from error
    major, minor = find_number(lines, f"{_CUDA}.major"), find_number(lines, f"{_CUDA}.minor")
    gfx = _find_gfx(lines)
    if not major and not gfx:
        vendor = " that ligerdiag can compile for" if any("oneapi_" in line.path for line in lines) else ""
        raise InputError(
            f"`{path}` describes no GPU{vendor}: it has neither `cuda_compute_capability {{ major: … }}` nor"
            " `rocm_compute_capability { gcn_arch_name: … }`"
        )
    return Target(
        name=name,
        description=description,
        compute_capability=10 * major + minor,
        path=path,
        platform=Platform.CUDA if major else Platform.ROCM,
        architecture=_name_architecture(lines, major, minor) if major else gfx,
        model=find_value(lines, f"{_INFO}.name") or find_value(lines, "device_description_str"),
        memory=find_number(lines, f"{_INFO}.device_memory_size"),
        cores=find_number(lines, f"{_INFO}.core_count"),
    )


def read_architecture(description: str) -> str:
    """Returns the compiler's name of an AMD GPU's generation, such as `gfx942`. description: the GPU's description.
    Returns '' if it does not describe an AMD GPU. Raises InputError if it is not in protobuf text format.
    """
    return _find_gfx(split_fields(description)) if _ROCM_FIELD in description else ""


def _find_gfx(lines: tuple[FieldLine, ...]) -> str:
    """Returns the architecture of an AMD GPU without its features."""
    return find_value(lines, f"{_ROCM}.gcn_arch_name").split(":")[0]


def _name_architecture(lines: tuple[FieldLine, ...], major: int, minor: int) -> str:
    return f"sm_{major}{minor}{_EXTENSIONS.get(find_value(lines, f'{_CUDA}.feature_extension'), '')}"


def describe_dropped_fields(target: Target, toolchain: str, fields: Sequence[str]) -> str:
    """Returns a line that lists the fields of a target's description that the toolchain's XLA does not know. fields: the
    paths of these fields. Returns '' if there are none.
    """
    names = ", ".join(f"`{compute_printable(name)}`" for name in fields)
    return (
        f"XLA of `{toolchain}` compiles for `{target.name}` without fields that it does not know: {names}"
        if names
        else ""
    )
