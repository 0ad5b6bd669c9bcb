"""What one training iteration does on each accelerator: computations and communications, as data.

A workload is parallel along three axes (HammingMesh article, section on workloads): D replicas work on
different data, P pipeline stages hold different layers, O accelerators share the operators of one layer. All
accelerators of a stage run the same lists of steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from topologies.errors import require, require_integer, unknown_name

__all__ = [
    "AXES",
    "COLLECTIVES",
    "Model",
    "Op",
    "Pipeline",
    "Step",
    "Volumes",
    "Workload",
    "volumes",
]

AXES = "DPO"
"""The axes of parallelism: data, pipeline, operator."""

Op = Literal["compute", "allreduce", "reduce-scatter", "allgather", "alltoall", "exchange", "wait"]
"""Kinds of steps."""

COLLECTIVES: tuple[Op, ...] = ("allreduce", "reduce-scatter", "allgather", "alltoall")
"""Steps in which all accelerators of a group take part."""

Pipeline = Literal["single-step", "gpipe", "1f1b"]
"""How the stages go through the microbatches.

single-step: even stages run one forward pass and send to the next stage, while odd stages run one backward
    pass and send to the one before: what a full pipeline does over and over (how the article simulates
    GPT-3). gpipe: all forward passes, then all backward passes.
1f1b: after as many forward passes as there are stages behind, one forward and one backward pass in turn.
"""


@dataclass(frozen=True)
class Step:
    """One entry of a list of steps.

    op: what is done. A step starts when the one before is over.
    label: for pictures.
    time_ps: of a compute.
    over: axes along which the groups of a collective or exchange lie, e.g. "O", or "DPO" for everyone.
    size_bytes: of an allreduce the vector that everyone contributes, of an allgather the gathered vector, of
        a reduce-scatter the vector before it, of an alltoall what each sends to all including itself, of an
        exchange what goes to each partner.
    partners: of an exchange, the numbers that are combined by exclusive or with the own place in the group to
        give a partner's.
    overlapped: the following steps do not wait for this one; a wait step and the end of the iteration do.
    """

    op: Op
    label: str = ""
    time_ps: int = 0
    over: str = ""
    size_bytes: int = 0
    partners: tuple[int, ...] = ()
    overlapped: bool = False

    def __post_init__(self) -> None:
        """Refuse, with ConfigError, what makes no sense of a step of its kind."""
        if self.op not in get_args(Op):
            raise unknown_name("the kind of a step", str(self.op), get_args(Op))
        require_integer(f"time_ps of {self.op}", self.time_ps, 0)
        require_integer(f"size_bytes of {self.op}", self.size_bytes, 0)
        if self.op in (*COLLECTIVES, "exchange"):
            known = self.over and set(self.over) <= set(AXES) and len(set(self.over)) == len(self.over)
            require(bool(known), f"over of {self.op}", repr(self.over), "one or more of D, P and O")
        if self.op == "exchange":
            require(bool(self.partners), "partners of exchange", "empty", "a list of numbers")
            for partner in self.partners:
                require_integer("a partner of exchange", partner, 1)
        if self.op in ("compute", "wait"):
            require(not self.overlapped, f"overlapped of {self.op}", True, "false")


@dataclass(frozen=True)
class Model:
    """The sizes of a model, from which the article's volumes follow.

    element_bytes: bytes of a number (W). parameters: N_P, of the whole model. activations: N_A, elements that
    one example passes from a stage to the next. examples: M, of a minibatch. operator_elements: N_O, of what
    operator parallelism has to combine at a time.
    """

    element_bytes: int
    parameters: int
    activations: int
    examples: int
    operator_elements: int


@dataclass(frozen=True)
class Volumes:
    """Bytes an accelerator contributes along each axis (article, section on workloads)."""

    data_bytes: int
    """V_D = W N_P / (O P), gradients of the parameters it holds"""
    pipeline_bytes: int
    """V_P = M W N_A / (D P O), activations of its share of the minibatch"""
    operator_bytes: int
    """V_O = W N_O"""


def volumes(model: Model, d: int, p: int, o: int) -> Volumes:
    """The article's volumes of `model` on d x p x o accelerators; shares are rounded up to whole elements."""
    return Volumes(
        data_bytes=model.element_bytes * -(-model.parameters // (o * p)),
        pipeline_bytes=model.element_bytes * -(-model.examples * model.activations // (d * p * o)),
        operator_bytes=model.element_bytes * model.operator_elements,
    )


@dataclass(frozen=True)
class Workload:
    """One training iteration on d x p x o accelerators.

    forward, backward: steps of one pass of a stage over one microbatch. update: steps after the last
    microbatch. stage_bytes: what an accelerator sends to its counterpart in the next stage after a forward
    pass, and in the one before after a backward pass. order, grid: how the workload is laid out where nothing
    else is said, see :func:`motifs.dnn.placement.place`.

    Raises ConfigError for values out of range and for a pipeline that the number of stages does not allow.
    """

    name: str
    d: int
    p: int
    o: int
    forward: tuple[Step, ...]
    backward: tuple[Step, ...]
    update: tuple[Step, ...] = ()
    pipeline: Pipeline = "1f1b"
    microbatches: int = 1
    stage_bytes: int = 0
    order: str = "OPD"
    grid: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without a network."""
        for axis in "dpo":
            require_integer(f"parallelism {axis.upper()} of {self.name}", getattr(self, axis), 1)
        require_integer(f"microbatches of {self.name}", self.microbatches, 1)
        require_integer(f"stage_bytes of {self.name}", self.stage_bytes, 0)
        require(
            sorted(self.order) == sorted(AXES),
            f"order of {self.name}",
            repr(self.order),
            "D, P and O once each",
        )
        if self.pipeline not in get_args(Pipeline):
            raise unknown_name(f"pipeline of {self.name}", str(self.pipeline), get_args(Pipeline))
        if self.pipeline == "single-step":
            require(
                self.p % 2 == 0, f"parallelism P of {self.name}", self.p, "even, as pipeline is single-step"
            )
            require(
                self.microbatches == 1,
                f"microbatches of {self.name}",
                self.microbatches,
                "1, as pipeline is single-step",
            )
        require(
            bool(self.forward or self.backward or self.update),
            f"steps of {self.name}",
            "none",
            "at least one",
        )

    @property
    def accelerators(self) -> int:
        """Accelerators that take part."""
        return self.d * self.p * self.o

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON."""
        values = dataclasses.asdict(self)
        for passes in ("forward", "backward", "update"):
            values[passes] = [_plain_step(step) for step in getattr(self, passes)]
        values["grid"] = None if self.grid is None else list(self.grid)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read back what :meth:`as_dict` gave."""
        given = dict(values)
        for passes in ("forward", "backward", "update"):
            given[passes] = tuple(
                Step(**{**step, "partners": tuple(step.get("partners", ()))}) for step in given[passes]
            )
        if given.get("grid") is not None:
            rows, columns = given["grid"]
            given["grid"] = (rows, columns)
        return cls(**given)


def _plain_step(step: Step) -> dict[str, Any]:
    """The fields of a step that differ from their defaults."""
    defaults = {field.name: field.default for field in dataclasses.fields(Step)}
    given = {name: value for name, value in dataclasses.asdict(step).items() if value != defaults[name]}
    if "partners" in given:
        given["partners"] = list(given["partners"])
    return given
