"""The configuration of a study: pydantic models, the only source of the YAML reference and the JSON Schema.

Keys carry no units, values do (``link_latency: 40 ns``); unknown keys are refused with the nearest known one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    PrivateAttr,
    Tag,
    ValidationError,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema

from engine import NetworkParams
from motifs import MOTIFS, Parameter
from motifs.dnn import PARAMETERS as DNN_PARAMETERS
from topologies import ConfigError, Dragonfly, FatTree, HxMesh, HyperX2D, LinkKind, Topology, Torus2D
from topologies.catalog import NAMES, Cluster, Variant
from topologies.dragonfly import Algorithm
from topologies.errors import unknown_name
from workflow.units import parse_bytes, parse_rate_bps, parse_time_ps

SCHEMA_VERSION = 1
"""Part of every run id; rises when the same resolved parameters come to mean something else."""

Kind = Literal["table2", "alltoall", "allreduce", "permutation", "validate", "dnn", "generic"]

ALLREDUCE_MOTIFS = ("ring", "bidirectional-ring", "two-rings", "bucket", "torus-2d")

_UNIT_SUFFIXES = ("_bytes", "_ps", "_bps")


def _quantity_schema(example: str, *, plain: bool = False) -> WithJsonSchema:
    text = {"type": "string", "examples": [example]}
    return WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, text]} if plain else text)


Bytes = Annotated[
    int, BeforeValidator(lambda value: _edge(parse_bytes, value)), _quantity_schema("8 KiB", plain=True)
]
"""A size with unit, or a whole number of bytes."""

Time = Annotated[int, BeforeValidator(lambda value: _edge(parse_time_ps, value)), _quantity_schema("20 ns")]
"""A time with unit, picoseconds inside."""

Rate = Annotated[
    int, BeforeValidator(lambda value: _edge(parse_rate_bps, value)), _quantity_schema("400 Gb/s")
]
"""A rate with unit, bits per second inside."""

Count = Annotated[int, Field(ge=1, strict=True)]


def _edge(parse: Any, value: Any) -> int:
    """Parse without a field name, which the error's location gives."""
    try:
        return cast(int, parse(value, ""))
    except ConfigError as error:
        raise ValueError(str(error).removeprefix(": ")) from None


class Section(BaseModel):
    """Base of all sections: frozen, and an unknown key is an error that names the nearest known one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError(f"is {value!r} but must be a mapping of keys to values")
        for key in value:
            if key not in cls.model_fields:
                raise ValueError(unknown_key(str(key), cls.model_fields))
        return value


def unknown_key(key: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that refuses `key` and names the nearest of `known`, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(key, names, n=1)
    return f"has the unknown key {key!r}; " + (
        f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
    )


# -- network -------------------------------------------------------------------------------------------------

KindName = Literal["host", "board", "row", "column", "uplink", "local", "global"]
"""Kinds of links whose bandwidth and latency can be set."""


def edge_name(name: str) -> str:
    """Return the configuration's key for a parameter: its name without the unit, which the value carries."""
    for suffix in _UNIT_SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def _edge_type(name: str, annotation: Any) -> Any:
    if name == "bandwidth_bps":
        return dict[KindName, Rate]
    if name == "latency_ps":
        return dict[KindName, Time]
    for suffix, kind in zip(_UNIT_SUFFIXES, (Bytes, Time, Rate), strict=True):
        if name.endswith(suffix):
            return kind
    return annotation


def _network_section() -> type[Section]:
    """One optional key for every parameter of the engine, so that none can be forgotten here."""
    fields: dict[str, Any] = {
        edge_name(name): (
            Annotated[_edge_type(name, info.annotation) | None, Field(description=info.description)],
            None,
        )
        for name, info in NetworkParams.model_fields.items()
    }
    section = create_model("NetworkSection", __base__=Section, **fields)
    section.__doc__ = (
        "Parameters of the simulated network; what is left out keeps the engine's default (the paper's)."
    )
    return section


NetworkSection = _network_section()


def network_values(section: BaseModel | None) -> dict[str, Any]:
    """Return the engine's parameters that a network section sets, under the engine's names."""
    if section is None:
        return {}
    given = {name: getattr(section, name) for name in type(section).model_fields}
    return {
        name: given[edge_name(name)]
        for name in NetworkParams.model_fields
        if given[edge_name(name)] is not None
    }


