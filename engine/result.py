"""What a run gives back, in memory and as files."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from topologies.errors import ConfigError

Status = Literal["complete", "deadlock", "interrupted", "memory-limit", "time-limit", "failed"]

RESULT_FILE = "result.json"
RANKS_FILE = "ranks.parquet"
LINKS_FILE = "links.parquet"


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    packets_delivered: int
    packets_total: int
    packet_hops: int
    simulated_time_ps: int
    wall_s: float


@dataclass(frozen=True, eq=False)
class RunResult:
    """Outcome of one run, of whichever engine.

    `simulated_time_ps` is when the last rank was done. `packet_hops` counts links crossed, also host links;
    `repeated_packet_hops` are those of them that the packet engine skipped as repetitions.
    `ranks` has the columns rank, bytes_sent, bytes_received, start_ps, end_ps (-1 = not finished);
    `links`, if asked for, router, port, kind, peer_router, packets, flits, busy_ps (one row per direction;
    router -1 - e is the endpoint e sending).
    """

    engine: str
    status: Status
    message: str
    simulated_time_ps: int
    packets: int
    packet_hops: int
    messages: int
    bytes_delivered: int
    wall_s: float
    peak_memory_bytes: int
    seed: int
    versions: dict[str, str]
    params: dict[str, Any]
    ranks: pd.DataFrame
    links: pd.DataFrame | None = field(default=None)
    repeated_packet_hops: int = 0

    @property
    def complete(self) -> bool:
        """Whether every rank finished."""
        return self.status == "complete"

    def summary(self) -> dict[str, Any]:
        """Everything but the tables, ready for JSON."""
        names = (
            "engine", "status", "message", "simulated_time_ps", "packets", "packet_hops", "messages",
            "bytes_delivered", "wall_s", "peak_memory_bytes", "seed", "versions", "params",
            "repeated_packet_hops",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write result.json, ranks.parquet and, if there are any, links.parquet into `directory`.

        Each file appears whole or not at all, and result.json last: a directory that has it is complete.
        """
        target = Path(directory)
        target.mkdir(parents=True, exist_ok=True)
        _write(target / RANKS_FILE, lambda path: self.ranks.to_parquet(path, index=False))
        if self.links is not None:
            links = self.links
            _write(target / LINKS_FILE, lambda path: links.to_parquet(path, index=False))
        else:
            (target / LINKS_FILE).unlink(missing_ok=True)
        text = json.dumps(self.summary(), indent=2, sort_keys=True) + "\n"
        _write(target / RESULT_FILE, lambda path: path.write_text(text))

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> RunResult:
        """Read what `save` wrote; ConfigError if `directory` holds no whole result."""
        source = Path(directory)
        try:
            summary = json.loads((source / RESULT_FILE).read_text())
            ranks = pd.read_parquet(source / RANKS_FILE)
            links = pd.read_parquet(source / LINKS_FILE) if (source / LINKS_FILE).exists() else None
            return cls(**summary, ranks=ranks, links=links)
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"run directory {source} holds no result that can be read: {error}.") from error


def _write(path: Path, write: Any) -> None:
    """Write through a temporary name in the same directory, so that a reader never sees half a file.

    The content is on the disk before the name is: else a machine that stops may leave an empty file.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    partial = Path(name)
    try:
        write(partial)
        partial.chmod(0o644)
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def rank_table(
    bytes_sent: npt.NDArray[np.int64],
    bytes_received: npt.NDArray[np.int64],
    start_ps: npt.NDArray[np.int64],
    end_ps: npt.NDArray[np.int64],
) -> pd.DataFrame:
    """The `ranks` table of a result, from arrays of one entry per rank."""
    return pd.DataFrame(
        {
            "rank": np.arange(len(bytes_sent), dtype=np.int32),
            "bytes_sent": bytes_sent,
            "bytes_received": bytes_received,
            "start_ps": start_ps,
            "end_ps": end_ps,
        }
    )
