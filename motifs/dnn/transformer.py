"""A transformer by its dimensions: parameters, volumes and the steps of one iteration.

Tensor parallelism as in Megatron-LM (Shoeybi et al., arXiv 1909.08053): the two halves of a layer, attention
and feed-forward network, each end with an allreduce of the activations over O, forward and backward. Experts
(as in GShard, arXiv 2006.16668) are spread over the axis `expert_axis`; each feed-forward network then starts
and ends with an alltoall of the tokens over it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from motifs.dnn.workload import AXES, Model, Pipeline, Step, Workload, volumes
from topologies.errors import ConfigError, require

__all__ = ["Transformer"]

BACKWARD_OVER_FORWARD = 2
"""Operations of a backward pass over those of a forward pass: gradients of inputs and of weights."""


@dataclass(frozen=True)
class Transformer:
    """Dimensions of a transformer and of its training.

    layers, hidden, ffn, vocabulary: as usual. kv_hidden: width of keys and of values (smaller than hidden for
    grouped queries). ffn_matrices: 3 for gated networks (SwiGLU), 2 for plain ones. sequence: tokens of an
    example. batch: examples of an iteration. microbatch: examples of a pass of a replica. element_bytes:
    bytes of an activation, a parameter and a gradient. experts: of each layer, 0 = none; experts_per_token:
    how many a token visits. expert_axis: "D" or "O". flops: operations a second an accelerator is rated at;
    efficiency: the share of them that training reaches.
    """

    layers: int
    hidden: int
    ffn: int
    vocabulary: int
    kv_hidden: int
    ffn_matrices: int
    sequence: int
    batch: int
    microbatch: int
    element_bytes: int
    flops: float
    efficiency: float
    experts: int = 0
    experts_per_token: int = 1
    expert_axis: str = "O"

    @property
    def attention_parameters(self) -> int:
        """Of one layer: queries, keys, values, output."""
        return 2 * self.hidden**2 + 2 * self.hidden * self.kv_hidden

    @property
    def ffn_parameters(self) -> int:
        """Of one feed-forward network, that is of one expert."""
        return self.ffn_matrices * self.hidden * self.ffn

    @property
    def parameters(self) -> int:
        """Of the whole model: layers, router of the experts, input and output embedding."""
        experts = max(1, self.experts)
        router = self.hidden * self.experts
        layer = self.attention_parameters + experts * self.ffn_parameters + router
        return self.layers * layer + 2 * self.vocabulary * self.hidden

    @property
    def tokens(self) -> int:
        """Of one microbatch."""
        return self.microbatch * self.sequence

    def layer_flops(self) -> int:
        """Operations of one forward pass of one layer over a microbatch: two for each parameter and token
        that meet, and causal attention (scores and weighted values over half of the pairs of tokens).
        """
        active = self.attention_parameters + self.experts_per_token * self.ffn_parameters
        return self.tokens * (2 * active + 2 * self.sequence * self.hidden)

    def model(self) -> Model:
        """The sizes behind the article's volumes."""
        return Model(
            element_bytes=self.element_bytes,
            parameters=self.parameters,
            activations=self.sequence * self.hidden,
            examples=self.batch,
            operator_elements=self.tokens * self.hidden,
        )

    def workload(
        self,
        name: str,
        d: int,
        p: int,
        o: int,
        *,
        pipeline: Pipeline = "1f1b",
        order: str = "OPD",
        grid: tuple[int, int] | None = None,
    ) -> Workload:
        """One iteration on d x p x o accelerators.

        A stage sends its activations in shares, one of each accelerator along O. Gradients are combined over
        D after the last pass. Raises ConfigError where layers, batch or experts cannot be divided.
        """
        require(self.layers % p == 0, "layers", self.layers, f"a multiple of P = {p}")
        each = d * self.microbatch
        require(self.batch % each == 0, "batch", self.batch, f"a multiple of D x microbatch = {each}")
        if self.experts:
            if self.expert_axis not in AXES.replace("P", ""):
                raise ConfigError(f"expert_axis is {self.expert_axis!r} but must be D or O.")
            along = d if self.expert_axis == "D" else o
            require(
                self.experts % along == 0,
                "experts",
                self.experts,
                f"a multiple of {self.expert_axis} = {along}",
            )
        replicated = self.parameters
        if self.experts and self.expert_axis == "D":
            # Each replica holds experts of its own, whose gradients nobody shares.
            replicated -= self.layers * self.experts * self.ffn_parameters
        data_bytes = volumes(dataclasses.replace(self.model(), parameters=replicated), d, p, o).data_bytes
        compute_ps = round(self.layer_flops() / o / (self.flops * self.efficiency) * 1e12)
        update = [Step("allreduce", "gradients", over="D", size_bytes=data_bytes)] if d > 1 else []
        return Workload(
            name=name,
            d=d,
            p=p,
            o=o,
            forward=self._layer(compute_ps, o, "forward") * (self.layers // p),
            backward=self._layer(BACKWARD_OVER_FORWARD * compute_ps, o, "backward") * (self.layers // p),
            update=tuple(update),
            pipeline=pipeline,
            microbatches=self.batch // each,
            stage_bytes=-(-self.element_bytes * self.tokens * self.hidden // o),
            order=order,
            grid=grid,
        )

    def _layer(self, compute_ps: int, o: int, label: str) -> tuple[Step, ...]:
        """Steps of one layer: attention, allreduce, feed-forward network between alltoalls, and what combines
        its results.
        """
        active = self.attention_parameters + self.experts_per_token * self.ffn_parameters
        attention = self.attention_parameters + self.sequence * self.hidden
        first = round(compute_ps * attention / (active + self.sequence * self.hidden))
        size = self.element_bytes * self.tokens * self.hidden
        combine = [Step("allreduce", "activations", over="O", size_bytes=size)] if o > 1 else []
        finish, routed = combine, []
        if self.experts:
            tokens_bytes = size * self.experts_per_token
            if self.expert_axis == "O" and o > 1:
                # Each member sends its share of the tokens to the experts, and then gathers all tokens again.
                tokens_bytes //= o
                finish = [Step("allgather", "activations", over="O", size_bytes=size)]
            routed = [Step("alltoall", "tokens", over=self.expert_axis, size_bytes=tokens_bytes)]
        return (
            Step("compute", f"{label}, attention", time_ps=first),
            *combine,
            *routed,
            Step("compute", f"{label}, feed-forward", time_ps=compute_ps - first),
            *routed,
            *finish,
        )
