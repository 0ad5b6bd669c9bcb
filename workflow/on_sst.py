"""Runs an experiment on SST in place of the packet engine: same network, same schedule, same parameters."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy.typing as npt

import engine
from engine import RunResult
from motifs import Schedule
from sst_models import build, locate
from sst_models.parameters import VERSIONS
from sst_models.read import read_result
from sst_models.render import ReplayWorkload, SstOptions, check_run, render
from sst_models.run import RunOptions, read_manifest, run
from topologies import ConfigError, Topology
from workflow.experiment import Experiment, Plan

DIRECTORY = "sst"
"""What SST reads and writes, within the directory of a run."""

MPIRUN_VARIABLE = "HXMESH_MPIRUN"
"""Environment variable with the command that starts MPI processes, where it is not plain mpirun."""


def check(plan: Plan, *, installed: bool) -> None:
    """Raise ConfigError, before anything is written, for a plan that SST cannot run.

    Networks that Merlin cannot build, parameters that SST does not know; with `installed` also an SST that is
    not there, of another version, without Merlin or without the element library.
    """
    version = VERSIONS[-1]
    if installed:
        installation = locate.find()
        version = installation.version
        installation.require("merlin")
        wrong = build.state(installation, build.library_dir(installation))
        if wrong is not None:
            raise ConfigError(f"the element library hxmesh {wrong}.")
    on_sst = {run_id: e for run_id, e in plan.experiments.items() if e.engine == "sst"}
    for run_id, experiment in on_sst.items():
        try:
            check_run(plan.topology(run_id), experiment.network_params(), _options(experiment, version))
        except ConfigError as error:
            raise ConfigError(f"{experiment.title} on SST: {error}") from None


def _options(experiment: Experiment, version: str) -> SstOptions:
    assert experiment.sst is not None
    return SstOptions(
        version=version, reorder=experiment.sst["reorder"], further=experiment.sst["parameters"]
    )


def simulate_on_sst(
    topology: Topology, schedule: Schedule, directory: Path, *, placement: npt.ArrayLike | None = None
) -> RunResult:
    """`engine.run` on the SST of the PATH, with default parameters, in `directory`.

    Raises ConfigError for what cannot run there, as `run_on_sst` does.
    """
    installation = locate.find()
    options = SstOptions(version=installation.version)
    render(directory, topology, ReplayWorkload(schedule), options=options, placement=placement)
    outcome = run(directory, RunOptions(sst=installation.sst_config))
    return read_result(directory, read_manifest(directory), outcome, topology)


def run_on_sst(
    experiment: Experiment,
    run_dir: Path,
    *,
    progress: Callable[[engine.Progress], None] | None = None,
    memory_limit_bytes: int | None = None,
) -> RunResult:
    """Run one experiment on the SST of the PATH, in `run_dir`/sst; return its result, whatever its status.

    Raises ConfigError for what cannot run there: no SST, a version of it that is not known, no Merlin, the
    element library not built, a network that Merlin cannot build.
    """
    assert experiment.sst is not None
    settings = experiment.sst
    installation = locate.find()
    topology = experiment.build_topology()
    directory = run_dir / DIRECTORY
    render(
        directory,
        topology,
        ReplayWorkload(experiment.build_schedule(topology)),
        experiment.network_params(),
        options=_options(experiment, installation.version),
        seed=experiment.seed,
        title=experiment.title,
        experiment=json.loads(experiment.to_json()),
    )
    outcome = run(
        directory,
        RunOptions(
            threads=settings["threads"],
            ranks=settings["ranks"],
            memory_limit_bytes=memory_limit_bytes,
            sst=installation.sst_config,
            mpirun=shlex.split(os.environ.get(MPIRUN_VARIABLE, "mpirun")),
        ),
        progress=progress,
    )
    return read_result(directory, read_manifest(directory), outcome, topology, links=experiment.links)
