"""Experiments: everything that decides the outcome of one run, in SI integers, under an id that is its hash.

A study expands to a `Plan`: its runs by id and the rows of its tables. Two rows whose networks, traffic and
parameters are the same share one run, whatever they are called.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

import motifs
from engine import NetworkParams
from motifs import MOTIFS, Schedule, read_goal
from motifs.dnn import PARAMETERS as DNN_PARAMETERS
from motifs.dnn import Workload, build_iteration, compute_ps
from topologies import UNCONNECTED, ConfigError, LinkKind, Topology, catalog
from topologies.errors import unknown_name
from workflow.schema import (
    ALLREDUCE_MOTIFS,
    DNN,
    DNN_AXES,
    GOAL,
    SCHEMA_VERSION,
    TOPOLOGY_TYPES,
    EngineName,
    Entry,
    OwnTopology,
    Study,
    explain,
    network_params,
    network_values,
    parse_study,
)
from workflow.units import format_bytes
from workflow.workload import load_workload

RUN_ID_DIGITS = 12

CONFIG_DIR = Path(__file__).parent / "config"
"""The shipped studies."""

OWN_VARIANT = "own"
"""Variant of the rows of a topology that is none of Table 2."""

_RECIPE_KEYS = ("name", "cluster", "variant", "build")
"""How a network is called and made; what it is, is said by the other keys of an experiment's topology."""


