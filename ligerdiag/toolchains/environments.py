"""Environments of the table's toolchains: made by uv when they are first needed, and kept.

    <cache>/toolchains/<name>-<hash of Python and pins>/    one environment, with Python and every package as pinned

1. An environment is made beside its place and moved there by one rename: no process sees it half made. The process that
   makes one holds its lock; others wait, and then find it. The remains of an interrupted one are removed.
2. uv looks into its own cache first, and asks the package index only for missing packages.
3. Nothing but the pins is installed: uv gets the option to ignore dependencies.
"""

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

from ligerdiag.artifacts.cache import SCRATCH_PREFIX, TOOLCHAINS, Cache, hold_key
from ligerdiag.errors import InputError
from ligerdiag.toolchains.toolchain import Toolchain, current_toolchain
from ligerdiag.toolchains.toolchain_table import DEFAULT, ToolchainSpec, find_spec

HINT = "install uv (`pip install uv`) or put it on PATH"


class UvError(Exception):
    """uv did not do what was asked; the message is what it said last."""


def find_uv(directory: Path) -> tuple[str, ...]:
    """Returns the command that runs uv, tried in `directory`; raises InputError when none runs there."""
    for command in _list_candidates():
        try:
            done = subprocess.run([*command, "--version"], check=False, capture_output=True, cwd=directory, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return command
    raise InputError(f"cannot create an environment without uv: {HINT}")


def run_uv(command: Sequence[str], arguments: Sequence[str], directory: Path, tell: Callable[[str], None]) -> None:
    """Runs uv in `directory` and tells each line that it writes; UvError when it fails. Ends with what interrupts us.

    directory: outside of any project, whose `[tool.uv]` would count.
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    with subprocess.Popen(
        [*command, *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        said: list[str] = []
        try:
            for line in process.stdout:
                if line.strip():
                    said.append(line.strip())
                    tell(line.strip())
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise UvError(_summarise(said) or f"uv ended with exit code {process.returncode}")


def _list_candidates() -> Iterator[tuple[str, ...]]:
    """`uv run` says where it is; else beside our Python, on PATH, beside the Python that ours was made from, as a module."""
    base = Path(getattr(sys, "_base_executable", sys.executable))
    places = (os.environ.get("UV"), Path(sys.executable).with_name("uv"), shutil.which("uv"), base.with_name("uv"))
    for place in (*places, Path.home() / ".local" / "bin" / "uv"):
        if place is not None and Path(place).is_file():
            yield (str(place),)
    yield (sys.executable, "-P", "-m", "uv")


def _summarise(said: Sequence[str]) -> str:
    """Returns the error and its causes in one line."""
    start = next(
        (number for number, line in enumerate(said) if line.startswith(("error", "×", "Error"))), len(said) - 1
    )
    return " ".join(line.lstrip("×╰─▶│├ ") for line in said[max(start, 0) :])[:400]


type Tell = Callable[[str], None]


def provide_toolchain(name: str, cache: Cache, tell: Tell | None = None) -> Toolchain:
    """Returns the toolchain of that name; makes its environment if it does not exist yet.

    tell: called with each step of that. Raises InputError for an unknown name, when the environment cannot be made, and
    when it is not as pinned: then its versions would be wrong. Raises LigerdiagError when our own packages do not fit
    together.
    """
    if name == DEFAULT:
        return current_toolchain()
    spec = find_spec(name)
    directory = create_environment(spec, cache, tell or _ignore)
    differences = find_differences(spec, directory)
    if differences:
        raise InputError(
            f"the environment of toolchain `{name}` is not as pinned ({', '.join(differences)}): remove `{directory}`"
        )
    return describe_toolchain(spec, directory)


def locate_environment(spec: ToolchainSpec, cache: Cache) -> Path:
    """Returns the place of the environment, whether it exists or not."""
    return cache.root / TOOLCHAINS / spec.directory_name


def has_environment(directory: Path) -> bool:
    """Returns whether the environment exists, and its interpreter, too."""
    return (directory / "bin" / "python").exists()


def create_environment(spec: ToolchainSpec, cache: Cache, tell: Tell) -> Path:
    """Makes the environment unless it is there, and returns its directory; InputError when it cannot be made."""
    directory = locate_environment(spec, cache)
    if has_environment(directory):
        return directory
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with hold_key(cache.artifacts, f"toolchain-{spec.directory_name}"):
            if not has_environment(directory):  # another process may have made it meanwhile
                _make_environment(spec, directory, tell)
    except OSError as error:
        raise InputError(f"cannot create toolchain `{spec.name}` in `{directory.parent}`: {error}") from error
    return directory


def describe_toolchain(spec: ToolchainSpec, directory: Path) -> Toolchain:
    """Returns the toolchain whose environment is there."""
    return Toolchain(
        name=spec.name,
        python=str(directory / "bin" / "python"),
        versions={**spec.packages, "python": _read_python(directory)},
        options=spec.options,
        unknown_target_fields=spec.unknown_target_fields,
    )


def find_differences(spec: ToolchainSpec, directory: Path) -> tuple[str, ...]:
    """Returns the differences from the pins: `triton 3.2.0 instead of 3.1.0`, `no scipy`; ignores packages beside the
    pins."""
    folders = [str(path) for path in (directory / "lib").glob("python3*/site-packages")]
    found = {_normalise(one.name): one.version for one in metadata.distributions(path=folders)}
    return tuple(
        f"{name} {found[_normalise(name)]} instead of {version}" if _normalise(name) in found else f"no {name}"
        for name, version in spec.packages.items()
        if found.get(_normalise(name)) != version
    )


def _make_environment(spec: ToolchainSpec, directory: Path, tell: Tell) -> None:
    parent = directory.parent
    uv = find_uv(parent)
    scratch = parent / f"{SCRATCH_PREFIX}{os.getpid()}-{uuid.uuid4().hex[:12]}"
    pins = scratch.with_name(f"{scratch.name}.txt")
    tell(f"creating toolchain {spec.name}: {len(spec.packages)} packages, some of them large")
    try:
        pins.write_text("".join(f"{line}\n" for line in spec.requirements), encoding="utf-8")
        _run(
            uv, ("venv", "--quiet", "--relocatable", "--python", _choose_python(spec), str(scratch)), spec, parent, tell
        )
        python = str(scratch / "bin" / "python")
        install = ("pip", "install", "--python", python, "--no-deps", "--requirement", str(pins))
        try:
            run_uv(uv, (*install, "--offline"), parent, _ignore)
        except UvError:
            _run(uv, install, spec, parent, tell)
        if directory.exists():  # its interpreter is gone
            shutil.rmtree(directory)
        os.rename(scratch, directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        pins.unlink(missing_ok=True)


def _run(uv: tuple[str, ...], arguments: tuple[str, ...], spec: ToolchainSpec, directory: Path, tell: Tell) -> None:
    try:
        run_uv(uv, arguments, directory, tell)
    except UvError as error:
        needs = f"a Python {spec.python}" if arguments[0] == "venv" else "a package index that has its packages"
        raise InputError(
            f"cannot create toolchain `{spec.name}`: it needs {needs}, or a copy of `{directory / spec.directory_name}`"
            f" from a machine like this, where `ligerdiag toolchains create {spec.name}` made it; uv says: {error}"
        ) from error


def _choose_python(spec: ToolchainSpec) -> str:
    """Our own interpreter where it is of that version, which is sure to be there."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == spec.python:
        return str(getattr(sys, "_base_executable", sys.executable))
    return spec.python


def _read_python(directory: Path) -> str:
    """Returns the full version of the environment's interpreter; "" where uv did not write it down."""
    try:
        lines = (directory / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    fields = dict(line.replace(" ", "").split("=", 1) for line in lines if "=" in line)
    return fields.get("version_info", fields.get("version", ""))


def _normalise(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _ignore(line: str) -> None:
    del line
