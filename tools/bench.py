"""How long the default run takes, cold and warm, and what the analysis costs an instruction: `python tools/bench.py`.

A printed benchmark, not a test: figures depend on the machine. Selectors given as arguments replace the default.
"""

import json
import subprocess
import sys
import tempfile
import time


def run(selectors: list[str], cache: str) -> tuple[float, dict[str, list[dict[str, object]]]]:
    """Wall seconds of the whole process and its JSON report."""
    command = [sys.executable, "-m", "ligerdiag.cli", "check", *selectors, "--format", "json", "--cache-dir", cache]
    start = time.perf_counter()
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if not result.stdout:
        raise SystemExit(result.stderr)
    return seconds, json.loads(result.stdout)


def render(name: str, seconds: float, report: dict[str, list[dict[str, object]]]) -> str:
    """One line: cases, how many came from the cache, wall seconds."""
    cases = report["cases"]
    cached = sum(bool(case["cached"]) for case in cases)
    return f"{name:<5} {seconds:7.2f} s  {len(cases)} cases, {cached} from the cache\n"


def main() -> None:
    selectors = sys.argv[1:]
    with tempfile.TemporaryDirectory() as cache:
        sys.stdout.write(render("cold", *run(selectors, cache)))
        seconds, report = run(selectors, cache)
    sys.stdout.write(render("warm", seconds, report))
    analysed = [case for case in report["cases"] if case["cached"]]
    instructions = sum(case["coverage"]["instructions"] for case in analysed)  # type: ignore[index]
    if instructions:
        spent = sum(float(case["seconds"]) for case in analysed)  # type: ignore[arg-type]
        each = 1e6 * spent / instructions
        sys.stdout.write(f"analysis, with reading: {each:.1f} us an instruction, {instructions} instructions\n")


if __name__ == "__main__":
    main()