class Experiment(BaseModel):
    """One run, resolved: what `experiment.json` holds.

    topology: `name`, `cluster`, `variant` (labels), `build` (how to make it), and what it is: `family`,
    `params`,
        `bandwidth_bps`, `planes`, `single_plane`, `num_endpoints`, `injection_bps`, `wiring_sha256`.
    motif: `name` and every parameter of the motif; for `goal` the file, its hash and the unit of its
    computations, for `dnn` also the whole `workload`. network: every parameter of the engine except the
    bandwidths, which belong to the topology. sst: with the engine sst, how it is run. links: whether the
    table of the links is kept; no part of the id.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: str
    schema_version: int
    engine: str
    topology: dict[str, Any]
    motif: dict[str, Any]
    network: dict[str, Any]
    seed: int
    sst: dict[str, Any] | None = None
    links: bool = False

    @property
    def title(self) -> str:
        """One line for people: network, variant, motif and size."""
        variant = self.topology.get("variant")
        sizes = [
            format_bytes(self.motif[key]) for key in ("message_bytes", "total_bytes") if key in self.motif
        ]
        plane = ["one plane"] if self.topology.get("single_plane") else []
        workload = [self.motif["workload"]["name"]] if "workload" in self.motif else []
        words = [
            self.topology["name"],
            *([variant] if variant != OWN_VARIANT else []),
            *plane,
            self.motif["name"],
            *workload,
        ]
        return " ".join([*words, *sizes, f"seed {self.seed}"])

    def to_json(self) -> str:
        """The text of `experiment.json`, the same for the same experiment."""
        plain = {"sst"} if self.sst is None else set()
        content = self.model_dump(exclude=plain if self.links else plain | {"links"})
        return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    @classmethod
    def load(cls, path: Path) -> Experiment:
        """Read an `experiment.json`.

        Raises ConfigError if it cannot be read, belongs to another schema version or was changed by hand.
        """
        try:
            experiment = cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise ConfigError(f"experiment {path} cannot be read: {error.strerror}.") from None
        except ValidationError as error:
            raise ConfigError(f"experiment {path}: {explain(error)}") from None
        if experiment.schema_version != SCHEMA_VERSION:
            raise ConfigError(
                f"experiment {path}: schema_version is {experiment.schema_version} but must be "
                f"{SCHEMA_VERSION}; prepare the study again."
            )
        if experiment.run_id != experiment.identity():
            raise ConfigError(
                f"experiment {path}: run_id is {experiment.run_id} but its parameters give "
                f"{experiment.identity()}; change the configuration and not this file."
            )
        return experiment

    def identity(self) -> str:
        """The run id that these parameters have: labels and file names do not count."""
        topology = {key: value for key, value in self.topology.items() if key not in _RECIPE_KEYS}
        motif = {key: value for key, value in self.motif.items() if key != "file"}
        resolved = {
            "schema_version": self.schema_version,
            "engine": self.engine,
            "topology": topology,
            "motif": motif,
            "network": self.network,
            "seed": self.seed,
        }
        if self.sst is not None:
            # How many processes and threads work on it makes no difference to what comes out.
            resolved["sst"] = {key: self.sst[key] for key in self.sst if key not in ("threads", "ranks")}
        return run_id(resolved)

    def build_topology(self) -> Topology:
        """The network; raises ConfigError if it no longer comes out as the one of the id."""
        build = self.topology["build"]
        topology = _build_topology(build, self.topology["cluster"], self.topology["variant"])
        if self.topology["single_plane"]:
            topology = _one_plane(topology)
        speeds = {LinkKind[kind.upper()]: rate for kind, rate in self.topology["bandwidth_bps"].items()}
        topology = topology.with_bandwidth(speeds)
        if wiring_sha256(topology) != self.topology["wiring_sha256"]:
            raise ConfigError(
                f"run {self.run_id}: the wiring of {self.topology['name']} has changed since the run was "
                "prepared; prepare the study again."
            )
        return topology

    def build_schedule(self, topology: Topology) -> Schedule:
        """The traffic, checked; raises ConfigError where it cannot run to its end on this network."""
        values = {key: value for key, value in self.motif.items() if key != "name"}
        name, network = self.motif["name"], self.topology["name"]
        try:
            if name == GOAL:
                schedule: Schedule = _read_goal(**values)
            elif name == DNN:
                workload = Workload.from_dict(values.pop("workload"))
                schedule = build_iteration(workload, topology, **values).schedule
            else:
                schedule = motifs.build(name, topology, **values)
            schedule.check()
        except ConfigError as error:
            raise ConfigError(f"{values.get('file', name)} on {network}: {error}") from None
        if schedule.num_ranks > topology.num_endpoints:
            raise ConfigError(
                f"{values.get('file', name)} on {network}: num_ranks is {schedule.num_ranks} but must be at "
                f"most {topology.num_endpoints}, the endpoints of the network."
            )
        return schedule

    def network_params(self) -> NetworkParams:
        """The parameters of the engine."""
        return network_params(self.network)


def _read_goal(file: str, sha256: str, calc_unit_ps: int) -> Schedule:
    if _file_sha256(Path(file)) != sha256:
        raise ConfigError("the file has changed since the run was prepared; prepare the study again.")
    return read_goal(file, calc_unit_ps)


def _file_sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(f"GOAL file {str(path)!r} cannot be read: {error.strerror}.") from None


def run_id(resolved: Mapping[str, Any]) -> str:
    """Hash of resolved parameters, independent of the order of keys: 12 hexadecimal digits of a SHA-256."""
    canonical = json.dumps(
        resolved, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return hashlib.sha256(canonical.encode()).hexdigest()[:RUN_ID_DIGITS]


def engine_version() -> str:
    """Version of the program whose engine runs the experiments; another one makes runs obsolete."""
    try:
        return version("hxmesh")
    except PackageNotFoundError:
        return "unknown"


def wiring_sha256(topology: Topology) -> str:
    """Hash of what the engine sees of a network beside its parameters: cables, endpoints, routing tables."""
    digest = hashlib.sha256()
    arrays: dict[str, Any] = {
        name: getattr(topology, name)
        for name in (
            "port_offset",
            "port_peer",
            "port_kind",
            "endpoint_router",
            "endpoint_port",
            "grid_endpoint",
        )
    }
    arrays |= {f"table {name}": table for name, table in sorted(topology.routing.tables.items())}
    for name, array in arrays.items():
        if array is not None:
            digest.update(f"{name} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()


# -- expansion -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """The runs of a study by id, in the order of the configuration, and the rows of its tables."""

    study: Study
    config_path: Path
    experiments: dict[str, Experiment]
    rows: list[dict[str, Any]]
    _topologies: dict[str, Topology] = field(default_factory=dict, repr=False)

    schema_version = SCHEMA_VERSION

    @property
    def run_ids(self) -> list[str]:
        """Ids of all runs."""
        return list(self.experiments)

    def topology(self, run: str) -> Topology:
        """The network of a run, built once for all runs on it."""
        return self._topologies[run]

    def study_json(self) -> str:
        """The text of `study.json`: what the tables are made of."""
        content = {
            "name": self.study.name,
            "kind": self.study.kind,
            "description": self.study.description,
            "rows": self.rows,
        }
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    def check(self) -> None:
        """Build every schedule once; raises ConfigError before anything is written or started."""
        for run, experiment in self.experiments.items():
            experiment.build_schedule(self.topology(run))

    def prepare(self, results_dir: Path) -> list[Path]:
        """Write `study.json` and every `experiment.json`; files that are right are left alone."""
        files = {
            results_dir / "runs" / run / "experiment.json": e.to_json() for run, e in self.experiments.items()
        }
        files[results_dir / "study.json"] = self.study_json()
        for path, text in files.items():
            write_if_changed(path, text)
        return list(files)


def write_if_changed(path: Path, text: str) -> bool:
    """Write `text` to `path`, complete or not at all; return whether that was necessary."""
    try:
        if path.read_text(encoding="utf-8") == text:
            return False
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own, since another workflow, on this machine or another, may be writing the same.
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.chmod(0o644)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return True


def find_config(config: str | os.PathLike[str]) -> Path:
    """Path of a configuration: of an existing file, or of a shipped study by its name.

    Raises ConfigError where there is neither, with the nearest shipped name.
    """
    path = Path(config)
    if path.is_file():
        return path
    shipped = {study.stem: study for study in CONFIG_DIR.glob("*.yaml")}
    if str(config) in shipped:
        return shipped[str(config)]
    if path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
        raise ConfigError(f"config {str(config)!r} does not exist.")
    raise ConfigError(str(unknown_name("study", str(config), shipped)))


def load_study(path: Path) -> Study:
    """Read and validate a configuration; raises ConfigError with line and column where it is no YAML."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"config {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"config {path} cannot be read: it is not UTF-8 text.") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"config {path} is no YAML: {place}{error.problem or error.context}.") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"config {path} is no YAML: {' '.join(str(error).split())}.") from None
    return parse_study(content, str(path))


