"""Runs on an installed SST, compared with the packet engine, and runs that fail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

import engine
import motifs
from engine import NetworkParams, RunResult
from sst_models.read import read_result
from sst_models.render import EmberWorkload, ReplayWorkload, SstOptions, Workload, render
from sst_models.run import Outcome, RunOptions, read_manifest, run
from topologies import ConfigError, Dragonfly, FatTree, HxMesh, HyperX2D, Topology, Torus2D

pytestmark = pytest.mark.sst

TIME_LIMIT_S = 120.0

BASELINES: dict[str, Callable[[], Topology]] = {
    "fattree": lambda: FatTree.from_shape("8,8:8"),
    "fattree50": lambda: FatTree.from_shape("8,4:8"),
    "adaptive fattree": lambda: FatTree.from_shape("4,4:4", adaptive=True),
    "three levels": lambda: FatTree.from_shape("4,4:4,4:4"),
    "dragonfly": lambda: Dragonfly(2, 4, 4, 4),
    "dragonfly with a spare port": lambda: Dragonfly(2, 4, 3, 4),
    "hyperx": lambda: HyperX2D(8, 8),
    "torus": lambda: Torus2D(8, 8),
    "torus of two": lambda: Torus2D(2, 4),
}

HXMESHES: dict[str, Callable[[], Topology]] = {
    "hx1mesh": lambda: HxMesh(1, 1, 8, 8),
    "hx2mesh": lambda: HxMesh(2, 2, 4, 4),
    "hx4mesh": lambda: HxMesh(4, 4, 2, 2),
    "hx2mesh with trees": lambda: HxMesh(2, 2, 4, 4, radix=4),
}


def on_sst(
    directory: Path, topology: Topology, workload: Workload, library: Path, **options: object
) -> tuple[Outcome, RunResult]:
    render(directory, topology, workload)
    outcome = run(directory, RunOptions(library=library, time_limit_s=TIME_LIMIT_S, **options))  # type: ignore[arg-type]
    return outcome, read_result(directory, read_manifest(directory), outcome, topology, links=True)


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("motif", ["alltoall", "permutation"])
def test_baselines(name: str, motif: str, tmp_path: Path, sst_library: Path) -> None:
    """Merlin's own topologies: the same packets on every link, times within a few ns a hop."""
    topology = BASELINES[name]()
    values = {"seed": 1} if motif == "permutation" else {}
    schedule = motifs.build(motif, topology, message_bytes=65536, **values)
    ours = engine.run(topology, schedule, links=True)
    outcome, theirs = on_sst(tmp_path, topology, ReplayWorkload(schedule), sst_library)
    assert outcome.status == "complete", outcome.message
    assert theirs.engine == "sst"
    assert theirs.versions["sst"]
    assert theirs.simulated_time_ps == pytest.approx(ours.simulated_time_ps, rel=0.02)
    assert (theirs.packets, theirs.packet_hops) == (ours.packets, ours.packet_hops)
    assert theirs.messages == ours.messages
    assert theirs.bytes_delivered == ours.bytes_delivered
    assert theirs.links is not None
    assert ours.links is not None
    if not topology.routing.params.get("adaptive"):
        for column in ("router", "port", "kind", "peer_router", "packets", "flits", "busy_ps"):
            assert np.array_equal(theirs.links[column], ours.links[column]), column
    assert np.array_equal(theirs.ranks["bytes_received"], ours.ranks["bytes_received"])
    theirs.save(tmp_path / "saved")
    assert RunResult.load(tmp_path / "saved").simulated_time_ps == theirs.simulated_time_ps


@pytest.mark.parametrize("motif", ["alltoall", "permutation"])
def test_ugal(motif: str, tmp_path: Path, sst_library: Path) -> None:
    """Merlin draws other random numbers: neither the links nor the number of hops are the same."""
    topology = Dragonfly(4, 4, 4, 4, algorithm="ugal")
    values = {"seed": 1} if motif == "permutation" else {}
    schedule = motifs.build(motif, topology, message_bytes=2**18, **values)
    ours = engine.run(topology, schedule)
    outcome, theirs = on_sst(tmp_path, topology, ReplayWorkload(schedule), sst_library)
    assert outcome.status == "complete", outcome.message
    assert theirs.packets == ours.packets
    assert theirs.packet_hops == pytest.approx(ours.packet_hops, rel=0.05)
    assert theirs.simulated_time_ps == pytest.approx(ours.simulated_time_ps, rel=0.10)


# Merlin takes about 6 ns longer for each router on the way (sst_models/README.md); where four messages share
# an endpoint, the order of their packets makes another difference.
ALLREDUCE = {"ring": 0.02, "two-rings": 0.04, "bucket": 0.04}


