"""Replaces attributes of one object for a while."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


@contextmanager
def override(target: Any, **values: Any) -> Generator[None]:
    """Sets attributes on the object itself, over those of its class, and takes them back."""
    before = {name: target.__dict__[name] for name in values if name in target.__dict__}
    for name, value in values.items():
        setattr(target, name, value)
    try:
        yield
    finally:
        for name in values:
            if name in before:
                setattr(target, name, before[name])
            else:
                delattr(target, name)
