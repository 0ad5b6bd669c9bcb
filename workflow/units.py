"""Quantities with units, read once at the edge and kept as SI integers from there on.

Bytes are binary (``8 KiB``) or decimal (``8 kB``), rates are bits per second (``400 Gb/s``; ``50 GB/s`` is
the same), times are picoseconds inside (``20 ns``). A plain number is accepted only where it cannot be
misread: a count of bytes.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from topologies.errors import ConfigError

_QUANTITY = re.compile(r"^\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s].*?)?\s*$")

_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_DECIMAL: Final = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

BYTE_UNITS: Final[dict[str, int]] = {"B": 1} | {
    f"{prefix}B": size for prefix, size in (_DECIMAL | _BINARY).items()
}

RATE_UNITS: Final[dict[str, int]] = (
    {"b/s": 1, "B/s": 8}
    | {f"{prefix}{unit}": size for prefix, size in _DECIMAL.items() for unit in ("b/s", "bit/s", "bps")}
    | {f"{prefix}B/s": 8 * size for prefix, size in (_DECIMAL | _BINARY).items()}
)

TIME_UNITS: Final[dict[str, int]] = {
    "ps": 1,
    "ns": 10**3,
    "us": 10**6,
    "µs": 10**6,
    "ms": 10**9,
    "s": 10**12,
}


def parse_bytes(value: int | float | str, field: str = "size") -> int:
    """Return a number of bytes, zero or more, from ``1 MiB``, ``64kB``, ``16 B`` or a plain whole number.

    Raises:
        ConfigError: naming `field` and `value`, for anything else.

    """
    return _parse(value, field, BYTE_UNITS, example="64 KiB", bare="B")


def parse_rate_bps(value: int | float | str, field: str = "rate") -> int:
    """Return bits per second, zero or more, from ``400 Gb/s`` or ``50 GB/s``; of plain numbers only 0.

    Raises:
        ConfigError: naming `field` and `value`.

    """
    return _parse(value, field, RATE_UNITS, example="400 Gb/s", bare=None)


def parse_time_ps(value: int | float | str, field: str = "time") -> int:
    """Return picoseconds, zero or more, from ``20 ns`` or ``1.5 us``; of plain numbers only 0.

    Raises:
        ConfigError: naming `field` and `value`.

    """
    return _parse(value, field, TIME_UNITS, example="20 ns", bare=None)


def _parse(
    value: int | float | str, field: str, units: dict[str, int], *, example: str, bare: str | None
) -> int:
    wanted = f"write it like '{example}'"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ConfigError(f"{field}: {value!r} is not a quantity; {wanted}.")
    match = _QUANTITY.match(str(value))
    if match is None:
        raise ConfigError(f"{field}: {value!r} is not a quantity; {wanted}.")
    number, unit = Fraction(match[1]), match[2]
    if unit is None:
        if bare is None and number != 0:
            raise ConfigError(f"{field}: {value!r} has no unit; {wanted}.")
        unit = bare if bare is not None else next(iter(units))
    if unit not in units:
        raise ConfigError(f"{field}: {value!r} has the unknown unit '{unit}'; known are {', '.join(units)}.")
    if number < 0:
        raise ConfigError(f"{field}: {value!r} is negative; it must be zero or more.")
    exact = number * units[unit]
    if exact.denominator != 1:
        raise ConfigError(f"{field}: {value!r} is not a whole number of {next(iter(units))}.")
    return exact.numerator


def format_bytes(size_bytes: int) -> str:
    """Return the shortest exact spelling of a size: ``1048576`` is ``1 MiB``, ``32000000`` is ``32 MB``."""
    return _format(size_bytes, BYTE_UNITS)


def format_rate(rate_bps: int) -> str:
    """Return a rate in Gb/s where that is exact, as links are named: ``1600000000000`` is ``1600 Gb/s``."""
    return _format(rate_bps, {"b/s": 1} | {f"{prefix}b/s": _DECIMAL[prefix] for prefix in "kMG"})


def format_time(time_ps: int) -> str:
    """Return the shortest exact spelling of a time: ``40000`` is ``40 ns``."""
    return _format(time_ps, {unit: size for unit, size in TIME_UNITS.items() if unit != "µs"})


def _format(amount: int, units: dict[str, int]) -> str:
    if amount == 0:
        return f"0 {next(iter(units))}"
    best = max((unit for unit, size in units.items() if amount % size == 0), key=lambda unit: units[unit])
    return f"{amount // units[best]} {best}"
