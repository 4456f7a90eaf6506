"""The process that reads strangers' files cannot attack others: each attack is tried free, then confined, as root and
as a user.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ligerdiag.sandbox import child
from ligerdiag.sandbox.seccomp import list_denied, make_filter
from tests.sandbox.hostile import ROOT

SET_UP = """
import encodings.ascii, ctypes, fcntl, json, os, pty, resource, signal, socket, stat, sys, termios, threading
from pathlib import Path
from ligerdiag.sandbox import child
libc = ctypes.CDLL(None, use_errno=True)
parent, CPU = os.getppid(), resource.RLIMIT_CPU
os.setsid()
master, terminal = pty.openpty()
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
Path("file").write_text("x")
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind("listener")
listener.listen()
letters = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
letters.bind("letters")
user = int(sys.argv[2])
if user:
    os.chown(".", user, user)
    os.chown("file", user, user)
    for name in ("listener", "letters"):
        os.chmod(name, 0o777)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)

def call(number, *words):
    if libc.syscall(number, *[ctypes.c_long(word) if isinstance(word, int) else word for word in words]) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def connect():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        one.connect("listener")

def send():
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", "letters")

def start_thread():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()

def fork():
    if (number := os.fork()) == 0:
        os._exit(0)
    os.waitpid(number, 0)

