"""The motifs by name, with the parameters they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from motifs.alltoall import SAMPLINGS, alltoall
from motifs.bucket import bucket, torus_2d
from motifs.hamiltonian import METHODS, hamiltonian_cycle
from motifs.permutation import permutation
from motifs.rings import bidirectional_ring, ring, two_rings
from motifs.schedule import Schedule
from motifs.segments import REDUCE_FS_PER_BYTE
from topologies.errors import ConfigError, unknown_name

__all__ = ["MOTIFS", "Motif", "Network", "Parameter", "build"]

ORDERS = ("auto", "rank", "hamiltonian")


@runtime_checkable
class Network(Protocol):
    """What a motif needs to know of a network; `topologies.Topology` is one."""

    @property
    def num_endpoints(self) -> int:
        """Number of endpoints, and so of ranks."""

    @property
    def grid(self) -> tuple[int, int] | None:
        """Rows and columns of accelerators, None for networks that are no grid."""

    @property
    def grid_endpoint(self) -> NDArray[Any] | None:
        """Endpoint at each place, int[rows, cols]."""


class _Required:
    """Marks a parameter without default."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()


@dataclass(frozen=True)
class Parameter:
    """One parameter of a motif.

    name: as given to :func:`build`.
    kind: what values it takes; "integers" is a list, "grid" a pair (rows, cols).
    description: one line.
    unit: of an integer, empty for a plain number.
    default: REQUIRED if it must be given; None means "not given".
    minimum, maximum: of an integer, or of each integer of a list or grid; None = no limit.
    choices: allowed values of a choice.
    """

    name: str
    kind: Literal["integer", "boolean", "choice", "integers", "grid"]
    description: str
    unit: str = ""
    default: Any = REQUIRED
    minimum: int | None = 0
    maximum: int | None = None
    choices: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        """Whether the parameter must be given."""
        return isinstance(self.default, _Required)

    def validate(self, value: object) -> Any:
        """Return `value` in its plain Python type; raise ConfigError if it is not allowed."""
        if value is None and self.default is None:
            return None
        if self.kind == "boolean":
            if not isinstance(value, (bool, np.bool_)):
                raise ConfigError(f"{self.name} is {value!r} but must be true or false.")
            return bool(value)
        if self.kind == "choice":
            if value not in self.choices:
                raise unknown_name(self.name, str(value), self.choices)
            return value
        if self.kind == "integer":
            return self._integer(self.name, value)
        if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
            raise ConfigError(f"{self.name} is {value!r} but must be a list of integers.")
        numbers = [self._integer(f"{self.name}[{i}]", number) for i, number in enumerate(value)]
        if self.kind == "integers":
            return numbers
        if len(numbers) != 2:
            raise ConfigError(f"{self.name} has {len(numbers)} numbers but must have 2 (rows, columns).")
        return numbers[0], numbers[1]

    def _integer(self, name: str, value: object) -> int:
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise ConfigError(f"{name} is {value!r} but must be an integer.")
        number = int(value)
        low = -(2**63) if self.minimum is None else self.minimum
        high = 2**63 - 1 if self.maximum is None else self.maximum
        if not low <= number <= high:
            raise ConfigError(f"{name} is {number} but must be {low} to {high}.")
        return number

    def schema(self) -> dict[str, Any]:
        """Return the parameter as a JSON Schema object."""
        number: dict[str, Any] = {"type": "integer"}
        if self.minimum is not None:
            number["minimum"] = self.minimum
        if self.maximum is not None:
            number["maximum"] = self.maximum
        schema: dict[str, Any]
        if self.kind == "integer":
            schema = number
        elif self.kind == "boolean":
            schema = {"type": "boolean"}
        elif self.kind == "choice":
            schema = {"type": "string", "enum": list(self.choices)}
        else:
            schema = {"type": "array", "items": number}
            if self.kind == "grid":
                schema |= {"minItems": 2, "maxItems": 2}
        if self.default is None:
            schema = {"anyOf": [schema, {"type": "null"}]}
        schema["description"] = self.description + (f" ({self.unit})" if self.unit else "")
        if not self.required:
            schema["default"] = self.default
        return schema


@dataclass(frozen=True)
class _Place:
    """The ranks a motif runs on, and the grid they form, if any."""

    num_ranks: int
    grid: NDArray[np.int64] | None


