"""Messages name the field, its value and what is allowed."""

from __future__ import annotations

import pytest

from topologies.errors import ConfigError, require, require_integer, unknown_name


def test_a_config_error_is_a_value_error() -> None:
    assert issubclass(ConfigError, ValueError)


def test_require_says_field_value_and_allowed() -> None:
    require(True, "planes", 4, "positive")
    with pytest.raises(ConfigError, match=r"^planes is 0 but must be positive\.$"):
        require(False, "planes", 0, "positive")


@pytest.mark.parametrize("value", [1, 2.0, True, "3", None])
def test_require_integer_takes_only_integers_that_are_large_enough(value: object) -> None:
    require_integer("side", 2, 2)
    with pytest.raises(ConfigError, match="must be an integer of at least 2"):
        require_integer("side", value, 2)


def test_an_unknown_name_is_told_the_nearest_known_one() -> None:
    known = ["torus", "dragonfly"]
    assert str(unknown_name("network", "Dragonfy", known)) == (
        "network is 'Dragonfy' but must be one of dragonfly, torus; did you mean 'dragonfly'?"
    )
    assert str(unknown_name("network", "zzz", known)).endswith("one of dragonfly, torus.")
