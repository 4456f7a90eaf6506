"""The processes that descend from this one."""

from pathlib import Path


def find_descendants(pid: int) -> list[int]:
    """Children, their children and so on, of every thread."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *find_descendants(child)]
    return found


def is_running(pid: int) -> bool:
    """Returns whether the process exists and is not a zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
