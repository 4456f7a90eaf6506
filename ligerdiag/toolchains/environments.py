"""Environments of the toolchains in `toolchains.toml`: uv makes an environment on its first use, and the cache keeps it.

    <cache>/toolchains/<name>-<hash of Python and pins>/    one environment, with Python and every package as pinned

An environment is made in a temporary sibling directory and renamed into place, so no process sees a partial one. The
process that makes it holds a lock; others wait and then find it. The remains of an interrupted process are removed. uv
looks into its own cache first and asks the package index only for missing packages. Only the pins are installed: uv
ignores dependencies. An environment for ROCm also gets the libraries of `rocm_libraries`.
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
from ligerdiag.toolchains.rocm_libraries import list_missing_libraries, write_libraries
from ligerdiag.toolchains.toolchain import Platform, Toolchain, current_toolchain
from ligerdiag.toolchains.toolchain_table import DEFAULT, ToolchainSpec, find_spec

HINT = "install uv (`pip install uv`) or put it on PATH"


class UvError(Exception):
    """Raised if the command uv fails. The message is the error that uv printed."""


def find_uv(directory: Path) -> tuple[str, ...]:
    """Returns a command that runs uv in `directory`. Raises InputError if uv is not installed."""
    for command in _list_candidates():
        try:
            done = subprocess.run([*command, "--version"], check=False, capture_output=True, cwd=directory, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return command
    raise InputError(f"cannot create an environment without uv: {HINT}")


def run_uv(command: Sequence[str], arguments: Sequence[str], directory: Path, on_line: Callable[[str], None]) -> None:
    """Runs uv in `directory`, and calls `on_line` with each line that uv prints. Raises UvError if uv fails. If this process
    is interrupted, uv ends too.

    command: from `find_uv`. arguments: uv's arguments. directory: outside of any project, because uv would read the
    project's `[tool.uv]`.
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
        output: list[str] = []
        try:
            for line in process.stdout:
                if line.strip():
                    output.append(line.strip())
                    on_line(line.strip())
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise UvError(_summarise(output) or f"uv ended with exit code {process.returncode}")


def _list_candidates() -> Iterator[tuple[str, ...]]:
    """Yields commands that may run uv: the path that `uv run` exports, then uv beside our Python, on PATH, beside our
    base Python, in the user's ~/.local/bin, and as a Python module.
    """
    base = Path(getattr(sys, "_base_executable", sys.executable))
    places = (os.environ.get("UV"), Path(sys.executable).with_name("uv"), shutil.which("uv"), base.with_name("uv"))
    for place in (*places, Path.home() / ".local" / "bin" / "uv"):
        if place is not None and Path(place).is_file():
            yield (str(place),)
    yield (sys.executable, "-P", "-m", "uv")


def _summarise(output: Sequence[str]) -> str:
    """Returns the error that uv printed, with its causes, in one line of at most 400 characters."""
    start = next(
        (number for number, line in enumerate(output) if line.startswith(("error", "×", "Error"))), len(output) - 1
    )
    return " ".join(line.lstrip("×╰─▶│├ ") for line in output[max(start, 0) :])[:400]


type OnLine = Callable[[str], None]


def provide_toolchain(name: str, cache: Cache, on_line: OnLine | None = None) -> Toolchain:
    """Returns the toolchain called `name`. Makes its environment if it does not exist yet.

    on_line: called with each line of progress. Raises InputError if the name is unknown, or if the environment cannot be
    made or differs from the pins. Raises LigerdiagError if the name is `default`, and the packages of this interpreter do
    not fit together.
    """
    if name == DEFAULT:
        return current_toolchain()
    spec = find_spec(name)
    directory = create_environment(spec, cache, on_line or _ignore)
    differences = find_differences(spec, directory)
    if differences:
        raise InputError(
            f"the environment of toolchain `{name}` differs from its pins ({', '.join(differences)}): remove"
            f" `{directory}`, and ligerdiag makes it again"
        )
    return describe_toolchain(spec, directory)


def locate_environment(spec: ToolchainSpec, cache: Cache) -> Path:
    """Returns the directory for a toolchain's environment. It may not exist yet."""
    return cache.root / TOOLCHAINS / spec.directory_name


def has_environment(directory: Path) -> bool:
    """Returns whether a directory has an environment with an interpreter."""
    return (directory / "bin" / "python").exists()


