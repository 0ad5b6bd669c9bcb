"""The YAML of a deep-learning workload: read, checked, and turned into a `motifs.dnn.Workload`.

The shipped workloads (`motifs/dnn/tables/`) and a user's own have the same form: either lists of steps, or
the dimensions of a transformer. docs/dnn.md explains it by examples.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema, model_validator

from motifs.dnn import TABLES_DIR, Model, Step, Volumes, Workload, volumes
from motifs.dnn.transformer import Transformer
from motifs.dnn.workload import COLLECTIVES, Op, Pipeline
from topologies.errors import ConfigError, unknown_name
from workflow.schema import Bytes, Count, Section, explain
from workflow.units import parse_time_ps

__all__ = ["WorkloadFile", "find_workload", "json_schema", "load_workload", "read_workload"]

Axis = Literal["D", "P", "O"]
Order = Literal["DPO", "DOP", "PDO", "POD", "ODP", "OPD"]
VolumeName = Literal["V_D", "V_P", "V_O"]
_VOLUMES: dict[VolumeName, str] = {
    "V_D": "data_bytes",
    "V_P": "pipeline_bytes",
    "V_O": "operator_bytes",
}


def _axes(value: Any) -> Any:
    """A string of axes as a list of them."""
    return list(value) if isinstance(value, str) else value


class SizeSection(Section):
    """A size, given in one of three ways."""

    size: Bytes | None = Field(None, description="bytes")
    elements: Count | None = Field(None, description="numbers of element size each")
    volume: VolumeName | None = Field(None, description="one of the article's volumes, from the model")

    @model_validator(mode="after")
    def _one_of_them(self) -> SizeSection:
        given = [name for name in SizeSection.model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"has {' and '.join(given) or 'no size'} but must have one of size, elements, volume"
            )
        return self


class CollectiveSection(SizeSection):
    """A collective operation of all groups along some axes."""

    over: Annotated[
        list[Axis],
        BeforeValidator(_axes),
        WithJsonSchema({"type": "string", "pattern": "^[DPO]{1,3}$", "examples": ["O"]}),
    ] = Field(min_length=1, description="axes along which a group lies")


class ExchangeSection(CollectiveSection):
    """Messages between partners of a group, both ways."""

    partners: list[Count] = Field(
        min_length=1,
        description="numbers that, by exclusive or with the own place in the group, give a partner's",
    )


def _time_by_replicas(value: Any) -> Any:
    """A time, or times by the number of replicas, in picoseconds."""
    try:
        if isinstance(value, Mapping):
            return {int(replicas): parse_time_ps(time, "") for replicas, time in value.items()}
        return parse_time_ps(value, "")
    except ConfigError as error:
        raise ValueError(str(error).removeprefix(": ")) from None


_TimeByReplicas = Annotated[
    dict[int, int] | int,
    BeforeValidator(_time_by_replicas),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}]}
    ),
]


class StepSection(Section):
    """A step: one of compute, a collective, exchange, wait, or a list of steps that is repeated."""

    compute: _TimeByReplicas | None = Field(
        None, description="time of a computation; or a time for each number of replicas D it is known for"
    )
    allreduce: CollectiveSection | None = Field(None, description="combine vectors of everyone")
    reduce_scatter: CollectiveSection | None = Field(None, description="combine vectors, a block for each")
    allgather: CollectiveSection | None = Field(None, description="collect the blocks of everyone")
    alltoall: CollectiveSection | None = Field(None, description="a block from everyone to everyone")
    exchange: ExchangeSection | None = Field(None, description="halos between partners")
    wait: bool | None = Field(None, description="true: wait for all that is overlapped")
    steps: list[StepSection] = Field([], description="steps to repeat")
    repeat: Count = Field(1, description="how often steps are repeated")
    overlapped: bool = Field(False, description="following steps do not wait for this one")
    label: str = Field("", description="name in pictures")

    @model_validator(mode="after")
    def _one_kind(self) -> StepSection:
        given = [name for name in _KINDS if getattr(self, name) not in (None, [], False)]
        if len(given) != 1:
            raise ValueError(f"has {' and '.join(given) or 'none'} but must have one of {', '.join(_KINDS)}")
        if self.overlapped and given[0] in ("compute", "wait", "steps"):
            raise ValueError(f"has overlapped, which a step of kind {given[0]} cannot be")
        if self.repeat != 1 and not self.steps:
            raise ValueError("has repeat but no steps to repeat")
        return self


_KINDS = ("compute", *(name.replace("-", "_") for name in COLLECTIVES), "exchange", "wait", "steps")


class ParallelismSection(Section):
    """How many ways the work is divided along each axis."""

    D: Count = Field(1, description="replicas that work on different data")
    P: Count = Field(1, description="pipeline stages")
    O: Count = Field(1, description="accelerators that share each operator")  # noqa: E741


class ModelSection(Section):
    """The sizes behind the article's volumes V_D, V_P and V_O."""

    parameters: Count = Field(description="N_P, of the whole model")
    activations: Count = Field(description="N_A, elements that one example passes from a stage to the next")
    examples: Count = Field(description="M, of a minibatch")
    operator_elements: Count = Field(
        1, description="N_O, elements that operator parallelism combines at a time"
    )


