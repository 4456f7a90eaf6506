"""The memory that this machine has left."""

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CONTROL_GROUP = Path("/sys/fs/cgroup")


def compute_available_bytes(meminfo: Path = _MEMINFO, group: Path = _CONTROL_GROUP) -> int:
    """Bytes that may still be taken: the kernel's own estimate, or what a container's limit leaves, if that is less."""
    found = [_read_meminfo(meminfo), *_read_group(group)]
    return max(0, min(found))


def _read_meminfo(path: Path) -> int:
    for line in path.read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) << 10
    raise OSError(f"`{path}` does not say how much memory is available")


def _read_group(folder: Path) -> list[int]:
    """Returns the free memory below the limit of the control group; empty if there is no limit."""
    try:
        limit = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = int((folder / "memory.current").read_text(encoding="ascii"))
        statistics = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):
        return []
    if not limit.isdecimal():
        return []
    return [int(limit) - used + int(statistics.get("inactive_file", 0))]
