"""`hxmesh doctor`: what works on this machine, and why something does not."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import dataclass

import typer

from workflow.cli import EXIT_CHECK


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, whether it is well ("no" only matters if it is `needed`), and details."""

    subject: str
    good: bool
    details: str
    needed: bool = True


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog="Example: `hxmesh doctor`")(doctor)


def doctor() -> int:
    """Say which engines work here and why not, and what the machine has; exit code 1 if runs cannot work."""
    findings = [_python(), _packet_engine(), _snakemake(), _sst(), _cores(), _memory(), _disk()]
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        mark = "ok" if finding.good else "NO" if finding.needed else "--"
        print(f"{mark}  {finding.subject:<{width}}  {finding.details}")
    return EXIT_CHECK if any(finding.needed and not finding.good for finding in findings) else 0


def _python() -> Finding:
    return Finding("python", sys.version_info >= (3, 11), f"{platform.python_version()}, {sys.executable}")


def _packet_engine() -> Finding:
    """Runs a simulation of a few packets, since an extension that loads need not work."""
    subject = "engine packet"
    try:
        import engine
        import motifs
        from topologies import HxMesh

        network = HxMesh(2, 2, 2, 2)
        result = engine.run(network, motifs.build("alltoall", network, message_bytes=4096))
    except Exception as error:  # whatever is wrong with the installation is the answer
        return Finding(
            subject, False, f"does not work: {type(error).__name__}: {' '.join(str(error).split())}"
        )
    if not result.complete:
        return Finding(subject, False, f"a small alltoall ended with {result.status}: {result.message}")
    return Finding(
        subject, True, f"hxmesh {result.versions.get('hxmesh')}, {result.packets} packets simulated"
    )


def _snakemake() -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("snakemake")
    except PackageNotFoundError:
        return Finding(
            "snakemake", False, "not installed; `hxmesh run CONFIG` works without it", needed=False
        )
    return Finding("snakemake", int(found.split(".")[0]) >= 9, found, needed=False)


def _sst() -> Finding:
    """What of SST is there; runs on it need SST, Merlin and the element library."""
    from sst_models import build, locate
    from topologies.errors import ConfigError

    subject = "engine sst"
    try:
        found = locate.find()
        found.require("merlin")
    except ConfigError as error:
        return Finding(subject, False, str(error).rstrip("."), needed=False)
    there = (
        f"SST {found.version} in {found.prefix}, {'with' if 'ember' in found.libraries else 'without'} Ember"
    )
    wrong = build.state(found, build.library_dir(found))
    if wrong is not None:
        return Finding(subject, False, f"{there}, but the element library {wrong}", needed=False)
    return Finding(subject, True, f"{there}; element library in {build.library_dir(found)}", needed=False)


def _cores() -> Finding:
    from workflow.cli.run import available_cores

    return Finding("cores", True, f"{available_cores()} of {os.cpu_count()} usable")


def _memory() -> Finding:
    import psutil

    memory = psutil.virtual_memory()
    return Finding(
        "memory", True, f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB available"
    )


def _disk() -> Finding:
    return Finding(
        "disk", True, f"{shutil.disk_usage('.').free / 2**30:.1f} GiB free in the working directory"
    )