def gain():
    caps = ctypes.create_string_buffer(24)
    libc.capset(b"\\x22\\x05\\x08\\x20" + bytes(4), b"\\xff\\xff\\xff\\xff" * 6)
    status = dict(line.split(":\\t") for line in Path("/proc/self/status").read_text().splitlines() if ":\\t" in line)
    if not any(int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb", "CapBnd")):
        raise PermissionError(1, "none")

attacks = {
    "makes a device": lambda: os.mknod("disk", 0o600 | stat.S_IFBLK, os.makedev(7, 0)),
    "makes a character device": lambda: os.mknod("tty", 0o600 | stat.S_IFCHR, os.makedev(5, 0)),
    "makes a pipe": lambda: os.mkfifo("pipe"),
    "opens a device": lambda: os.close(os.open("/dev/ptmx", os.O_RDONLY | os.O_NOCTTY)),
    "types into the terminal": lambda: fcntl.ioctl(terminal, termios.TIOCSTI, b"x"),
    "types with more bits set": lambda: call(CALLS["ioctl"], terminal, (1 << 40) | termios.TIOCSTI, ctypes.c_char_p(b"x")),
    "connects to a socket": connect,
    "sends to a socket": send,
    "makes a socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).close(),
    "changes an owner": lambda: os.chown("file", os.geteuid(), os.getegid()),
    "changes an attribute": lambda: os.setxattr("file", "user.x", b"1"),
    "changes a mode": lambda: os.chmod("file", 0o600),
    "changes times": lambda: os.utime("file"),
    "makes a user namespace": lambda: fork_namespace(),
    "sets a limit of its parent": lambda: resource.prlimit(parent, CPU, resource.getrlimit(CPU)),
    "asks for a ring": lambda: os.close(ring()),
    "has capabilities": gain,
    "signals its parent": lambda: os.kill(parent, 0),
    "writes": lambda: (Path("new").write_text("x"), Path("new").rename("newer")),
    "starts a thread": start_thread,
    "forks": fork,
    "has pairs of streams": lambda: socket.socketpair(),
}
CALLS = {"x86_64": {"ioctl": 16, "ring": 425}, "aarch64": {"ioctl": 29, "ring": 425}}[os.uname().machine]

def ring():
    number = libc.syscall(ctypes.c_long(CALLS["ring"]), ctypes.c_long(1), ctypes.create_string_buffer(120))
    if number < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return number

def fork_namespace():
    if (number := os.fork()) == 0:
        try:
            os.unshare(os.CLONE_NEWUSER)
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(number, 0)[1]:
        raise PermissionError(1, "refused")

said = {}
if sys.argv[1] == "confined":
    confinement = child.confine(Path.cwd())
    said["confinement"] = [confinement.active, confinement.refused]
for name, attack in attacks.items():
    try:
        attack()
    except OSError as error:
        said[name] = error.errno
    else:
        said[name] = 0
os.write(1, json.dumps(said).encode())
"""
HARMLESS = ("writes", "starts a thread", "forks", "has pairs of streams")
NOBODY = 65534
NEEDS = {
    "has capabilities": ("no capabilities",),
    "signals its parent": ("Landlock 6", "Landlock 7", "Landlock 8", "Landlock 9"),
    "opens a device": ("Landlock",),
}
"""The protection that stops the attack; a filter of system calls if the attack is not listed."""
ATTACKS = (
    "makes a device", "makes a character device", "makes a pipe", "opens a device", "types into the terminal",
    "types with more bits set", "connects to a socket", "sends to a socket", "makes a socket", "changes an owner",
    "changes an attribute", "changes a mode", "changes times", "makes a user namespace", "sets a limit of its parent",
    "asks for a ring", "has capabilities", "signals its parent",
)  # fmt: skip

type Said = dict[str, int]


def run(folder: Path, how: str, user: int) -> dict[str, object]:
    folder.mkdir()
    for above in folder.parents:
        if above.stat().st_uid == os.getuid() and above != Path("/") and user:
            above.chmod(above.stat().st_mode | 0o011)
    done = subprocess.run(
        [sys.executable, "-c", SET_UP, how, str(user)],
        cwd=folder, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said: dict[str, object] = json.loads(done.stdout)
    return said


@pytest.fixture(scope="module", params=[0, NOBODY], ids=["root", "user"])
def tried(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Said, Said, list[list[str]]]:
    """Returns the errno of each attack, or 0 if it succeeded: free, and confined with the list of active protections."""
    user: int = request.param
    if os.getuid() != 0:
        if user == 0:
            pytest.skip("these tests do not run as root")
        user = 0  # keeps the current user
    folder = tmp_path_factory.mktemp("tried")
    free, confined = run(folder / "free", "free", user), run(folder / "confined", "confined", user)
    active: list[list[str]] = confined.pop("confinement")  # type: ignore[assignment]
    return free, confined, active  # type: ignore[return-value]


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_attack_is_denied(attack: str, tried: tuple[Said, Said, list[list[str]]]) -> None:
    free, confined, (active, refused) = tried
    if free[attack]:
        pytest.skip(f"this kernel refuses it anyway: {os.strerror(free[attack])}")
    if not any(one.startswith(NEEDS.get(attack, ("a filter of system calls",))) for one in active):
        pytest.skip(f"this kernel does not let it be given up: {refused}")
    assert confined[attack] in (1, 13), os.strerror(confined[attack])


@pytest.mark.parametrize("action", HARMLESS)
def test_confinement_allows_everything_that_reading_needs(
    action: str, tried: tuple[Said, Said, list[list[str]]]
) -> None:
    free, confined, _ = tried
    assert free[action] == confined[action] == 0


@pytest.mark.parametrize(
    ("step", "what"),
    [
        ("_leave_network", "the right to use the network"),
        ("deny_changes", "the right to write to your files"),
        ("_drop_capabilities", "its Linux capabilities"),
        ("deny_calls", "the right to make system calls that it does not need"),
    ],
)
def test_a_protection_that_the_kernel_lacks_is_reported(
    step: str, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    for name in ("_leave_network", "deny_changes", "_drop_capabilities", "deny_calls"):
        monkeypatch.setattr(child, name, refuse if name == step else lambda *_: 7)
    monkeypatch.setattr(child, "_limit", lambda *_: None)
    monkeypatch.setattr(child, "_OOM_SCORE", "0")
    monkeypatch.setenv(child.SHARED_TEMPLATES, "")  # `confine` deletes it, and later tests need it
    confinement = child.confine(tmp_path)
    assert confinement.refused == (f"the process that reads files could not give up {what}: Function not implemented",)
    assert len(confinement.active) == 3


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_kernel_accepts_the_filter(machine: str) -> None:
    """At most 4096 instructions; each jump ends inside the filter; the table names no call twice."""
    code = make_filter(machine)
    instructions = [code[at : at + 8] for at in range(0, len(code), 8)]
    assert len(code) % 8 == 0
    assert len(instructions) < 4096
    for number, one in enumerate(instructions):
        assert one[0] & 7 != 5 or number + 1 + max(one[2], one[3]) < len(instructions)
    numbers = list(list_denied(machine).values())
    assert len(numbers) == len(set(numbers))


def test_an_unknown_architecture_has_no_filter() -> None:
    with pytest.raises(OSError, match="for the architecture riscv64"):
        make_filter("riscv64")


def test_a_verbose_run_lists_the_active_protections(tmp_path: Path) -> None:
    (tmp_path / "step.hlo").write_text("HloModule a\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n")
    command = [sys.executable, "-m", "ligerdiag", "inspect", "-v", "step.hlo"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False,
        env=os.environ | {"LIGERDIAG_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "500"},
    )  # fmt: skip
    assert "the process that reads files is confined: " in done.stdout or "could not give up" in done.stdout
