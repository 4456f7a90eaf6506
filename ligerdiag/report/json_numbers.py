"""Replays and device runs as JSON for programs. A number that is not finite is null: JSON has no other value for it."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from ligerdiag.outcomes import DeviceOutput, DeviceRun, LaunchNumbers, OutputNumbers, Replay

type Json = dict[str, Any]


def render_replay(replay: Replay) -> Json:
    """Returns the record as a JSON object."""
    return {
        "state": replay.state.value,
        "reason": replay.reason,
        "outputs": {name: _output(numbers) for name, numbers in replay.outputs.items()},
        "reference": _numbers(replay.reference),
        "reference_tolerance": _numbers(replay.reference_tolerance),
        "changed_inputs": _numbers(replay.changed_inputs),
        "second_run": _numbers(replay.second_run),
        "launches": [_launch(launch) for launch in replay.launches],
        "unreached": list(replay.unreached),
        "seconds": round(replay.seconds, 6),
        "estimated_seconds": _number(replay.estimated_seconds),
        "estimated_bytes": replay.estimated_bytes,
        "cached": replay.cached,
    }


def render_device(device: DeviceRun) -> Json:
    """Returns the record as a JSON object."""
    return {
        "device": device.device,
        "count": device.count,
        "runs": device.runs,
        "outputs": {name: _device_output(output) for name, output in device.outputs.items()},
        "verdicts": dict(device.verdicts),
        "not_covered": list(device.not_covered),
        "intended_from": device.intended_from,
        "artifact": device.artifact,
        "milliseconds": _number(device.milliseconds),
        "timed_runs": device.timed_runs,
        "error": device.error,
        "died": device.died,
    }


def _output(numbers: OutputNumbers) -> Json:
    return {
        "attribution": numbers.attribution.value,
        "error": _number(numbers.error),
        "stale_error": _number(numbers.stale_error),
        "distance": _number(numbers.distance),
        "tolerance": _number(numbers.tolerance),
        "rows_fresh": numbers.rows_fresh,
        "rows_stale": numbers.rows_stale,
        "rows": numbers.rows,
    }


def _launch(launch: LaunchNumbers) -> Json:
    return {
        "kernel": launch.kernel,
        "instruction": launch.instruction,
        "launches": launch.launches,
        "checked": launch.checked,
        "unwritten": [
            {"output": output, "unwritten": unwritten, "elements": elements}
            for output, (unwritten, elements) in launch.unwritten.items()
        ],
        "racing": [{"operand": operand, "difference": _number(value)} for operand, value in launch.racing.items()],
    }


def _device_output(output: DeviceOutput) -> Json:
    return {
        "errors": [_number(error) for error in output.errors],
        "attribution": output.attribution.value,
        "tolerance": _number(output.tolerance),
        "distance": _number(output.distance),
        "replay_error": _number(output.replay_error),
        "unsteady": _number(output.unsteady),
    }


def _numbers(values: Mapping[str, float]) -> Json:
    return {name: _number(value) for name, value in values.items()}


def _number(value: float | None) -> float | None:
    return float(value) if value is not None and isfinite(value) else None
