"""The sandboxed process with a bug for every way to die; the module's name selects it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.inspection.module_inspection import ModuleInspector, ModuleOutcome
from ligerdiag.model.findings import Replay, ReplayState
from ligerdiag.sandbox import child
from ligerdiag.sandbox.child import Done, render_message

BURN = "import time\nwhile time.process_time() < 2.5: pass"
child.SANDBOX_SPARE_SECONDS = 0.0  # type: ignore[misc]


def damage(victim: Path) -> str:
    """Tries to write to the victim's file, as hostile code would, and returns the outcome."""
    try:
        victim.write_text("forged")
    except OSError as error:
        return str(error.strerror)
    return "done"


def inspect_module(self: ModuleInspector, files: ModuleFiles) -> ModuleOutcome:
    del self
    match files.id:
        case "abort":
            os.abort()
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "leave":
            os._exit(7)
        case "raise":
            raise AssertionError("a bug of ours")
        case "spin":
            re.fullmatch(r"(a+)+b", "a" * 64)  # loops in C, where Python runs no signal handler
        case "sleep":
            time.sleep(3600)
        case "delegate":
            return ModuleOutcome(notes=(str(subprocess.run([sys.executable, "-c", BURN], check=False).returncode),))
        case "swell":
            return ModuleOutcome(notes=(str(os.getpid()),), is_over_budget=True)
        case "vandal":
            return ModuleOutcome(notes=(damage(Path(os.environ["VICTIM"])),))
        case "lie":
            Path("answer.json").write_text('{"judged": 1, "notes": [], "is_idle": 0, "is_over_budget": 0}')
            os.write(answers, render_message(Done(answer=Path("answer.json"))).encode())
            time.sleep(3600)
        case "pickle":
            os.write(answers, b"\x80\x04.\n")
            time.sleep(3600)
        case _:
            pass
    return ModuleOutcome(notes=(str(os.getpid()),))


def replay(self: ModuleInspector, subject: ModuleFiles, seconds: float) -> ModuleOutcome:
    del self, seconds
    match subject.id:
        case "abort in replay":
            os.abort()
        case "spin in replay":
            re.fullmatch(r"(a+)+b", "a" * 64)
        case _:
            pass
    return ModuleOutcome(replay=Replay(state=ReplayState.DONE, reason=str(os.getpid())))


ModuleInspector.inspect_module = inspect_module  # type: ignore[method-assign]
ModuleInspector.replay = replay  # type: ignore[method-assign,assignment]
answers = os.dup(1)

if __name__ == "__main__":
    child.main()