def load_plan(path: Path, engine: str | None = None) -> Plan:
    """Read a configuration and expand it; raises ConfigError for everything that is wrong with it.

    engine: another one than the configuration's. The study is then called after it, so that the results of
    both stand side by side.
    """
    study = load_study(path)
    if engine is not None and [engine] != study.engines:
        if engine not in get_args(EngineName):
            raise unknown_name("engine", engine, get_args(EngineName))
        study = study.model_copy(update={"engine": engine, "name": f"{study.name}-{engine}"})
    try:
        return expand(study, path)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def expand(study: Study, config_path: Path = Path("config.yaml")) -> Plan:
    """Return all runs and rows of a study.

    config_path: where the study comes from; GOAL files are looked up beside it.
    """
    experiments: dict[str, Experiment] = {}
    rows: list[dict[str, Any]] = []
    topologies: dict[str, Topology] = {}
    networks = _Networks()
    for number, entry in enumerate(study.experiments):
        try:
            for experiment, row, topology in _expand_entry(study, entry, networks, config_path.parent):
                experiments.setdefault(experiment.run_id, experiment)
                topologies.setdefault(experiment.run_id, topology)
                if row not in rows:
                    rows.append(row)
        except ConfigError as error:
            raise ConfigError(f"experiments[{number}]: {error}") from None
    return Plan(study, config_path, experiments, rows, topologies)