ALLREDUCES = [
    pytest.param(name, motif, id=f"{motif}-{name}")
    for motif in ALLREDUCE
    for name in ("hx1mesh", "hx2mesh", "hx4mesh", "torus")
    if (name, motif) != ("hx1mesh", "bucket")
]


@pytest.mark.parametrize(("name", "motif"), ALLREDUCES)
def test_allreduce(name: str, motif: str, tmp_path: Path, sst_library: Path) -> None:
    topology = (BASELINES | HXMESHES)[name]()
    schedule = motifs.build(motif, topology, total_bytes=2**24)
    ours = engine.run(topology, schedule)
    outcome, theirs = on_sst(tmp_path, topology, ReplayWorkload(schedule), sst_library)
    assert outcome.status == "complete", outcome.message
    assert theirs.packet_hops == ours.packet_hops
    assert theirs.simulated_time_ps == pytest.approx(ours.simulated_time_ps, rel=ALLREDUCE[motif])


def test_bucket_on_hx1mesh(tmp_path: Path, sst_library: Path) -> None:
    """It takes one of two times, 5% apart: without a header each engine takes the other one."""
    topology = HXMESHES["hx1mesh"]()
    schedule = motifs.build("bucket", topology, total_bytes=2**24)
    ours, theirs = [], []
    for header_bytes in (0, NetworkParams().message_header_bytes):
        params = NetworkParams(message_header_bytes=header_bytes)
        ours.append(engine.run(topology, schedule, params).simulated_time_ps)
        directory = tmp_path / str(header_bytes)
        render(directory, topology, ReplayWorkload(schedule), params)
        outcome = run(directory, RunOptions(library=sst_library, time_limit_s=TIME_LIMIT_S))
        assert outcome.status == "complete", outcome.message
        theirs.append(read_result(directory, read_manifest(directory), outcome, topology).simulated_time_ps)
    assert sorted(theirs) == pytest.approx(sorted(ours), rel=0.01)


@pytest.mark.parametrize("name", HXMESHES)
def test_alltoall_on_hxmesh(name: str, tmp_path: Path, sst_library: Path) -> None:
    """Adaptive choices between equal ports depend on a few ns (sst_models/README.md)."""
    topology = HXMESHES[name]()
    schedule = motifs.build("alltoall", topology, message_bytes=65536)
    ours = engine.run(topology, schedule)
    outcome, theirs = on_sst(tmp_path, topology, ReplayWorkload(schedule), sst_library)
    assert outcome.status == "complete", outcome.message
    assert theirs.packets == ours.packets
    assert theirs.simulated_time_ps == pytest.approx(ours.simulated_time_ps, rel=0.10)


def test_a_long_run_with_ports_that_have_no_link(tmp_path: Path, sst_library: Path) -> None:
    """SST is not asked where its packets are: it would be killed by SIGSEGV at such a port."""
    topology = BASELINES["dragonfly with a spare port"]()
    schedule = motifs.build("alltoall", topology, message_bytes=2**21)
    outcome, _ = on_sst(tmp_path, topology, ReplayWorkload(schedule), sst_library, first_look_s=0.5)
    assert outcome.wall_s > 2, "no heartbeat came, so the question does not arise"
    assert outcome.status == "complete", outcome.message


@pytest.mark.parametrize("name", ["hx2mesh", "torus", "dragonfly", "fattree"])
def test_threads_change_nothing(name: str, tmp_path: Path, sst_library: Path) -> None:
    topology = (BASELINES | HXMESHES)[name]()
    workload = ReplayWorkload(motifs.build("alltoall", topology, message_bytes=16384))
    serial, _ = on_sst(tmp_path / "serial", topology, workload, sst_library)
    threads, _ = on_sst(tmp_path / "threads", topology, workload, sst_library, threads=2)
    assert serial.status == threads.status == "complete", threads.message
    assert np.array_equal(serial.records.end_ps, threads.records.end_ps)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no program mpirun on the PATH")
