"""Deep-learning training iterations: workloads as data, and the schedules that they make on a network.

`tables/` holds the workloads of the HammingMesh article as YAML, in the form that `workflow.workload` reads.
"""

from pathlib import Path

from motifs.dnn.collectives import ALGORITHMS
from motifs.dnn.iteration import PARAMETERS, Iteration, build_iteration, compute_ps
from motifs.dnn.placement import LAYOUTS, Placement, place
from motifs.dnn.program import Interval, computation_ps
from motifs.dnn.workload import AXES, Model, Step, Volumes, Workload, volumes

TABLES_DIR = Path(__file__).parent / "tables"
"""The shipped workloads."""

__all__ = [
    "ALGORITHMS",
    "AXES",
    "LAYOUTS",
    "PARAMETERS",
    "TABLES_DIR",
    "Interval",
    "Iteration",
    "Model",
    "Placement",
    "Step",
    "Volumes",
    "Workload",
    "build_iteration",
    "computation_ps",
    "compute_ps",
    "place",
    "volumes",
]