def _expand_entry(
    study: Study, entry: Entry, networks: _Networks, directory: Path
) -> Iterator[tuple[Experiment, dict[str, Any], Topology]]:
    cluster = entry.cluster or study.cluster
    given = network_values(study.defaults.network) | network_values(entry.network)
    bandwidth = network_values(study.defaults.network).get("bandwidth_bps", {}) | given.pop(
        "bandwidth_bps", {}
    )
    params = network_params(given)
    # Without latencies of their own kinds runs keep the identity they had before these could be set.
    network = params.model_dump(
        mode="json", exclude={"bandwidth_bps"} | (set() if params.latency_ps else {"latency_ps"})
    )
    for item in entry.networks():
        # Rates are resolved here and not part of the recipe.
        build = item if isinstance(item, str) else _recipe(item)
        rates = bandwidth if isinstance(item, str) else item.bandwidth | bandwidth
        named = isinstance(item, str)
        for variant in (entry.variants or study.defaults.variants) if named else [OWN_VARIANT]:
            network_of = networks.get(build, cluster if named else "", variant, entry.single_plane, rates)
            topology, resolved = network_of.topology, network_of.resolved
            try:
                network_params(network).check_against(topology)
            except ConfigError as error:
                raise ConfigError(f"network of {resolved['name']}: {error}") from None
            for motif, values in entry.motif.choices():
                for seed, engine in product(entry.seeds or study.seeds, study.engines):
                    motif_resolved = _resolve_motif(motif, values, seed, network_of.planes_merged, directory)
                    draft = Experiment(
                        run_id="",
                        schema_version=SCHEMA_VERSION,
                        engine=engine,
                        topology=resolved,
                        motif=motif_resolved,
                        network=network,
                        seed=seed,
                        sst=study.sst.model_dump(mode="json") if engine == "sst" else None,
                        links=study.links,
                    )
                    experiment = draft.model_copy(update={"run_id": draft.identity()})
                    yield experiment, _row(experiment, entry, values, topology), topology


def _recipe(topology: OwnTopology) -> dict[str, Any]:
    return topology.model_dump(mode="json", exclude_none=True, exclude={"bandwidth"})


@dataclass(frozen=True)
class _Network:
    """A network and its description; `planes_merged` planes share what one of them is to carry."""

    topology: Topology
    resolved: dict[str, Any]
    planes_merged: int


class _Networks:
    """The networks of a study, each built and hashed once."""

    def __init__(self) -> None:
        self._known: dict[str, _Network] = {}

    def get(
        self,
        build: str | dict[str, Any],
        cluster: str,
        variant: str,
        single_plane: bool,
        bandwidth: Mapping[str, int],
    ) -> _Network:
        key = json.dumps([build, cluster, variant, single_plane, dict(bandwidth)], sort_keys=True)
        if key not in self._known:
            merged = _build_topology(build, cluster, variant)
            topology = _one_plane(merged) if single_plane else merged
            topology = topology.with_bandwidth(
                {LinkKind[kind.upper()]: rate for kind, rate in bandwidth.items()}
            )
            labels = {
                "name": build if isinstance(build, str) else build.get("name", topology.name),
                "cluster": cluster,
                "variant": variant,
                "build": build,
                "single_plane": single_plane,
            }
            planes_merged = merged.merged_planes if single_plane else 1
            self._known[key] = _Network(topology, labels | _describe(topology), planes_merged)
        return self._known[key]


