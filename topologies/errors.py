"""Errors that a user can mend: one sentence that names the field, its value and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ConfigError(ValueError):
    """An input that cannot work; its message is one sentence for the person who wrote the input."""


def require(condition: bool, field: str, value: object, allowed: str) -> None:
    """Raise ConfigError "`field` is `value` but must be `allowed`." unless `condition` holds."""
    if not condition:
        raise ConfigError(f"{field} is {value} but must be {allowed}.")


def require_integer(field: str, value: object, at_least: int) -> None:
    """Raise ConfigError unless `value` is an int (not a bool) of at least `at_least`."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or int(str(value)) < at_least:
        raise ConfigError(f"{field} is {value!r} but must be an integer of at least {at_least}.")


def unknown_name(field: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that is not among `known`, with the nearest known name where one is near."""
    choices = sorted(known)
    near = difflib.get_close_matches(name.lower(), choices, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return ConfigError(f"{field} is {name!r} but must be one of {', '.join(choices)}{hint}")
