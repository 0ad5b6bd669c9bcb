"""Results directories made by hand: no engine, no simulation."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest


@dataclass
class Results:
    """A results directory under construction."""

    path: Path
    name: str
    kind: str
    rows: list[dict[str, Any]] = field(default_factory=list)

    def run(
        self,
        topology: str = "hx2mesh",
        *,
        role: str,
        motif: dict[str, Any],
        time_ps: int | None = 10**9,
        variant: str = "as-simulated",
        cluster: str = "small",
        accelerators: int = 1024,
        single_plane: bool = False,
        status: str = "complete",
        message: str = "",
        labels: dict[str, Any] | None = None,
        ranks: pd.DataFrame | None = None,
        result: dict[str, Any] | None = None,
    ) -> str:
        """Add a run and its row; ``time_ps`` None leaves the run without a result."""
        run_id = f"run{len(self.rows):03d}"
        label = {"alltoall": "message_bytes", "allreduce": "bytes", "permutation": "message_bytes"}.get(role)
        size = motif.get("total_bytes", motif.get("message_bytes"))
        row: dict[str, Any] = {"run_id": run_id, "topology": topology, "variant": variant}
        row |= {"cluster": cluster, "role": role, "seed": 0}
        if label and size is not None:
            row[label] = size * 4 if single_plane and role == "allreduce" else size
        if role == "allreduce":
            row["algorithm"] = motif["name"]
        self.rows.append(row | (labels or {}))
        directory = self.path / "runs" / run_id
        directory.mkdir(parents=True)
        switched = topology.startswith(("fattree", "dragonfly"))
        spec = {"name": topology, "cluster": cluster, "variant": variant, "num_endpoints": accelerators}
        spec |= {"planes": (16 if single_plane else 4), "single_plane": single_plane}
        spec |= {"injection_bps": 400 * 10**9 if single_plane and switched else 1600 * 10**9}
        experiment = {"run_id": run_id, "schema_version": 1, "engine": "packet", "topology": spec}
        experiment |= {"motif": motif, "network": {}, "seed": row["seed"]}
        (directory / "experiment.json").write_text(json.dumps(experiment))
        if time_ps is None:
            return run_id
        content = {"engine": "packet", "status": status, "message": message, "simulated_time_ps": time_ps}
        content |= {
            "packets": 1000,
            "packet_hops": 5000,
            "messages": 10,
            "bytes_delivered": 0,
            "wall_s": 1.25,
        }
        content |= {"peak_memory_bytes": 1 << 20, "seed": 0, "versions": {"hxmesh": "0.1.0"}, "params": {}}
        (directory / "result.json").write_text(json.dumps(content | (result or {})))
        if ranks is not None:
            ranks.to_parquet(directory / "ranks.parquet", index=False)
        return run_id

    def alltoall(self, topology: str = "hx2mesh", message_bytes: int = 1 << 20, **changes: Any) -> str:
        """Add an alltoall run."""
        motif = {"name": "alltoall", "message_bytes": message_bytes}
        return self.run(topology, role="alltoall", motif=motif, **changes)

    def allreduce(
        self, topology: str = "hx2mesh", algorithm: str = "two-rings", size: int = 2 << 30, **changes: Any
    ) -> str:
        """Add an allreduce run that carries ``size`` bytes in its plane."""
        return self.run(topology, role="allreduce", motif={"name": algorithm, "total_bytes": size}, **changes)

    def finish(self) -> Path:
        """Write study.json and return the directory."""
        study = {"name": self.name, "kind": self.kind, "description": "made by hand", "rows": self.rows}
        (self.path / "study.json").write_text(json.dumps(study))
        return self.path


MakeResults = Callable[[str, str], Results]


@pytest.fixture
def make_results(tmp_path: Path) -> MakeResults:
    """Maker of an empty results directory of a name and a kind."""

    def make(name: str, kind: str) -> Results:
        path = tmp_path / name
        path.mkdir()
        return Results(path, name, kind)

    return make
