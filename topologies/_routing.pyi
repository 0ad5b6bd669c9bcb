from collections.abc import Mapping, Sequence

class Routing:
    """The C++ routing function that a RoutingSpec names (topologies/include/hxmesh)."""

    def __init__(
        self, family: str, params: Mapping[str, int], tables: Mapping[str, Sequence[int]]
    ) -> None: ...
    @property
    def num_vcs(self) -> int:
        """Virtual channels per virtual network."""
    def candidates(
        self, router: int, in_port: int, in_vc: int, src: int, dst: int, state: int = 0
    ) -> list[tuple[int, int, int]]:
        """(port, virtual channel, state) that a packet may take, in order of preference on ties.

        The state is what a routing that carries something in packets noted; it counts from the second router
        on, and is 0 for the others. Ways that only chance or full queues lead to are among them.
        """