def create_environment(spec: ToolchainSpec, cache: Cache, on_line: OnLine) -> Path:
    """Returns the directory of a toolchain's environment. Makes the environment if it does not exist yet. Raises
    InputError if it cannot be made.
    """
    directory = locate_environment(spec, cache)
    if has_environment(directory):
        return directory
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with hold_key(cache.artifacts, f"toolchain-{spec.directory_name}"):
            if not has_environment(directory):  # another process may have made it meanwhile
                _make_environment(spec, directory, on_line)
    except OSError as error:
        raise InputError(f"cannot create toolchain `{spec.name}` in `{directory.parent}`: {error}") from error
    return directory


def describe_toolchain(spec: ToolchainSpec, directory: Path) -> Toolchain:
    """Returns the toolchain with the environment in `directory`, which must exist."""
    return Toolchain(
        name=spec.name,
        python=str(directory / "bin" / "python"),
        versions={**spec.packages, "python": _read_python(directory)},
        options=spec.options,
        platform=spec.platform,
    )


def find_differences(spec: ToolchainSpec, directory: Path) -> tuple[str, ...]:
    """Returns the differences between an environment and the toolchain's pins, such as `triton 3.2.0 instead of 3.1.0`.

    If a package or a library of `rocm_libraries` is missing, the text is `no`, followed by its name. Packages that the
    toolchain does not pin are ignored.
    """
    folders = [str(path) for path in (directory / "lib").glob("python3*/site-packages")]
    found = {_normalise(one.name): one.version for one in metadata.distributions(path=folders)}
    missing = list_missing_libraries(directory) if spec.platform is Platform.ROCM else ()
    return tuple(
        f"{name} {found[_normalise(name)]} instead of {version}" if _normalise(name) in found else f"no {name}"
        for name, version in spec.packages.items()
        if found.get(_normalise(name)) != version
    ) + tuple(f"no {name}" for name in missing)


def _make_environment(spec: ToolchainSpec, directory: Path, on_line: OnLine) -> None:
    parent = directory.parent
    uv = find_uv(parent)
    scratch = parent / f"{SCRATCH_PREFIX}{os.getpid()}-{uuid.uuid4().hex[:12]}"
    pins = scratch.with_name(f"{scratch.name}.txt")
    on_line(f"creating toolchain {spec.name}: {len(spec.packages)} packages, some of them large")
    try:
        pins.write_text("".join(f"{line}\n" for line in spec.requirements), encoding="utf-8")
        _run(
            uv,
            ("venv", "--quiet", "--relocatable", "--python", _choose_python(spec), str(scratch)),
            spec,
            parent,
            on_line,
        )
        python = str(scratch / "bin" / "python")
        install = ("pip", "install", "--python", python, "--no-deps", "--requirement", str(pins))
        try:
            run_uv(uv, (*install, "--offline"), parent, _ignore)
        except UvError:
            _run(uv, install, spec, parent, on_line)
        if spec.platform is Platform.ROCM:
            write_libraries(scratch)
        if directory.exists():  # its interpreter is gone
            shutil.rmtree(directory)
        os.rename(scratch, directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        pins.unlink(missing_ok=True)


def _run(
    uv: tuple[str, ...], arguments: tuple[str, ...], spec: ToolchainSpec, directory: Path, on_line: OnLine
) -> None:
    try:
        run_uv(uv, arguments, directory, on_line)
    except UvError as error:
        needs = f"a Python {spec.python}" if arguments[0] == "venv" else "a package index that has its packages"
        raise InputError(
            f"cannot create toolchain `{spec.name}`: this needs {needs}; or copy `{directory / spec.directory_name}` from a"
            f" similar machine on which `ligerdiag toolchains create {spec.name}` worked; uv says: {error}"
        ) from error


def _choose_python(spec: ToolchainSpec) -> str:
    """Returns the argument by which uv chooses the environment's Python: the path of our own interpreter if it has the
    wanted version, because it surely exists; otherwise the version, for uv to find.
    """
    if f"{sys.version_info.major}.{sys.version_info.minor}" == spec.python:
        return str(getattr(sys, "_base_executable", sys.executable))
    return spec.python


def _read_python(directory: Path) -> str:
    """Returns the full version of the Python in the environment; empty if uv did not record it."""
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
