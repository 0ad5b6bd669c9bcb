"""Quantities with units."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies import ConfigError
from workflow.units import format_bytes, format_rate, format_time, parse_bytes, parse_rate_bps, parse_time_ps


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("16 B", 16),
        ("8KiB", 8192),
        ("  1 MiB ", 2**20),
        ("1.5 GiB", 3 * 2**29),
        ("2 kB", 2000),
        ("32 MB", 32_000_000),
        ("1e3 B", 1000),
        (4096, 4096),
        ("0", 0),
    ],
)
def test_sizes_are_binary_or_decimal_by_their_unit(text: str | int, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("400 Gb/s", 400 * 10**9),
        ("50 GB/s", 400 * 10**9),
        ("1.6Tb/s", 1600 * 10**9),
        ("100 Gbps", 10**11),
        (0, 0),
    ],
)
def test_rates_are_bits_per_second(text: str | int, expected: int) -> None:
    assert parse_rate_bps(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("20 ns", 20_000), ("1.5 us", 1_500_000), ("1 µs", 10**6), ("3ms", 3 * 10**9), (0, 0)],
)
def test_times_are_picoseconds(text: str | int, expected: int) -> None:
    assert parse_time_ps(text) == expected


@pytest.mark.parametrize(
    ("parse", "value", "fault"),
    [
        (parse_bytes, "-1 MiB", "is negative"),
        (parse_bytes, -5, "is negative"),
        (parse_bytes, "1 KB", "unknown unit 'KB'"),
        (parse_bytes, "1 Mib", "unknown unit"),
        (parse_bytes, "many", "is not a quantity"),
        (parse_bytes, "", "is not a quantity"),
        (parse_bytes, "1.5 B", "is not a whole number of B"),
        (parse_bytes, True, "is not a quantity"),
        (parse_bytes, None, "is not a quantity"),
        (parse_bytes, float("nan"), "is not a quantity"),
        (parse_bytes, float("inf"), "is not a quantity"),
        (parse_rate_bps, 400, "has no unit"),
        (parse_rate_bps, "400 Gb", "unknown unit"),
        (parse_time_ps, 20, "has no unit"),
        (parse_time_ps, "20 NS", "unknown unit"),
        (parse_time_ps, "0.1 ps", "is not a whole number of ps"),
    ],
)
def test_errors_name_field_and_value(parse: Callable[[Any, str], int], value: Any, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(value, "the field")
    sentence = str(caught.value)
    assert sentence.startswith(f"the field: {value!r} ")
    assert fault in sentence
    assert sentence.endswith(".")


@given(st.integers(min_value=0, max_value=2**63))
def test_formatting_is_exact(amount: int) -> None:
    assert parse_bytes(format_bytes(amount)) == amount
    assert parse_rate_bps(format_rate(amount)) == amount
    assert parse_time_ps(format_time(amount)) == amount


def test_formatting_uses_the_unit_people_use() -> None:
    assert format_bytes(2**20) == "1 MiB"
    assert format_bytes(32_000_000) == "32 MB"
    assert format_rate(1600 * 10**9) == "1600 Gb/s"
    assert format_time(40_000) == "40 ns"
    assert format_bytes(0) == "0 B"
