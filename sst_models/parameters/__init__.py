"""What every element of an SST version declares, and the check of names against it.

SST itself never rejects a parameter: its C++ does not look for unknown ones, its Python drops them.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from topologies.errors import ConfigError

VERSIONS = ("15.1", "16.0")
"""SST versions whose parameters are known."""

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Element:
    """An element: declared parameters with defaults, further ones that it reads (patterns), statistics."""

    name: str
    parameters: Mapping[str, str]
    undeclared: tuple[str, ...]
    statistics: tuple[str, ...]

    def takes(self, parameter: str) -> bool:
        """Whether the element reads `parameter`."""
        return parameter in self.parameters or any(fnmatchcase(parameter, known) for known in self.undeclared)


def series(version: str) -> str:
    """The series "16.0" of a version "16.0.0"; raises ConfigError for one that is not known."""
    found = ".".join(version.split(".")[:2])
    if found not in VERSIONS:
        raise ConfigError(f"the version of SST is {version} but must be {' or '.join(VERSIONS)}.")
    return found


@cache
def elements(version: str) -> Mapping[str, Element]:
    """Every known element of a version by name; raises ConfigError for a version that is not known."""
    content = _read(f"{series(version)}.json") | _read("hxmesh.json")
    further = _read("undeclared.json")
    return {
        name: Element(
            name,
            element["parameters"],
            tuple(further.get(name, {}).get("parameters", ())),
            tuple(element.get("statistics", ())),
        )
        for name, element in content.items()
    }


def _read(file: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((_FOLDER / file).read_text(encoding="utf-8"))["elements"]
    return content


def check(version: str, element: str, names: Iterable[str]) -> None:
    """Raise ConfigError unless `element` of this version exists and reads every parameter of `names`."""
    known = elements(version)
    if element not in known:
        raise ConfigError(
            f"the element is {element!r} but SST {version} has no such one{_nearest(element, known)}"
        )
    for name in names:
        if not known[element].takes(name):
            raise ConfigError(
                f"{element} has the parameter {name!r} but SST {version} does not know it"
                f"{_nearest(name, known[element].parameters)}"
            )


def check_statistics(version: str, element: str, names: Iterable[str]) -> None:
    """Raise ConfigError unless `element` of this version has every statistic of `names`."""
    check(version, element, ())
    known = elements(version)[element].statistics
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{element} has the statistic {name!r} but SST {version} does not know it"
                f"{_nearest(name, known)}"
            )


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else "."
