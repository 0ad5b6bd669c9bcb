"""Stock Ember motifs by name, their arguments checked against what the motif declares.

Ember ignores arguments that it does not know, and a motif without its arguments simulates something else.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sst_models import parameters
from topologies.errors import ConfigError

# Cannot end by themselves or need files and memory models that are not set up here.
_REFUSED = {
    "Stop": "it ends the whole simulation",
    "SIRIUSTrace": "it needs trace files",
    "OTF2": "it needs a build of Ember with OTF2",
    "DetailedRing": "it needs a detailed memory model",
    "DetailedStream": "it needs a detailed memory model",
    "BFS": "it needs Firefly's SHMEM",
}

# Grids that must have as many places as there are ranks; Ember asserts or hangs otherwise (sst-elements
# 2323).
_GRIDS = {
    "Halo2D": ("sizex", "sizey"),
    "Halo2DNBR": ("sizex", "sizey"),
    "Halo3D": ("pex", "pey", "pez"),
    "Halo3D26": ("pex", "pey", "pez"),
    "Halo3DSV": ("pex", "pey", "pez"),
    "Sweep3D": ("pex", "pey"),
    "NASLU": ("pex", "pey"),
    "CMT2D": ("px", "py"),
    "CMT3D": ("px", "py", "pz"),
}

_NEEDED = {"FFT3D": ("npRow", "nx", "ny", "nz")}


@dataclass(frozen=True)
class Motif:
    """One motif of a job: name as Ember knows it ("Alltoall", "hxmesh.Replay") and its arguments."""

    name: str
    arguments: dict[str, str] = field(default_factory=dict)

    @property
    def element(self) -> str:
        """Name of the element, "ember.AlltoallMotif"."""
        library, _, motif = self.name.rpartition(".")
        return f"{library or 'ember'}.{motif}Motif"

    @classmethod
    def parse(cls, text: str) -> Motif:
        """A motif from "Alltoall bytes=4096 iterations=2"; raises ConfigError where that is not its form."""
        words = text.split()
        if not words:
            raise ConfigError("a motif of Ember is empty but must be a name and arguments, name=value.")
        arguments = {}
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if not equals or not key or not value or "=" in value:
                raise ConfigError(f"{words[0]} has the argument {word!r} but must have name=value.")
            arguments[key] = value
        return cls(words[0], arguments)


def names(version: str) -> list[str]:
    """The motifs that can be used by name."""
    found = []
    for element in parameters.elements(version):
        match = re.fullmatch(r"ember\.(\w+)Motif", element)
        if match and match[1] not in _REFUSED:
            found.append(match[1])
    return sorted(found)


def check(motifs: list[Motif], ranks: int, version: str) -> None:
    """Raise ConfigError for a job that Ember would misunderstand: unknown names, wrong grids."""
    if not motifs:
        raise ConfigError("the list of Ember's motifs is empty but must have at least one.")
    for motif in motifs:
        _check_one(motif, ranks, version)
    if motifs[0].name != "Init" or motifs[-1].name != "Fini":
        raise ConfigError(
            f"the motifs of an Ember job are {', '.join(motif.name for motif in motifs)} but must begin "
            f"with Init "
            "and end with Fini."
        )


def _check_one(motif: Motif, ranks: int, version: str) -> None:
    if motif.name in _REFUSED:
        raise ConfigError(f"Ember's {motif.name} cannot be used: {_REFUSED[motif.name]}.")
    element = parameters.elements(version).get(motif.element)
    if element is None:
        known = names(version)
        near = difflib.get_close_matches(motif.name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
        raise ConfigError(f"Ember of SST {version} has no motif {motif.name!r}; {hint}")
    known_arguments = _arguments(element.parameters)
    for key, value in motif.arguments.items():
        if key not in known_arguments:
            near = difflib.get_close_matches(key, known_arguments, n=1)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known_arguments) or 'none'}."
            )
            raise ConfigError(f"Ember's {motif.name} has the argument {key!r} but does not know it; {hint}")
        if re.search(r"[\s=]", value):
            raise ConfigError(
                f"{key} of Ember's {motif.name} is {value!r} but must have neither blanks nor '='."
            )
        default = known_arguments[key]
        if re.fullmatch(r"\d+", default) and not re.fullmatch(r"\d+", value):
            raise ConfigError(f"{key} of Ember's {motif.name} is {value!r} but must be a whole number.")
    for key in _NEEDED.get(motif.name, ()):
        if key not in motif.arguments:
            raise ConfigError(f"Ember's {motif.name} needs the argument {key}.")
    grid = [key for key in _GRIDS.get(motif.name, ()) if key in motif.arguments]
    if grid:
        product = 1
        for key in grid:
            product *= int(motif.arguments[key])
        if product and product != ranks:
            raise ConfigError(
                f"{'*'.join(grid)} of Ember's {motif.name} is {product} but must be {ranks}, the ranks of "
                f"the job."
            )


def _arguments(declared: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix("arg."): value for name, value in declared.items() if name.startswith("arg.")}