def test_processes_change_nothing(tmp_path: Path, sst_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
        monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    topology = HXMESHES["hx2mesh"]()
    workload = ReplayWorkload(motifs.build("alltoall", topology, message_bytes=16384))
    serial, one = on_sst(tmp_path / "serial", topology, workload, sst_library)
    outcome, two = on_sst(
        tmp_path / "mpi", topology, workload, sst_library, ranks=2, mpirun=("mpirun", "--oversubscribe")
    )
    assert outcome.status == "complete", outcome.message
    assert np.array_equal(serial.records.end_ps, outcome.records.end_ps)
    assert two.links is not None
    assert one.links is not None
    assert two.links.equals(one.links)


@pytest.mark.parametrize("name", ["fattree", "dragonfly", "hyperx", "torus", "hx2mesh"])
def test_stock_ember_motifs(name: str, tmp_path: Path, sst_library: Path) -> None:
    topology = (BASELINES | HXMESHES)[name]()
    job = ("Init", "Alltoall bytes=4096", "Halo2D iterations=1", "Allreduce count=64", "Fini")
    workload = EmberWorkload(job, topology.num_endpoints)
    outcome, result = on_sst(tmp_path, topology, workload, sst_library)
    assert outcome.status == "complete", outcome.message
    assert (result.ranks["end_ps"] > result.ranks["start_ps"]).all()
    assert result.bytes_delivered >= 4096 * topology.num_endpoints * (topology.num_endpoints - 1)
    assert result.packet_hops > result.packets > 0


@pytest.mark.parametrize("name", ["torus", "fattree", "hx2mesh"])
def test_schedule_through_ember(name: str, tmp_path: Path, sst_library: Path) -> None:
    """Firefly's protocol costs time on top (rendezvous, copies), but the same bytes arrive everywhere."""
    from sst_models import locate

    if locate.find().ember_source is None:
        pytest.skip("the sources of sst-elements are not there, so neither is the Ember motif")
    topology = (BASELINES | HXMESHES)[name]()
    schedule = motifs.build("alltoall", topology, message_bytes=65536)
    ours = engine.run(topology, schedule)
    outcome, theirs = on_sst(tmp_path, topology, ReplayWorkload(schedule, ember=True), sst_library)
    assert outcome.status == "complete", outcome.message
    assert np.array_equal(outcome.records.bytes_received, ours.ranks["bytes_received"])
    assert 0.98 * ours.simulated_time_ps < theirs.simulated_time_ps < 2 * ours.simulated_time_ps


# -- what goes wrong ---------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A directory of an alltoall on a torus, ready to be broken."""
    topology = Torus2D(4, 4)
    render(
        tmp_path / "run", topology, ReplayWorkload(motifs.build("alltoall", topology, message_bytes=65536))
    )
    return tmp_path / "run"


def change(directory: Path, section: str, old: str, new: str) -> None:
    before, found, after = (directory / "config.py").read_text().partition(section)
    assert found
    assert old in after
    (directory / "config.py").write_text(before + found + after.replace(old, new, 1))


def broken(directory: Path, library: Path, **options: object) -> Outcome:
    limits = {"time_limit_s": TIME_LIMIT_S} | options
    outcome = run(directory, RunOptions(library=library, **limits))  # type: ignore[arg-type]
    assert outcome.status != "complete"
    assert "\n" not in outcome.message
    assert outcome.message.endswith(".")
    result = read_result(directory, read_manifest(directory), outcome, Torus2D(4, 4))
    result.save(directory / "saved")
    assert RunResult.load(directory / "saved").status == outcome.status
    return outcome


def test_deadlock_without_events(small: Path, sst_library: Path) -> None:
    """A packet that fits in no input buffer is never sent: nothing happens, and SST ends with code 0."""
    change(small, "ROUTER = {", '"input_buf_size": "32000000B"', '"input_buf_size": "4096B"')
    outcome = broken(small, sst_library)
    assert outcome.status == "deadlock"
    assert "rank 0 waits for receive from rank" in outcome.message


def test_deadlock_with_a_running_clock(small: Path, sst_library: Path) -> None:
    """A packet that fits in no output buffer waits in a router, whose clock goes on for ever."""
    change(small, "ROUTER = {", '"output_buf_size": "32000000B"', '"output_buf_size": "4096B"')
    outcome = broken(small, sst_library, first_look_s=2.0)
    assert outcome.status == "deadlock"
    assert "no packet has moved" in outcome.message
    assert outcome.wall_s < TIME_LIMIT_S


def test_abort(small: Path, sst_library: Path) -> None:
    change(small, "NETWORK_INTERFACE = {", '"output_buf_size": "32000000B"', '"output_buf_size": "1kB"')
    outcome = broken(small, sst_library)
    assert outcome.status == "failed"
    assert "must hold a packet of 8192 bytes" in outcome.message


def test_missing_element(small: Path, sst_library: Path) -> None:
    change(small, "# ---- Endpoints", '"hxmesh.replay")', '"hxmesh.replai")')
    assert broken(small, sst_library).message == "SST does not find the element hxmesh.replai."


def test_error_in_the_script(small: Path, sst_library: Path) -> None:
    (small / "links.csv").unlink()
    outcome = broken(small, sst_library)
    assert outcome.status == "failed"
    assert "config.py failed: FileNotFoundError" in outcome.message


def test_limits(tmp_path: Path, sst_library: Path) -> None:
    topology = Torus2D(4, 4)
    render(tmp_path, topology, ReplayWorkload(motifs.build("alltoall", topology, message_bytes=2**24)))
    outcome = broken(tmp_path, sst_library, time_limit_s=1.0)
    assert outcome.status == "time-limit"
    outcome = broken(tmp_path, sst_library, memory_limit_bytes=2**20)
    assert outcome.status == "memory-limit"


def test_killed(tmp_path: Path, sst_library: Path) -> None:
    topology = Torus2D(4, 4)
    render(tmp_path, topology, ReplayWorkload(motifs.build("alltoall", topology, message_bytes=2**24)))

    def kill() -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            time.sleep(0.5)
            for child in psutil.Process().children(recursive=True):
                if child.name() in ("sst", "sstsim.x"):
                    child.kill()
                    return

    killer = threading.Thread(target=kill)
    killer.start()
    outcome = broken(tmp_path, sst_library)
    killer.join()
    assert outcome.status == "failed"
    assert "killed by SIGKILL" in outcome.message


FULL_DISK = """
mount -t tmpfs -o size=1m tmpfs "$1"
cp -r "$2" "$1/run"
head -c 2m /dev/zero > "$1/run/others" 2> /dev/null || true
exec "$3" -c "$4" "$1/run" "$5"
"""
RUN_AND_TELL = """
import sys
from pathlib import Path
from sst_models.run import RunOptions, run
outcome = run(Path(sys.argv[1]), RunOptions(library=Path(sys.argv[2])))
print(outcome.status, outcome.message, sep=chr(10))
"""


def test_disk_full(small: Path, sst_library: Path, tmp_path: Path) -> None:
    """On a file system of 1 MiB, which only this test's own processes see."""
    apart = ("unshare", "--map-root-user", "--mount")
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    disk = tmp_path / "disk"
    disk.mkdir()
    arguments = [str(disk), str(small), sys.executable, RUN_AND_TELL, str(sst_library)]
    done = subprocess.run(
        [*apart, "sh", "-euc", FULL_DISK, "sh", *arguments],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
    )
    status, message = done.stdout.splitlines()
    assert status == "failed", done.stderr
    assert message.startswith("the disk is full: the records of the run in")


def test_wrong_version(small: Path, sst_library: Path) -> None:
    manifest = json.loads((small / "manifest.json").read_text())
    (small / "manifest.json").write_text(json.dumps(manifest | {"sst_version": "15.1"}))
    if _version().startswith("15.1"):
        pytest.skip("SST is 15.1")
    with pytest.raises(ConfigError, match=r"prepared for SST 15\.1 but SST is"):
        run(small, RunOptions(library=sst_library))


def _version() -> str:
    from sst_models import locate

    return locate.find().version


def test_library_not_built(small: Path, sst_library: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the element library hxmesh is not built"):
        run(small, RunOptions(library=tmp_path / "nowhere"))


def test_more_partitions_than_parts(small: Path, sst_library: Path) -> None:
    with pytest.raises(ConfigError, match="threads times ranks are 5 but must be at most 4"):
        run(small, RunOptions(library=sst_library, threads=5))


def test_plain_sst_and_nothing_else(small: Path, sst_library: Path) -> None:
    """The directory runs with the program alone, from anywhere, in an environment without this program."""
    environment = {"PATH": os.environ["PATH"], "SST_LIB_PATH": str(sst_library), "HOME": str(small)}
    done = subprocess.run(
        ["sst", str(small / "config.py")], cwd="/", env=environment, capture_output=True, timeout=TIME_LIMIT_S
    )
    assert done.returncode == 0
    lines = (small / "records" / "ranks-0-of-1.csv").read_text().splitlines()
    assert len(lines) == 17
    assert not any(",-1," in line for line in lines)
    assert sys.executable not in (small / "config.py").read_text()


def test_parameters_of_the_network_reach_sst(tmp_path: Path, sst_library: Path) -> None:
    """Slow rows, small packets, an infinite crossbar: still the packet engine's times."""
    topology = Torus2D(4, 4)
    params = NetworkParams(
        packet_bytes=2048,
        flit_bytes=64,
        link_latency_ps=25_000,
        host_latency_ps=15_000,
        router_input_latency_ps=5_000,
        router_output_latency_ps=7_000,
        crossbar_bps=0,
        bandwidth_bps={"row": 200_000_000_000},
        latency_ps={"column": 300_000},
    )
    schedule = motifs.build("alltoall", topology, message_bytes=16384)
    ours = engine.run(topology, schedule, params)
    render(tmp_path, topology, ReplayWorkload(schedule), params, options=SstOptions(version=_version()))
    outcome = run(tmp_path, RunOptions(library=sst_library, time_limit_s=TIME_LIMIT_S))
    assert outcome.status == "complete", outcome.message
    assert outcome.records.simulated_time_ps == pytest.approx(ours.simulated_time_ps, rel=0.02)