def _describe(topology: Topology) -> dict[str, Any]:
    """What decides a simulation: shape, rates of the kinds of links there are, and the hash of the wiring."""
    kinds = sorted(int(kind) for kind in np.unique(topology.port_kind) if kind != UNCONNECTED)
    return {
        "family": topology.routing.family,
        "params": {key: int(value) for key, value in sorted(topology.routing.params.items())},
        "bandwidth_bps": {
            LinkKind(kind).name.lower(): topology.bandwidth_bps[LinkKind(kind)] for kind in kinds
        },
        "planes": topology.planes,
        "merged_planes": topology.merged_planes,
        "num_endpoints": topology.num_endpoints,
        "injection_bps": topology.injection_bps,
        "wiring_sha256": wiring_sha256(topology),
    }


def _build_topology(build: str | dict[str, Any], cluster: str, variant: str) -> Topology:
    if isinstance(build, str):
        return catalog.table2(build, cast(Any, cluster), cast(Any, variant))
    return TOPOLOGY_TYPES[build["type"]].model_validate(build).build()


def _one_plane(topology: Topology) -> Topology:
    if topology.merged_planes == 1:
        raise ConfigError(
            f"single_plane is true but must be false for {topology.name}, which is one plane already."
        )
    return topology.single_plane()


def _resolve_motif(
    motif: str, values: dict[str, Any], seed: int, planes_merged: int, directory: Path
) -> dict[str, Any]:
    if motif == GOAL:
        path = (directory / values["file"]).resolve()
        digest = _file_sha256(path)
        return {"name": GOAL, "file": str(path), "sha256": digest, "calc_unit_ps": values["calc_unit_ps"]}
    given = dict(values)
    parameters = DNN_PARAMETERS if motif == DNN else MOTIFS[motif].parameters
    if any(parameter.name == "seed" for parameter in parameters):
        given.setdefault("seed", seed)
    if motif == DNN:
        axes = {axis: given.pop(axis) for axis in DNN_AXES if axis in given}
        workload = load_workload(given.pop("workload"), directory, axes)
        chosen = {p.name: given.get(p.name, p.default) for p in parameters}
        return {"name": DNN, "workload": workload.as_dict()} | _plain(chosen)
    if motif in ALLREDUCE_MOTIFS:
        # A plane carries its share of the vector: one of four merged ones a quarter, as in the paper.
        if given["total_bytes"] % planes_merged:
            raise ConfigError(
                f"total is {format_bytes(given['total_bytes'])} but must be a multiple of {planes_merged} "
                "bytes, as single_plane gives each plane an equal share."
            )
        given["total_bytes"] //= planes_merged
    return {"name": motif} | _plain(MOTIFS[motif].resolve(given))


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Values as JSON gives them back."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _row(experiment: Experiment, entry: Entry, values: dict[str, Any], topology: Topology) -> dict[str, Any]:
    """Labels of one row: what the configuration calls things, sizes as it gives them."""
    motif = experiment.motif["name"]
    allreduce = motif in ALLREDUCE_MOTIFS
    role = entry.role or ("allreduce" if allreduce else motif)
    row: dict[str, Any] = {
        "run_id": experiment.run_id,
        "topology": experiment.topology["name"],
        "variant": experiment.topology["variant"],
        "cluster": experiment.topology["cluster"],
        "role": role,
        "motif": motif,
    }
    if allreduce:
        row |= {"algorithm": motif, "bytes": values["total_bytes"]}
    elif motif == DNN:
        workload = Workload.from_dict(experiment.motif["workload"])
        row |= {
            "workload": workload.name,
            "job_accelerators": workload.accelerators,
            "compute_ps": compute_ps(workload),
            "algorithm": experiment.motif["algorithm"],
        }
        if experiment.motif["trace"] is not None:
            chosen = {
                key: experiment.motif[key] for key in experiment.motif if key not in ("name", "workload")
            }
            steps = build_iteration(workload, topology, **chosen).intervals
            row["trace"] = [asdict(step) for step in steps]
    elif "message_bytes" in values:
        row["message_bytes"] = values["message_bytes"]
    return row | {"seed": experiment.seed, "single_plane": experiment.topology["single_plane"]}
