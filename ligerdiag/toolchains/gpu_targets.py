"""Descriptions of GPUs, which let XLA compile for a GPU that this machine does not have.

A description is a `GpuTargetConfigProto` in protobuf text format. Those in targets/ name the source of every figure.
XLA writes one for a real GPU into each dump (`*gpu_target_config.pbtxt`), and such a file can be used as a target.

XLA refuses a description with a field that it does not know, so `drop_fields` removes the fields that an older XLA does
not know and would not use.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ligerdiag.errors import InputError

DIRECTORY = Path(__file__).parent / "targets"
SUFFIX = ".pbtxt"
MAXIMUM_BYTES = 1 << 20

_CAPABILITY = re.compile(r"cuda_compute_capability\s*:?\s*\{([^{}]*)\}")
_BANDWIDTH = re.compile(r"\bmemory_bandwidth\s*:\s*(\d+)")
_NUMBER = {name: re.compile(rf"\b{name}\s*:\s*(\d+)") for name in ("major", "minor")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A GPU model for which XLA can compile from a description alone."""

    name: str
    description: str
    """The `GpuTargetConfigProto` as text, including comments."""
    compute_capability: int
    """Compute capability times ten, such as 90 for 9.0."""
    path: Path

    @property
    def sha256(self) -> str:
        """Returns the sha256 of the description without comments and indentation, which XLA ignores."""
        return sha256(strip_comments(self.description).encode()).hexdigest()


def list_targets() -> tuple[Target, ...]:
    """Returns the targets that come with ligerdiag, in the order of their names."""
    return tuple(_load(path, path.stem) for path in sorted(DIRECTORY.glob(f"*{SUFFIX}")))


def load_target(name_or_path: str) -> Target:
    """Returns the target of that name, or the target that the file at that path describes. Raises InputError if there
    is neither, or the file is no description.
    """
    path = DIRECTORY / f"{name_or_path}{SUFFIX}"
    if re.fullmatch(r"[\w.-]+", name_or_path) and path.is_file():
        return _load(path, name_or_path)
    path = Path(name_or_path)
    if path.is_file():
        return _load(path, path.stem)
    known = ", ".join(sorted(file.stem for file in DIRECTORY.glob(f"*{SUFFIX}")))
    raise InputError(f"expected a target of {known}, or a description file, but got `{name_or_path}`")


def find_bandwidth(name: str) -> float:
    """Returns the memory bandwidth, in bytes per second, of a target that ligerdiag has; 0 for any other name."""
    path = DIRECTORY / f"{name}{SUFFIX}"
    if not re.fullmatch(r"[\w.-]+", name) or not path.is_file():
        return 0.0
    found = _BANDWIDTH.search(strip_comments(_load(path, name).description))
    return float(found[1]) if found else 0.0


def strip_comments(description: str) -> str:
    """Returns the description without comments, blank lines and indentation; a `#` inside quotes is no comment."""
    lines = (re.sub(r'^((?:[^"#]|"[^"]*")*)#.*$', r"\1", line).strip() for line in description.splitlines())
    return "\n".join(line for line in lines if line)


def _load(path: Path, name: str) -> Target:
    try:
        if path.stat().st_size > MAXIMUM_BYTES:
            raise InputError(f"`{path}` is too large for a target description (more than {MAXIMUM_BYTES} bytes)")
        description = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the target description `{path}`: {error}") from error
    found = _CAPABILITY.search(strip_comments(description))
    major = _NUMBER["major"].search(found[1]) if found else None
    if found is None or major is None:
        raise InputError(f"`{path}` describes no CUDA GPU: it has no `cuda_compute_capability {{ major: … }}`")
    minor = _NUMBER["minor"].search(found[1])
    capability = 10 * int(major[1]) + (int(minor[1]) if minor else 0)
    return Target(name=name, description=description, compute_capability=capability, path=path)


_TOKEN = re.compile(r'\s*(?P<token>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[\w.+-]+|[{}<>\[\]:,;])')
_CLOSING = {"{": "}", "<": ">", "[": "]"}


def drop_fields(description: str, unknown: Collection[str]) -> str:
    """Returns the description without the fields at the paths `unknown`, such as `gpu_device_info.name`.

    The result has no comments and one field per line; the description is unchanged if `unknown` is empty. Raises
    InputError if the description is not in protobuf text format.
    """
    if not unknown:
        return description
    tokens = tuple(_split(strip_comments(description)))
    lines, end = _keep_fields(tokens, 0, "", frozenset(unknown))
    if end != len(tokens):
        raise InputError(f"expected a field in the target description but got `{tokens[end]}`")
    return "".join(f"{line}\n" for line in lines)


def _split(description: str) -> Iterator[str]:
    position, text = 0, description.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InputError(
                f"expected protobuf text format in the target description but got `{text[position:][:20]}`"
            )
        yield match["token"]
        position = match.end()


def _keep_fields(tokens: tuple[str, ...], position: int, path: str, unknown: frozenset[str]) -> tuple[list[str], int]:
    """Returns the lines of the fields from `position` to the end of their message, without the fields `unknown`, and
    the position of that end.

    path: that of the message, with which the paths of its fields begin.
    """
    lines: list[str] = []
    while position < len(tokens) and tokens[position] not in _CLOSING.values():
        name = tokens[position]
        field = f"{path}.{name}" if path else name
        position += 1
        if position < len(tokens) and tokens[position] == ":":
            position += 1
        if position == len(tokens):
            raise InputError(f"expected a value of `{field}` in the target description but got the end of the text")
        if tokens[position] in ("{", "<"):
            inner, end = _keep_fields(tokens, position + 1, field, unknown)
            _expect(tokens, end, _CLOSING[tokens[position]])
            value = ["{", *(f"  {line}" for line in inner), "}"]
        else:
            end = _find_value_end(tokens, position)
            value = [": " + " ".join(tokens[position : end + 1])]
        position = end + 1
        if position < len(tokens) and tokens[position] in (",", ";"):
            position += 1
        if field not in unknown:
            lines += [f"{name}{' ' if value[0] == '{' else ''}{value[0]}", *value[1:]]
    return lines, position


def _find_value_end(tokens: tuple[str, ...], position: int) -> int:
    """Returns the position of the last token of the value at `position`: the bracket that closes a list, or the value
    itself.
    """
    if tokens[position] != "[":
        return position
    end = position
    while end < len(tokens) and tokens[end] != "]":
        end += 1
    _expect(tokens, end, "]")
    return end


def _expect(tokens: tuple[str, ...], position: int, token: str) -> None:
    found = tokens[position] if position < len(tokens) else "its end"
    if found != token:
        raise InputError(f"expected `{token}` in the target description but got `{found}`")