def network_params(values: Mapping[str, Any]) -> NetworkParams:
    """Return the engine's parameters; raise ConfigError, one sentence, where they do not go together."""
    try:
        return NetworkParams(**values)
    except ValidationError as error:
        raise ConfigError(f"network: {explain(error)}") from None


# -- topologies ----------------------------------------------------------------------------------------------


class OwnTopology(Section):
    """What all own topologies share."""

    name: str | None = Field(None, description="how tables call it; by default a description of its shape")
    planes: Count | None = Field(None, description="identical planes of the whole machine")
    bandwidth: dict[KindName, Rate] = Field({}, description="rate of one direction of a link by kind of link")

    def build(self) -> Topology:
        """Return the network; raises ConfigError where its parameters do not go together."""
        topology = self._network()
        speeds = {LinkKind[kind.upper()]: rate for kind, rate in self.bandwidth.items()}
        return topology.with_bandwidth(speeds, planes=self.planes)

    def _network(self) -> Topology:
        raise NotImplementedError


class HxMeshTopology(OwnTopology):
    """HammingMesh: boards of a x b accelerators, given by x x y boards or by columns x rows accelerators."""

    type: Literal["hxmesh"]
    a: Count = Field(2, description="accelerators of a board along a row")
    b: Count = Field(2, description="accelerators of a board along a column")
    x: Count | None = Field(None, description="boards along a row")
    y: Count | None = Field(None, description="boards along a column")
    columns: Count | None = Field(None, description="accelerators along a row, in place of x")
    rows: Count | None = Field(None, description="accelerators along a column, in place of y")
    radix: Count = Field(64, description="ports of a switch")
    failed_boards: list[list[int]] | None = Field(
        None, description="[column, row] of each board that has failed, as a whole"
    )

    @model_validator(mode="after")
    def _one_size(self) -> HxMeshTopology:
        in_boards = self.x is not None and self.y is not None and self.columns is None and self.rows is None
        in_accelerators = (
            self.columns is not None and self.rows is not None and self.x is None and self.y is None
        )
        if not (in_boards or in_accelerators):
            raise ValueError("must have either x and y (boards) or columns and rows (accelerators)")
        return self

    def _network(self) -> Topology:
        failed = self.failed_boards or ()
        if self.columns is not None and self.rows is not None:
            size, board = (self.columns, self.rows), (self.a, self.b)
            return HxMesh.from_grid(*size, board, radix=self.radix, failed_boards=failed)
        assert self.x is not None
        assert self.y is not None
        return HxMesh(self.a, self.b, self.x, self.y, radix=self.radix, failed_boards=failed)


class TorusTopology(OwnTopology):
    """2D torus of accelerators."""

    type: Literal["torus"]
    columns: Count = Field(description="accelerators along a row")
    rows: Count = Field(description="accelerators along a column")
    board: tuple[Count, Count] = Field(
        (2, 2), description="columns and rows of a board (for the cables' price)"
    )
    balanced: bool = Field(False, description="use both ways round where they are equally long")

    def _network(self) -> Topology:
        return Torus2D(self.columns, self.rows, board=self.board, balanced=self.balanced)


class HyperXTopology(OwnTopology):
    """Direct 2D HyperX: every two routers of a row and of a column are linked."""

    type: Literal["hyperx"]
    columns: Count = Field(description="routers along a row")
    rows: Count = Field(description="routers along a column")

    def _network(self) -> Topology:
        return HyperX2D(self.columns, self.rows)


class DragonflyTopology(OwnTopology):
    """Dragonfly, given by the links between two groups or by the global ports of a router, all used."""

    type: Literal["dragonfly"]
    hosts: Count = Field(description="accelerators of a router")
    routers: Count = Field(description="routers of a group")
    groups: Count = Field(description="groups")
    links: Count | None = Field(None, description="links between every two groups")
    global_ports: Count | None = Field(None, description="global ports of a router, in place of links")
    balanced: bool = Field(False, description="choose the global link by source and destination")
    algorithm: Algorithm = Field(
        "minimal", description="the shortest way, or UGAL, which also goes round by what is queued"
    )

    @model_validator(mode="after")
    def _one_way(self) -> DragonflyTopology:
        if (self.links is None) == (self.global_ports is None):
            raise ValueError("must have either links or global_ports")
        return self

    def _network(self) -> Topology:
        if self.links is not None:
            return Dragonfly(
                self.hosts,
                self.routers,
                self.links,
                self.groups,
                balanced=self.balanced,
                algorithm=self.algorithm,
            )
        assert self.global_ports is not None
        return Dragonfly.with_global_ports(
            self.hosts,
            self.routers,
            self.global_ports,
            self.groups,
            balanced=self.balanced,
            algorithm=self.algorithm,
        )


