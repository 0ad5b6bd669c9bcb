"""Placing jobs on the boards of a machine: virtual sub-HxMeshes, failed boards, utilisation."""

from allocation.allocate import (
    FAILED,
    FREE,
    Allocation,
    Strategy,
    allocate,
    block,
    complete,
    greedy,
    published_strategy,
)
from allocation.boards import Boards, random_failures, read_failures
from allocation.jobs import draw_jobs
from allocation.shapes import nearest_square
from allocation.submesh import SubMesh
from allocation.traffic import LineTrees

__all__ = [
    "FAILED",
    "FREE",
    "Allocation",
    "Boards",
    "LineTrees",
    "Strategy",
    "SubMesh",
    "allocate",
    "block",
    "complete",
    "draw_jobs",
    "greedy",
    "nearest_square",
    "published_strategy",
    "random_failures",
    "read_failures",
]
