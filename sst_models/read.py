"""Reads what a run on SST left, into the same result as that of the packet engine."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.params import NetworkParams
from engine.result import RunResult, rank_table
from topologies.base import Topology
from topologies.errors import ConfigError

if TYPE_CHECKING:
    from sst_models.run import Outcome

RECORDS_DIR = "records"
NAMED_WAITERS = 4
"""Ranks that a sentence about a deadlock names."""

_UNITS_PS = {"fs": 1e-3, "ps": 1.0, "ns": 1e3, "us": 1e6, "ms": 1e9, "s": 1e12, "ks": 1e15}


@dataclass(frozen=True, eq=False)
class Records:
    """What the ranks wrote about themselves; `end_ps` is -1 and `waiting_for` says why where one did not
    finish.

    A rank without any record has `start_ps` -1 too.
    """

    bytes_sent: npt.NDArray[np.int64]
    bytes_received: npt.NDArray[np.int64]
    start_ps: npt.NDArray[np.int64]
    end_ps: npt.NDArray[np.int64]
    waiting_for: dict[int, str]
    fault: str = ""

    @property
    def complete(self) -> bool:
        """Whether every rank has ended."""
        return not self.fault and bool((self.end_ps >= 0).all())

    @property
    def simulated_time_ps(self) -> int:
        """When the last rank that ended did so."""
        return int(self.end_ps.max(initial=0))

    def waiting(self) -> str:
        """Which ranks did not end, and what they wait for, as the end of a sentence."""
        if self.fault:
            return self.fault
        missing = np.flatnonzero(self.end_ps < 0)
        if not missing.size:
            return "every rank has ended"
        named = [
            f"rank {rank} waits for {self.waiting_for[rank]}"
            if rank in self.waiting_for
            else f"rank {rank} did not end"
            for rank in missing[:NAMED_WAITERS].tolist()
        ]
        more = missing.size - len(named)
        return ", ".join(named) + (f" and {more} more" if more else "")


def read_records(directory: Path, manifest: dict[str, Any]) -> Records:
    """The records of a run; what is missing or broken is in `fault` and never an exception."""
    ranks = int(manifest["ranks"])
    table = np.full((4, ranks), -1, dtype=np.int64)
    table[:2] = 0
    reader = _read_replay if manifest["records"] == "replay" else _read_motif_log
    try:
        waiting, fault = reader(directory / RECORDS_DIR, table, manifest)
    except (OSError, ValueError, TypeError, KeyError, IndexError) as error:
        waiting, fault = {}, f"the records cannot be read: {type(error).__name__} {error}"
    return Records(table[0], table[1], table[2], table[3], waiting, fault)


def _read_replay(
    folder: Path, table: npt.NDArray[np.int64], manifest: dict[str, Any]
) -> tuple[dict[int, str], str]:
    # Endpoints write one file for each process, the Ember motif one for each rank.
    files = sorted(folder.glob("ranks-*-of-*.csv"))
    processes = bool(files)
    files = files or sorted(folder.glob("rank-*.csv"))
    waiting: dict[int, str] = {}
    if not files:
        return waiting, "no rank has left a record"
    seen = np.zeros(table.shape[1], dtype=np.int64)
    parts = {int(re.sub(r".*-of-(\d+)\.csv", r"\1", file.name)) for file in files if processes}
    for file in files:
        with file.open(newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                rank = int(row["rank"])
                seen[rank] += 1
                table[:, rank] = [
                    int(row[key]) for key in ("bytes_sent", "bytes_received", "start_ps", "end_ps")
                ]
                if row["waiting_for"]:
                    waiting[rank] = row["waiting_for"]
    if processes and parts != {len(files)}:
        return waiting, f"there are {len(files)} files of records but should be {max(parts)}"
    if (seen > 1).any():
        return waiting, f"rank {int(np.argmax(seen > 1))} has two records"
    if (seen < 1).any():
        return waiting, f"rank {int(np.argmax(seen < 1))} has no record"
    return waiting, ""


def _read_motif_log(
    folder: Path, table: npt.NDArray[np.int64], manifest: dict[str, Any]
) -> tuple[dict[int, str], str]:
    """Ember's log: a line "job rank motif name start unit end unit" when a rank has ended a motif.

    Times have six digits. A rank is done with the last motif; its time starts with the second, after Init.
    """
    files = sorted(folder.glob("motifs*.log"))
    if not files:
        return {}, "no rank has left a record"
    last = int(manifest["motifs"]) - 1
    reached = np.full(table.shape[1], -1, dtype=np.int64)
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            words = line.split()
            rank, motif = int(words[1]), int(words[2])
            start, end = _time_ps(words[-4], words[-3]), _time_ps(words[-2], words[-1])
            if motif == min(1, last):
                table[2, rank] = start
            reached[rank] = max(reached[rank], motif)
            if motif == last:
                table[3, rank] = end
    waiting = {
        int(rank): f"the end of motif {int(reached[rank]) + 1}" for rank in np.flatnonzero(table[3] < 0)
    }
    return waiting, ""


def _time_ps(value: str, unit: str) -> int:
    return round(float(value) * _UNITS_PS[unit])


# -- statistics --------------------------------------------------------------------------------------------


def read_statistics(directory: Path) -> pd.DataFrame:
    """The statistics of a run, one row for each port and statistic: component, statistic, port, sum, count.

    Raises ConfigError where they cannot be read.
    """
    frames = []
    for file in sorted(directory.glob("statistics*.csv")):
        try:
            frame = pd.read_csv(file, skipinitialspace=True, dtype={"StatisticSubId": "string"})
            frame.columns = [str(name).strip() for name in frame.columns]
            frames.append(frame[["ComponentName", "StatisticName", "StatisticSubId", "Sum.u64", "Count.u64"]])
        except (pd.errors.EmptyDataError, pd.errors.ParserError):
            continue  # nothing, or cut off
        except (OSError, ValueError, KeyError) as error:
            raise ConfigError(f"the statistics of SST in {file} cannot be read: {error}.") from None
    columns = ["component", "statistic", "port", "sum", "count"]
    if not frames:
        return pd.DataFrame(columns=columns).astype({"component": str, "statistic": str, "port": str})
    table = pd.concat(frames, ignore_index=True)
    table.columns = pd.Index(columns)
    for name in ("sum", "count"):
        table[name] = pd.to_numeric(table[name], errors="coerce")
    whole: pd.DataFrame = table.dropna(subset=["component", "statistic", "sum", "count"])
    return whole.astype({"sum": np.int64, "count": np.int64})


def link_table(statistics: pd.DataFrame, topology: Topology, params: NetworkParams) -> pd.DataFrame:
    """Use of every link, one row per direction, as the packet engine gives it.

    The sender is a router, or endpoint e as router -1 - e. Merlin does not count the packets that an endpoint
    sends; they are those of whole flits, as many as its bits fill at `packet_bytes` each, at least one per
    run.
    """
    bandwidths = params.link_bandwidths_bps(topology)
    by_kind = np.zeros(256, dtype=np.float64)
    for kind, bps in bandwidths.items():
        by_kind[kind] = bps
    offset = topology.port_offset
    bits = np.zeros(topology.num_ports + topology.num_endpoints, dtype=np.int64)
    packets = np.zeros_like(bits)

    named = statistics["port"].str.fullmatch(r"port\d+").fillna(False).astype(bool)
    routers = statistics[statistics["component"].str.fullmatch(r"router\d+") & named]
    number = routers["component"].str.removeprefix("router").astype(np.int64).to_numpy()
    port = routers["port"].str.removeprefix("port").astype(np.int64).to_numpy()
    at = offset[number] + port
    for name, target in (("send_bit_count", bits), ("send_packet_count", packets)):
        chosen = (routers["statistic"] == name).to_numpy()
        target[at[chosen]] = routers["sum"].to_numpy()[chosen]

    sending = statistics[
        statistics["component"].str.match(r"(?:endpoint|nic)\d+(?::|$)")
        & (statistics["statistic"] == "send_bit_count")
    ]
    who = (
        sending["component"].str.extract(r"^(?:endpoint|nic)(\d+)", expand=False).astype(np.int64).to_numpy()
    )
    bits[topology.num_ports + who] = sending["sum"].to_numpy()
    packets[topology.num_ports + who] = sending["count"].to_numpy()

    endpoints = np.arange(topology.num_endpoints)
    host_ports = offset[topology.endpoint_router] + topology.endpoint_port
    peer = np.where(topology.port_peer >= 0, topology.port_router[topology.port_peer], 0)
    peer[host_ports] = -1 - endpoints
    kinds = np.concatenate([topology.port_kind, topology.port_kind[host_ports]])
    flits = -(-bits // (params.flit_bytes * 8))
    rate = by_kind[kinds]
    seconds = np.divide(flits * params.flit_bytes * 8.0, rate, out=np.zeros(len(flits)), where=rate > 0)
    table = pd.DataFrame(
        {
            "router": np.concatenate([topology.port_router, -1 - endpoints]).astype(np.int64),
            "port": np.concatenate(
                [
                    np.arange(topology.num_ports) - offset[topology.port_router],
                    np.zeros(len(endpoints), np.int64),
                ]
            ),
            "kind": kinds,
            "peer_router": np.concatenate([peer, topology.endpoint_router]).astype(np.int64),
            "packets": packets,
            "flits": flits,
            "busy_ps": np.rint(seconds * 1e12).astype(np.int64),
        }
    )
    used: pd.DataFrame = table[rate > 0].reset_index(drop=True)
    return used


def read_result(
    directory: Path,
    manifest: dict[str, Any],
    outcome: Outcome,
    topology: Topology,
    *,
    links: bool = False,
    versions: Iterable[tuple[str, str]] = (),
) -> RunResult:
    """The result of a run in `directory`, of whatever status.

    A complete run whose statistics are not whole comes back as failed.

    Raises ConfigError where the statistics cannot be read at all.
    """
    params = NetworkParams(**manifest["params"])
    records = outcome.records
    statistics = read_statistics(directory) if outcome.status == "complete" else pd.DataFrame()
    status, message = outcome.status, outcome.message
    packets = hops = 0
    table = None
    if outcome.status == "complete" and manifest["link_statistics"]:
        table = link_table(statistics, topology, params)
        packets = int(table.loc[table["router"] < 0, "packets"].sum())
        hops = int(table["packets"].sum())
        arrived = int(table.loc[(table["router"] >= 0) & (table["peer_router"] < 0), "packets"].sum())
        none = packets == 0 and bool(manifest["messages"])
        # Firefly's last acknowledgements may still be on their way.
        cut = arrived != packets if "hxmesh.replay" in manifest["elements"] else False
        if cut or none:
            # SST does not say so when it cannot write.
            status, message = (
                "failed",
                (
                    f"the statistics of SST are incomplete ({packets} packets sent, {arrived} arrived); "
                    f"is the disk full?"
                ),
            )
    sent, received = records.bytes_sent, records.bytes_received
    if manifest["records"] != "replay" and not statistics.empty:
        sent, received = _nic_bytes(statistics, directory, len(sent))
    return RunResult(
        engine="sst",
        status=status,
        message=message,
        simulated_time_ps=records.simulated_time_ps,
        packets=packets,
        packet_hops=hops,
        messages=int(manifest["messages"] or 0) if outcome.status == "complete" else 0,
        bytes_delivered=int(received.sum()),
        wall_s=outcome.wall_s,
        peak_memory_bytes=outcome.peak_memory_bytes,
        seed=int(manifest["seed"]),
        versions={**manifest["versions"], "sst": outcome.sst_version, **dict(versions)},
        params=manifest["params"],
        ranks=rank_table(sent, received, records.start_ps, records.end_ps),
        links=table if links else None,
    )


def _nic_bytes(
    statistics: pd.DataFrame, directory: Path, ranks: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Bytes that Firefly's adapters sent and received, by rank; headers of the messages are among them."""
    places = pd.read_csv(directory / "endpoints.csv")
    rank_of = places["rank"].to_numpy()
    both = np.zeros((2, ranks), dtype=np.int64)
    for row, name in enumerate(("sentByteCount", "rcvdByteCount")):
        chosen = statistics[statistics["statistic"] == name]
        nic = chosen["component"].str.extract(r"^nic(\d+)$", expand=False).astype(np.int64).to_numpy()
        both[row, rank_of[nic]] = chosen["sum"].to_numpy()
    return both[0], both[1]


__all__ = ["Records", "link_table", "read_records", "read_result", "read_statistics"]