class TransformerSection(Section):
    """A transformer by its dimensions, in place of lists of steps."""

    layers: Count = Field(description="layers")
    hidden: Count = Field(description="width of the activations")
    ffn: Count = Field(description="width of the feed-forward network, of one expert where there are experts")
    ffn_matrices: Literal[2, 3] = Field(3, description="3 for gated feed-forward networks, 2 for plain ones")
    heads: Count = Field(description="attention heads")
    kv_heads: Count | None = Field(None, description="heads of keys and values, if fewer (grouped queries)")
    vocabulary: Count = Field(description="tokens of the vocabulary")
    sequence: Count = Field(description="tokens of an example")
    batch: Count = Field(description="examples of an iteration, over all replicas")
    microbatch: Count = Field(1, description="examples of one pass of a replica")
    experts: Annotated[int, Field(ge=0, strict=True)] = Field(0, description="experts of a layer, 0 = none")
    experts_per_token: Count = Field(1, description="experts that a token visits")
    expert_axis: Literal["D", "O"] = Field("D", description="axis along which the experts are spread")
    teraflops: float = Field(gt=0, description="10^12 operations a second that an accelerator is rated at")
    efficiency: float = Field(0.5, gt=0, le=1, description="share of them that training reaches")

    @model_validator(mode="after")
    def _heads_fit(self) -> TransformerSection:
        if self.hidden % self.heads:
            raise ValueError(f"has hidden {self.hidden}, which must be a multiple of heads, {self.heads}")
        return self

    def resolve(self, element_bytes: int) -> Transformer:
        """The dimensions in the form that makes steps."""
        same = ("layers", "hidden", "ffn", "ffn_matrices", "vocabulary", "sequence", "batch", "microbatch")
        experts = ("experts", "experts_per_token", "expert_axis", "efficiency")
        return Transformer(
            **{name: getattr(self, name) for name in (*same, *experts)},
            kv_hidden=self.hidden // self.heads * (self.kv_heads or self.heads),
            element_bytes=element_bytes,
            flops=self.teraflops * 1e12,
        )


