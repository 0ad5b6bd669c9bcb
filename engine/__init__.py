"""The embedded packet engine: runs a schedule on a topology and returns what came out.

`run(topology, schedule, params) -> RunResult` is deterministic: the same arguments give the same result.
"""

from engine.params import NetworkParams
from engine.result import Progress, RunResult
from engine.run import run

__all__ = ["NetworkParams", "Progress", "RunResult", "run"]
