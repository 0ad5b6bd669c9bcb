"""Traffic as data: schedules of send, receive and compute operations, and the motifs that make them."""

from motifs.alltoall import alltoall, sample_shifts
from motifs.bucket import bucket, torus_2d
from motifs.goal import format_goal, parse_goal, read_goal, write_goal
from motifs.hamiltonian import edge_disjoint_hamiltonian_cycles, hamiltonian_cycle
from motifs.permutation import permutation, random_partners
from motifs.registry import MOTIFS, Motif, Network, Parameter, build
from motifs.rings import bidirectional_ring, ring, two_rings
from motifs.schedule import (
    ArraySchedule,
    OpKind,
    Schedule,
    ShiftSchedule,
    StreamSchedule,
    block_bytes,
    load_schedule,
)
from motifs.together import together

__all__ = [
    "MOTIFS",
    "ArraySchedule",
    "Motif",
    "Network",
    "OpKind",
    "Parameter",
    "Schedule",
    "ShiftSchedule",
    "StreamSchedule",
    "alltoall",
    "bidirectional_ring",
    "block_bytes",
    "bucket",
    "build",
    "edge_disjoint_hamiltonian_cycles",
    "format_goal",
    "hamiltonian_cycle",
    "load_schedule",
    "parse_goal",
    "permutation",
    "random_partners",
    "read_goal",
    "ring",
    "sample_shifts",
    "together",
    "torus_2d",
    "two_rings",
    "write_goal",
]
