from collections.abc import Mapping, Sequence

class Routing:
    """The C++ routing function that a RoutingSpec names (topologies/include/hxmesh)."""

    def __init__(
        self, family: str, params: Mapping[str, int], tables: Mapping[str, Sequence[int]]
    ) -> None: ...
    @property
    def num_vcs(self) -> int:
        """Virtual channels per virtual network."""
    def candidates(self, router: int, in_port: int, in_vc: int, src: int, dst: int) -> list[tuple[int, int]]:
        """(port, virtual channel) pairs a packet may take, in order of preference on ties."""