@dataclass(frozen=True)
class Motif:
    """A traffic pattern that can be built by name.

    name: as given to :func:`build`.
    description: one line.
    parameters: in the order in which they are listed.
    construct: makes the schedule from the ranks and one value for every parameter but "grid".
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    construct: Callable[[_Place, dict[str, Any]], Schedule]

    def schema(self) -> dict[str, Any]:
        """Return the parameters as a JSON Schema object."""
        return {
            "title": self.name,
            "description": self.description,
            "type": "object",
            "properties": {p.name: p.schema() for p in self.parameters},
            "required": [p.name for p in self.parameters if p.required],
            "additionalProperties": False,
        }

    def resolve(self, params: Mapping[str, object]) -> dict[str, Any]:
        """Return the values of all parameters, defaults filled in.

        Raises ConfigError for unknown parameters (with the nearest known one), missing ones and values not
        allowed.
        """
        known = {p.name: p for p in self.parameters}
        for name in params:
            if name not in known:
                raise unknown_name(f"parameter of motif {self.name}", name, known)
        values: dict[str, Any] = {}
        for name, parameter in known.items():
            if name in params:
                values[name] = parameter.validate(params[name])
            elif parameter.required:
                raise ConfigError(f"motif {self.name} needs the parameter {name} ({parameter.description}).")
            else:
                values[name] = parameter.default
        return values


def build(name: str, topology_or_ranks: Network | int, **params: object) -> Schedule:
    """Build the motif `name` on all endpoints of a network, or on a number of ranks.

    Grid motifs use the network's own grid. On networks without one, and on a plain number of ranks, they need
    the parameter grid=(rows, cols), which numbers its places row by row; on a network with a grid it may only
    repeat that.

    Raises ConfigError for unknown names and parameters (with the nearest known one), values that are not
    allowed, and grid motifs without grid.
    """
    motif = MOTIFS.get(name)
    if motif is None:
        raise unknown_name("motif", name, MOTIFS)
    values = motif.resolve(params)
    grid = values.pop("grid", None)
    return motif.construct(_place(topology_or_ranks, grid), values)


def _place(topology_or_ranks: Network | int, grid: tuple[int, int] | None) -> _Place:
    """Ranks and grid from a network or a number of ranks and the grid given by the user."""
    if isinstance(topology_or_ranks, Network):
        num_ranks = int(topology_or_ranks.num_endpoints)
        if topology_or_ranks.grid is not None:
            rows, cols = topology_or_ranks.grid
            if grid is not None and grid != (rows, cols):
                raise ConfigError(
                    f"grid is {grid[0]} x {grid[1]} but must be {rows} x {cols}, the grid of the network."
                )
            return _Place(num_ranks, np.asarray(topology_or_ranks.grid_endpoint, dtype=np.int64))
    else:
        number = Parameter("num_ranks", "integer", "", minimum=1, maximum=2**31 - 1)
        num_ranks = cast(int, number.validate(topology_or_ranks))
    if grid is None:
        return _Place(num_ranks, None)
    if grid[0] * grid[1] != num_ranks:
        raise ConfigError(
            f"grid is {grid[0]} x {grid[1]} but must have {num_ranks} places, one for each rank."
        )
    return _Place(num_ranks, np.arange(num_ranks, dtype=np.int64).reshape(grid))


def _grid(place: _Place) -> NDArray[np.int64]:
    if place.grid is None:
        raise ConfigError(
            "grid is missing but must be given as (rows, columns), since the network has none of its own."
        )
    return place.grid


def _order(place: _Place, order: str) -> NDArray[np.int64]:
    """Ranks along a ring: a Hamiltonian cycle of the grid, or by number."""
    if order == "rank" or (order == "auto" and place.grid is None):
        return np.arange(place.num_ranks, dtype=np.int64)
    grid = _grid(place)
    return grid.reshape(-1)[hamiltonian_cycle(*grid.shape)]


def _ring(place: _Place, values: dict[str, Any]) -> Schedule:
    return ring(_order(place, values.pop("order")), num_ranks=place.num_ranks, **values)


def _bidirectional_ring(place: _Place, values: dict[str, Any]) -> Schedule:
    return bidirectional_ring(_order(place, values.pop("order")), num_ranks=place.num_ranks, **values)


def _two_rings(place: _Place, values: dict[str, Any]) -> Schedule:
    return two_rings(_grid(place), num_ranks=place.num_ranks, **values)


def _bucket(place: _Place, values: dict[str, Any]) -> Schedule:
    return bucket(_grid(place), num_ranks=place.num_ranks, **values)


def _torus_2d(place: _Place, values: dict[str, Any]) -> Schedule:
    return torus_2d(_grid(place), num_ranks=place.num_ranks, **values)


def _alltoall(place: _Place, values: dict[str, Any]) -> Schedule:
    return alltoall(place.num_ranks, **values)


def _permutation(place: _Place, values: dict[str, Any]) -> Schedule:
    return permutation(place.num_ranks, **values)


_MESSAGE_BYTES = Parameter("message_bytes", "integer", "size of each message", unit="bytes")
SEED = Parameter("seed", "integer", "seed of the random choice", default=0)
REDUCE_COST = Parameter(
    "reduce_fs_per_byte",
    "integer",
    "computation a received byte costs while reducing",
    unit="femtoseconds",
    default=REDUCE_FS_PER_BYTE,
    maximum=2**31 - 1,
)
_ALLREDUCE = (
    Parameter("total_bytes", "integer", "size of the vector that every rank contributes", unit="bytes"),
    REDUCE_COST,
    Parameter(
        "lockstep", "boolean", "the streams of a rank wait for each other after every step", default=False
    ),
)
_GRID = Parameter(
    "grid",
    "grid",
    "rows and columns of ranks, on networks that are no grid",
    default=None,
    minimum=1,
    maximum=2**31 - 1,
)
_ORDER = Parameter(
    "order",
    "choice",
    "ranks along the ring: by number, or along a Hamiltonian cycle of the grid; auto is the latter on a grid",
    default="auto",
    choices=ORDERS,
)

MOTIFS: dict[str, Motif] = {
    motif.name: motif
    for motif in (
        Motif(
            "alltoall",
            "every rank sends a message to every other one, as a balanced shift",
            (
                _MESSAGE_BYTES,
                Parameter("shifts", "integers", "only these shifts, in this order", default=None, minimum=1),
                Parameter(
                    "window",
                    "integer",
                    "largest number of sends in flight of a rank, 0 = no limit",
                    default=0,
                ),
                Parameter("sample", "integer", "only a sample of that many shifts", default=None, minimum=1),
                Parameter(
                    "sampling", "choice", "how the sample is drawn", default="stratified", choices=SAMPLINGS
                ),
                SEED,
            ),
            _alltoall,
        ),
        Motif(
            "permutation",
            "every rank sends to one random partner",
            (
                _MESSAGE_BYTES,
                Parameter("messages", "integer", "messages a rank sends", default=2, minimum=1),
                SEED,
            ),
            _permutation,
        ),
        Motif("ring", "allreduce around one ring in one direction", (*_ALLREDUCE, _ORDER, _GRID), _ring),
        Motif(
            "bidirectional-ring",
            "allreduce around one ring, a half in each direction",
            (*_ALLREDUCE, _ORDER, _GRID),
            _bidirectional_ring,
        ),
        Motif(
            "two-rings",
            "allreduce around two edge-disjoint Hamiltonian cycles of the grid, a quarter each way on each",
            (
                *_ALLREDUCE,
                Parameter(
                    "method", "choice", "how the cycles are constructed", default="auto", choices=METHODS
                ),
                _GRID,
            ),
            _two_rings,
        ),
        Motif(
            "bucket",
            "allreduce by reduce-scatter and allgather dimension by dimension, in four parts",
            (*_ALLREDUCE, _GRID),
            _bucket,
        ),
        Motif(
            "torus-2d",
            "allreduce by reduce-scatter over rows, allreduce over columns, allgather over rows, in halves "
            "(first variant of bucket)",
            (
                *_ALLREDUCE,
                Parameter(
                    "column_allgather",
                    "boolean",
                    "whether columns gather what they reduced; false leaves most of the result out, as the "
                    "published runs did",
                    default=True,
                ),
                _GRID,
            ),
            _torus_2d,
        ),
    )
}
"""All motifs by name."""
