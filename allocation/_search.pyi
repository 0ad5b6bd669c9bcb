from collections.abc import Sequence

class FreeBoards:
    """The free boards of a grid (allocation/src/free_boards.hpp). Places are (columns, rows), rising."""

    def __init__(self, columns: int, rows: int) -> None: ...
    def free_count(self) -> int: ...
    def take(self, columns: Sequence[int], rows: Sequence[int]) -> None:
        """Boards at the crossings are free no more; ValueError, and none taken, where one is not free."""
    def find(self, columns: int, rows: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """A sub-HxMesh of that many columns and rows, greedily."""
    def find_complete(
        self, columns: int, rows: int, steps: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """A sub-HxMesh wherever there is one; RuntimeError after `steps` sets of rows."""
    def find_block(self, columns: int, rows: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """A contiguous block of a torus; its columns and rows start at its first board."""

def crossing_pairs(places: Sequence[int], boards_per_leaf: int) -> float: ...
def crossing_steps(places: Sequence[int], boards_per_leaf: int) -> float: ...