class FatTreeTopology(OwnTopology):
    """Fat tree of a shape in Merlin's notation: "down,up:...:down", from the leaves to the top."""

    type: Literal["fattree"]
    shape: str = Field(description="ports down and up of each level, e.g. 32,16:32")
    adaptive: bool = Field(False, description="go up by credits and not by destination")

    def _network(self) -> Topology:
        return FatTree.from_shape(self.shape, adaptive=self.adaptive)


class ClosTopology(OwnTopology):
    """Fat tree of switches of one radix for a number of endpoints, tapered at the leaves."""

    type: Literal["clos"]
    endpoints: Count = Field(description="accelerators")
    radix: Count = Field(64, description="ports of a switch")
    leaf_down: Count = Field(32, description="ports of a leaf switch to accelerators")
    leaf_up: Count = Field(32, description="ports of a leaf switch upwards")
    levels: Literal[2, 3] = Field(2, description="levels of switches")
    adaptive: bool = Field(False, description="go up by credits and not by destination")

    def _network(self) -> Topology:
        return FatTree.clos(
            self.endpoints,
            radix=self.radix,
            leaf_down=self.leaf_down,
            leaf_up=self.leaf_up,
            levels=self.levels,
            adaptive=self.adaptive,
        )


TOPOLOGY_TYPES: dict[str, type[OwnTopology]] = {
    "hxmesh": HxMeshTopology,
    "torus": TorusTopology,
    "hyperx": HyperXTopology,
    "dragonfly": DragonflyTopology,
    "fattree": FatTreeTopology,
    "clos": ClosTopology,
}
"""Own topologies by type."""

_TABLE2_TAG = "table 2 name"


def _known_name(name: str) -> str:
    if name not in NAMES:
        raise ValueError(str(unknown_name("topology", name, NAMES)))
    return name


def _topology_tag(value: Any) -> str:
    """Which model reads `value`; what cannot be said is an error of the value itself."""
    if isinstance(value, OwnTopology):
        return str(getattr(value, "type", ""))
    if not isinstance(value, Mapping):
        return _TABLE2_TAG
    kind = value.get("type")
    if kind not in TOPOLOGY_TYPES:
        raise ConfigError(str(unknown_name("type of a topology", str(kind), TOPOLOGY_TYPES)))
    return str(kind)


Table2Name = Annotated[
    str,
    BeforeValidator(lambda value: _known_name(str(value))),
    WithJsonSchema({"type": "string", "enum": list(NAMES)}),
]

TopologyEntry = Annotated[
    Annotated[Table2Name, Tag(_TABLE2_TAG)]
    | Annotated[HxMeshTopology, Tag("hxmesh")]
    | Annotated[TorusTopology, Tag("torus")]
    | Annotated[HyperXTopology, Tag("hyperx")]
    | Annotated[DragonflyTopology, Tag("dragonfly")]
    | Annotated[FatTreeTopology, Tag("fattree")]
    | Annotated[ClosTopology, Tag("clos")],
    Discriminator(_topology_tag),
]
"""A network of Table 2 by name, or an own one."""


# -- motifs --------------------------------------------------------------------------------------------------

GOAL = "goal"
"""The motif that reads its schedule from a GOAL file."""

GOAL_DESCRIPTION = "the operations of a GOAL file (LogGOPSim, ATLAHS)"

GOAL_PARAMETERS: dict[str, tuple[str | None, str]] = {
    "file": (None, "GOAL file, relative to the configuration"),
    "calc_unit": ("1 ns", "time of one unit of calc"),
}
"""Keys of the goal motif: default (None = required) and meaning."""


DNN = "dnn"
"""The motif that makes one training iteration of a workload."""

DNN_DESCRIPTION = "one training iteration of a deep-learning workload (docs/dnn.md)"

DNN_WORKLOAD = "a shipped workload by name, or a workload file, relative to the configuration"

DNN_AXES = {
    "D": "replicas that work on different data, if not the workload's",
    "P": "pipeline stages, if not the workload's",
    "O": "accelerators that share each operator, if not the workload's",
}
"""Keys of the dnn motif that change how a workload is divided, beside its parameters."""