class WorkloadFile(Section):
    """One training iteration of a model."""

    name: str = Field(description="how tables call it")
    description: str = Field("", description="one sentence")
    parallelism: ParallelismSection = Field(
        ParallelismSection(), description="divisions along data, pipeline stages and operators"
    )
    element: Bytes = Field(4, description="size of a number (W)")
    pipeline: Pipeline = Field("1f1b", description="how stages go through the microbatches")
    microbatches: Count = Field(1, description="microbatches of an iteration (not with transformer)")
    order: Order = Field("OPD", description="axes from the fastest to the slowest in the numbering of ranks")
    grid: tuple[Count, Count] | None = Field(None, description="rows and columns on networks that are a grid")
    model: ModelSection | None = Field(None, description="sizes for volumes")
    transformer: TransformerSection | None = Field(None, description="in place of the lists of steps")
    stage: SizeSection | None = Field(None, description="what a stage sends to its neighbour after a pass")
    forward: list[StepSection] = Field([], description="steps of a forward pass of one microbatch")
    backward: list[StepSection] = Field([], description="steps of a backward pass of one microbatch")
    update: list[StepSection] = Field([], description="steps after the last pass")

    @model_validator(mode="after")
    def _either_form(self) -> WorkloadFile:
        if self.transformer is None:
            return self
        for name in ("forward", "backward", "update", "model", "stage"):
            if getattr(self, name):
                raise ValueError(f"has both transformer and {name} but must have only one of them")
        if self.microbatches != 1:
            raise ValueError("has microbatches, which follow from batch and microbatch of transformer")
        return self

    @cached_property
    def volumes(self) -> Volumes | None:
        """V_D, V_P and V_O, if the model's sizes are given."""
        sizes: Model | None = None
        if self.transformer is not None:
            sizes = self.transformer.resolve(self.element).model()
        elif self.model is not None:
            sizes = Model(element_bytes=self.element, **self.model.model_dump())
        split = self.parallelism
        return None if sizes is None else volumes(sizes, split.D, split.P, split.O)

    def resolve(self) -> Workload:
        """The workload in SI integers; raises ConfigError where its parts do not go together."""
        split = self.parallelism
        if self.transformer is not None:
            return self.transformer.resolve(self.element).workload(
                self.name, split.D, split.P, split.O, pipeline=self.pipeline, order=self.order, grid=self.grid
            )
        return Workload(
            name=self.name,
            d=split.D,
            p=split.P,
            o=split.O,
            forward=self._steps(self.forward),
            backward=self._steps(self.backward),
            update=self._steps(self.update),
            pipeline=self.pipeline,
            microbatches=self.microbatches,
            stage_bytes=0 if self.stage is None else self._bytes(self.stage),
            order=self.order,
            grid=self.grid,
        )

    def _bytes(self, size: SizeSection) -> int:
        if size.size is not None:
            return size.size
        if size.elements is not None:
            return size.elements * self.element
        assert size.volume is not None
        if self.volumes is None:
            raise ConfigError(f"volume is {size.volume} but the workload has no model to compute it from.")
        found: int = getattr(self.volumes, _VOLUMES[size.volume])
        return found

    def _steps(self, sections: list[StepSection]) -> tuple[Step, ...]:
        return tuple(step for section in sections for step in self._resolve_step(section))

    def _resolve_step(self, section: StepSection) -> tuple[Step, ...]:
        if section.steps:
            return self._steps(section.steps) * section.repeat
        if section.compute is not None:
            return (Step("compute", section.label, time_ps=self._time_ps(section.compute)),)
        if section.wait:
            return (Step("wait", section.label),)
        kinds: tuple[Op, ...] = (*COLLECTIVES, "exchange")
        kind = next(name for name in kinds if getattr(section, name.replace("-", "_")) is not None)
        found: CollectiveSection = getattr(section, kind.replace("-", "_"))
        return (
            Step(
                kind,
                section.label,
                over="".join(found.over),
                size_bytes=self._bytes(found),
                partners=tuple(found.partners) if isinstance(found, ExchangeSection) else (),
                overlapped=section.overlapped,
            ),
        )

    def _time_ps(self, time: dict[int, int] | int) -> int:
        if isinstance(time, int):
            return time
        if self.parallelism.D not in time:
            known = ", ".join(str(replicas) for replicas in sorted(time))
            raise ConfigError(
                f"parallelism.D is {self.parallelism.D} but must be {known}, for which times are known."
            )
        return time[self.parallelism.D]


def find_workload(workload: str, directory: Path) -> Path:
    """Path of a workload: a shipped one by its name, or a file relative to `directory`.

    Raises ConfigError where there is neither, with the nearest shipped name.
    """
    shipped = {path.stem: path for path in sorted(TABLES_DIR.glob("*.yaml"))}
    if workload in shipped:
        return shipped[workload]
    path = (directory / workload).resolve()
    if path.is_file():
        return path
    if path.suffix in (".yaml", ".yml") or os.sep in workload:
        raise ConfigError(f"workload {str(path)!r} does not exist.")
    raise unknown_name("workload", workload, shipped)


def read_workload(path: Path, parallelism: Mapping[str, int] | None = None) -> WorkloadFile:
    """Read and check a workload; `parallelism` replaces the divisions along the axes that it names.

    Raises ConfigError, one sentence, for a file that cannot be read or is wrong.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"workload {path} cannot be read: {' '.join(str(error).split())}.") from None
    try:
        found = WorkloadFile.model_validate(content)
        if parallelism:
            split = found.parallelism.model_copy(update=dict(parallelism))
            found = found.model_copy(update={"parallelism": split})
        return found
    except ValidationError as error:
        raise ConfigError(f"workload {path}: {explain(error)}") from None
    except ConfigError as error:
        raise ConfigError(f"workload {path}: {error}") from None


def load_workload(
    workload: str, directory: Path = Path(), parallelism: Mapping[str, int] | None = None
) -> Workload:
    """The workload of a name or file, see :func:`find_workload` and :func:`read_workload`."""
    path = find_workload(workload, directory)
    read = read_workload(path, parallelism)
    try:
        return read.resolve()
    except ConfigError as error:
        raise ConfigError(f"workload {path}: {error}") from None


def json_schema() -> str:
    """The JSON Schema of a workload file."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | WorkloadFile.model_json_schema()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