DNN_KEYS = (
    *DNN_PARAMETERS,
    *(Parameter(axis, "integer", text, default=None, minimum=1) for axis, text in DNN_AXES.items()),
)
"""Parameters of the dnn motif but the workload."""

MOTIF_NAMES = (*MOTIFS, DNN, GOAL)
"""Motifs that a configuration can name."""


class MotifSection(BaseModel):
    """A traffic pattern and its parameters; a list in place of a value makes one experiment per element."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str | list[str] = Field(
        description="name of the motif, or a list of motifs with the same parameters"
    )
    _choices: list[tuple[str, dict[str, Any]]] = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _mapping(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError(f"is {value!r} but must be a mapping with the key type")
        return value

    @field_validator("type")
    @classmethod
    def _known(cls, value: str | list[str]) -> str | list[str]:
        names = [value] if isinstance(value, str) else value
        if not names:
            raise ValueError("is an empty list but must name a motif")
        for name in names:
            if name not in MOTIF_NAMES:
                raise ValueError(str(unknown_name("motif", name, MOTIF_NAMES)))
        return value

    def model_post_init(self, context: Any, /) -> None:
        """Expand lists into one choice of values each."""
        names = [self.type] if isinstance(self.type, str) else self.type
        given = dict(self.model_extra or {})
        self._choices = [choice for name in names for choice in _motif_choices(name, given)]

    def choices(self) -> list[tuple[str, dict[str, Any]]]:
        """Return (motif, its parameters in SI integers under the motif's own names), one for each experiment.

        Parameters that were not given are not there.
        """
        return [(name, dict(values)) for name, values in self._choices]

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """One alternative per motif, from the motifs' own parameter lists."""
        handler(core)
        names = {"enum": list(MOTIF_NAMES)}
        alternatives = [
            _motif_json_schema(name, motif.description, motif.parameters) for name, motif in MOTIFS.items()
        ]
        training = _motif_json_schema(DNN, DNN_DESCRIPTION, DNN_KEYS)
        one = {"type": "string"}
        training["properties"]["workload"] = {
            "anyOf": [one, {"type": "array", "items": one}],
            "description": DNN_WORKLOAD,
        }
        training["required"].append("workload")
        alternatives.append(training)
        goal = {name: {"type": "string", "description": text} for name, (_, text) in GOAL_PARAMETERS.items()}
        alternatives.append(
            {
                "type": "object",
                "title": GOAL,
                "description": GOAL_DESCRIPTION,
                "properties": {"type": {"const": GOAL}} | goal,
                "required": ["type", "file"],
                "additionalProperties": False,
            }
        )
        several = {
            "type": "object",
            "title": "several motifs",
            "description": "several motifs that take the same parameters",
            "properties": {"type": {"type": "array", "items": names, "minItems": 1}},
            "required": ["type"],
        }
        return {"title": "Motif", "description": cls.__doc__, "oneOf": [*alternatives, several]}


def motif_key(parameter: Parameter) -> str:
    """Return the configuration's key for a motif's parameter: its name, without a unit that values carry."""
    return edge_name(parameter.name) if parameter.unit == "bytes" else parameter.name


def _motif_json_schema(name: str, description: str, parameters: Iterable[Parameter]) -> dict[str, Any]:
    parameters = list(parameters)
    properties: dict[str, Any] = {"type": {"const": name}}
    for parameter in parameters:
        plain = parameter.schema()
        text = {key: plain.pop(key) for key in ("description", "default") if key in plain}
        one = {"anyOf": [plain, {"type": "string"}]} if parameter.unit == "bytes" else plain
        properties[motif_key(parameter)] = {"anyOf": [one, {"type": "array", "items": one}]} | text
    return {
        "type": "object",
        "title": name,
        "description": description,
        "properties": properties,
        "required": ["type", *(motif_key(p) for p in parameters if p.required)],
        "additionalProperties": False,
    }


def _motif_choices(name: str, given: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Every combination of the given values; raises ValueError for what the motif does not take."""
    if name == GOAL:
        return [(GOAL, _goal_values(given))]
    choices: list[dict[str, Any]] = [{}]
    if name == DNN:
        given = dict(given)
        choices = [{"workload": workload} for workload in _workloads(given.pop("workload", None))]
        parameters = {motif_key(parameter): parameter for parameter in DNN_KEYS}
    else:
        parameters = {motif_key(parameter): parameter for parameter in MOTIFS[name].parameters}
    for key in given:
        if key not in parameters:
            known = ["workload", *parameters] if name == DNN else parameters
            raise ValueError(f"{name} {unknown_key(key, known)}")
    for key, parameter in parameters.items():
        if parameter.required and key not in given:
            raise ValueError(f"{name} needs the key {key} ({parameter.description})")
    for key, value in given.items():
        parameter = parameters[key]
        values = [_motif_value(key, parameter, element) for element in _alternatives(parameter, value)]
        choices = [choice | {parameter.name: element} for choice in choices for element in values]
    return [(name, choice) for choice in choices]


def _workloads(given: Any) -> list[str]:
    """The workloads that a dnn motif names."""
    names = given if isinstance(given, list) else [given]
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{DNN} needs the key workload ({DNN_WORKLOAD})")
    return names


def _alternatives(parameter: Parameter, value: Any) -> list[Any]:
    """The values of a list; for a parameter that is a list itself, of a list of lists."""
    if not isinstance(value, list):
        return [value]
    if not value:
        raise ValueError(f"{motif_key(parameter)} is an empty list but must have a value")
    if parameter.kind in ("integers", "grid") and not isinstance(value[0], list):
        return [value]
    return value


def _motif_value(key: str, parameter: Parameter, value: Any) -> Any:
    if parameter.unit == "bytes":
        value = parse_bytes(value, key)
    return parameter.validate(value)


def _goal_values(given: Mapping[str, Any]) -> dict[str, Any]:
    for key in given:
        if key not in GOAL_PARAMETERS:
            raise ValueError(f"{GOAL} {unknown_key(key, GOAL_PARAMETERS)}")
    if not isinstance(given.get("file"), str):
        raise ValueError(f"{GOAL} needs the key file ({GOAL_PARAMETERS['file'][1]})")
    calc_unit_ps = parse_time_ps(given.get("calc_unit", GOAL_PARAMETERS["calc_unit"][0]), "calc_unit")
    if calc_unit_ps < 1:
        raise ValueError("calc_unit is 0 but must be positive")
    return {"file": given["file"], "calc_unit_ps": calc_unit_ps}


# -- study ---------------------------------------------------------------------------------------------------


class Defaults(Section):
    """What holds for every entry that does not say otherwise."""

    variants: list[Variant] = Field(
        ["as-simulated"], min_length=1, description="variants of the Table 2 networks"
    )
    network: NetworkSection | None = Field(None, description="network parameters")  # type: ignore[valid-type]


class Entry(Section):
    """A product of topologies, variants, motif parameters and seeds."""

    topologies: list[TopologyEntry] = Field(
        [], description="networks of Table 2 by name, or own ones as a mapping with a type"
    )
    topology: TopologyEntry | None = Field(None, description="in place of a list of one topology")
    motif: MotifSection = Field(description="traffic pattern and its parameters; lists are multiplied out")
    cluster: Cluster | None = Field(None, description="size of the Table 2 networks, if not the study's")
    variants: list[Variant] | None = Field(None, min_length=1, description="variants of the Table 2 networks")
    single_plane: bool = Field(
        False,
        description="simulate one physical plane of a network that merges several, and its share of data",
    )
    network: NetworkSection | None = Field(  # type: ignore[valid-type]
        None, description="network parameters on top of the defaults"
    )
    seeds: list[Annotated[int, Field(ge=0)]] | None = Field(
        None, min_length=1, description="seeds, if not the study's"
    )
    role: str | None = Field(None, description="what tables take the runs for; by default the motif says it")

    @model_validator(mode="after")
    def _some_topology(self) -> Entry:
        if bool(self.topologies) == (self.topology is not None):
            raise ValueError("must have either topologies or topology")
        return self

    def networks(self) -> list[TopologyEntry]:
        """Return the topologies of the entry."""
        return self.topologies or [cast(TopologyEntry, self.topology)]


class SstSection(Section):
    """How SST is run, where it is the engine."""

    threads: Count = Field(1, description="threads of each process")
    ranks: Count = Field(1, description="MPI processes")
    reorder: bool = Field(
        False,
        description="put the packets of a pair back into order (ReorderLinkControl in place of LinkControl)",
    )
    parameters: dict[str, dict[str, str | int | float]] = Field(
        {},
        description="further parameters of SST's elements, on top of those of the network, e.g. "
        "{merlin.hr_router: {oql_track_port: true}}",
    )


EngineName = Literal["packet", "sst"]
"""Simulators: the embedded packet engine, or SST."""


class Study(Section):
    """A study: experiments and the tables they make."""

    NAME_PATTERN: ClassVar[str] = r"[A-Za-z0-9][A-Za-z0-9_.-]*"

    name: str = Field(description="name of the study and of its directory below results/")
    kind: Kind = Field("generic", description="which tables and figures the results make")
    description: str = Field("", description="one sentence for the report")
    cluster: Cluster = Field("small", description="size of the Table 2 networks")
    engine: EngineName | list[EngineName] = Field(
        "packet",
        description="simulator: packet (embedded) or sst (installed SST); a list runs everything on each",
    )
    sst: SstSection = Field(SstSection(), description="how SST is run, where it is the engine")
    links: bool = Field(
        False,
        description="keep what each link carried (links.parquet of a run); runs that are complete are not "
        "repeated for it",
    )
    seeds: list[Annotated[int, Field(ge=0)]] = Field(
        [0], min_length=1, description="one run of each experiment per seed"
    )
    defaults: Defaults = Field(Defaults(), description="values for all entries")
    experiments: list[Entry] = Field(min_length=1, description="entries; each is a product of its lists")

    @field_validator("name")
    @classmethod
    def _usable_name(cls, value: str) -> str:
        if not re.fullmatch(cls.NAME_PATTERN, value):
            raise ValueError(f"is {value!r} but must be letters, digits, '_', '-' and '.'")
        return value

    @field_validator("engine")
    @classmethod
    def _different_engines(cls, value: EngineName | list[EngineName]) -> EngineName | list[EngineName]:
        if isinstance(value, list) and (not value or len(set(value)) < len(value)):
            raise ValueError(f"is {value!r} but must be one engine, or a list of different ones")
        return value

    @property
    def engines(self) -> list[EngineName]:
        """The simulators that run each experiment."""
        return self.engine if isinstance(self.engine, list) else [self.engine]

    @property
    def table(self) -> str:
        """Name of the study's table, without suffix."""
        return "table2" if self.kind == "table2" else self.name


def parse_study(content: Any, source: str = "config") -> Study:
    """Return the study described by `content` as YAML gave it.

    Raises ConfigError, one sentence with `source`, the field, its value and what is allowed.
    """
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        raise ConfigError(f"{source}: {explain(error)}") from None
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


def explain(error: ValidationError) -> str:
    """Return the first error as one sentence "field: fault."."""
    first = error.errors()[0]
    path = ""
    for part in first["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part not in TOPOLOGY_TYPES and part not in (_TABLE2_TAG, "[key]"):
            path += f".{part}" if path else part
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, Exception):
        fault = str(cause)
    elif first["type"] == "missing":
        fault = "is missing"
    elif first["type"] == "too_short":
        fault = "is empty but must have at least one element"
    else:
        fault = f"is {first['input']!r} but {_lower(first['msg'])}"
    joint = "" if not path else " " if fault.startswith(("is ", "must ", "has ")) else ": "
    return f"{path}{joint}{fault}".rstrip(".?") + ("?" if fault.endswith("?") else ".")


def _lower(message: str) -> str:
    """Pydantic's "Input should be ..." as the rest of a sentence; names of choices as they are written."""
    message = re.sub(r"^Input s", "s", message)
    message = re.sub(r"^(Value|List|Field) ", lambda match: match[0].lower(), message)
    return message.replace("should", "must", 1)


__all__ = [
    "ALLREDUCE_MOTIFS",
    "DNN",
    "DNN_AXES",
    "DNN_DESCRIPTION",
    "DNN_KEYS",
    "DNN_WORKLOAD",
    "GOAL",
    "GOAL_DESCRIPTION",
    "GOAL_PARAMETERS",
    "MOTIF_NAMES",
    "SCHEMA_VERSION",
    "TOPOLOGY_TYPES",
    "EngineName",
    "Entry",
    "Kind",
    "MotifSection",
    "NetworkSection",
    "OwnTopology",
    "Section",
    "SstSection",
    "Study",
    "TopologyEntry",
    "edge_name",
    "explain",
    "motif_key",
    "network_params",
    "network_values",
    "parse_study",
]
