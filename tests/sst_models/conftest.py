"""A module `sst` that records the component graph which a config.py describes; the library for SST itself."""

from __future__ import annotations

import runpy
import shutil
import sys
import types
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sst_models import parameters


class Part:
    """A component or subcomponent."""

    def __init__(self, graph: Graph, name: str, element: str, parent: Part | None = None) -> None:
        self.graph, self.name, self.element, self.parent = graph, name, element, parent
        self.parameters: dict[str, Any] = {}
        self.slots: dict[str, Part] = {}
        self.partition: tuple[int, int] | None = None
        graph.parts.append(self)

    def addParam(self, name: str, value: Any) -> None:  # noqa: N802 names of SST
        self.parameters[name] = value

    def addParams(self, values: dict[str, Any]) -> None:  # noqa: N802
        self.parameters |= values

    def setSubComponent(self, slot: str, element: str) -> Part:  # noqa: N802
        assert slot not in self.slots, f"{self.name}: slot {slot} is filled twice"
        self.slots[slot] = Part(self.graph, f"{self.name}:{slot}", element, self)
        return self.slots[slot]

    def setRank(self, rank: int, thread: int = 0) -> None:  # noqa: N802
        self.partition = (rank, thread)

    @property
    def component(self) -> Part:
        return self if self.parent is None else self.parent.component


class Link:
    """A link; both its ends are set by `connect`."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = graph, name
        self.ends: list[tuple[Part, str, str]] = []
        graph.links.append(self)

    def connect(self, *ends: tuple[Part, str, str]) -> None:
        assert not self.ends, f"link {self.name} is connected twice"
        assert len(ends) == 2
        self.ends = list(ends)


class Graph:
    """What one config.py described."""

    def __init__(self, ranks: int = 1, threads: int = 1) -> None:
        self.ranks, self.threads = ranks, threads
        self.parts: list[Part] = []
        self.links: list[Link] = []
        self.statistics: dict[str, list[str]] = defaultdict(list)
        self.options: dict[str, str] = {}

    def module(self) -> types.ModuleType:
        sst: Any = types.ModuleType("sst")
        sst.Component = lambda name, element: Part(self, name, element)
        sst.Link = lambda name: Link(self, name)
        sst.getMPIRankCount = lambda: self.ranks
        sst.getThreadCount = lambda: self.threads
        sst.setProgramOption = lambda name, value: self.options.update({name: value})
        sst.setStatisticLoadLevel = lambda level: None
        sst.setStatisticOutput = lambda kind, options: None
        sst.enableStatisticForComponentType = lambda element, name, options: self.statistics[element].append(
            name
        )
        return sst  # type: ignore[no-any-return]

    # -- what every graph must keep ------------------------------------------------------------------------

    def routers(self) -> dict[int, Part]:
        found = [part for part in self.parts if part.element == "merlin.hr_router"]
        by_id = {part.parameters["id"]: part for part in found}
        assert sorted(by_id) == list(range(len(found))), "ids of routers are not 0 to R - 1"
        return by_id

    def cables(self) -> set[tuple[int, int, int, int]]:
        """(router, port, other router, its port) of every link between routers, both ways round."""
        found = set()
        for link in self.links:
            (one, port, _), (other, other_port, _) = link.ends
            if one.element == other.element == "merlin.hr_router":
                ends = [
                    (part.parameters["id"], int(name.removeprefix("port")))
                    for part, name in ((one, port), (other, other_port))
                ]
                found |= {(*ends[0], *ends[1]), (*ends[1], *ends[0])}
        return found

    def check(self, version: str) -> None:
        names = [part.name for part in self.parts]
        assert len(set(names)) == len(names), "two components have one name"
        links = [link.name for link in self.links]
        assert len(set(links)) == len(links), "two links have one name"
        used = set()
        for link in self.links:
            assert len(link.ends) == 2, f"link {link.name} is not connected"
            for part, port, latency in link.ends:
                assert (id(part), port) not in used, f"{part.name} has two links at {port}"
                used.add((id(part), port))
                assert latency.endswith(("ns", "ps"))
                if part.element == "merlin.hr_router":
                    assert int(port.removeprefix("port")) < part.parameters["num_ports"]
        for part in self.parts:
            parameters.check(version, part.element, part.parameters)
            for slot in part.slots:
                assert slot in ("topology", "networkIF", "rtrLink", "OS", "virtNic", "proto", "process")
        for element, statistics in self.statistics.items():
            assert any(part.element == element for part in self.parts)
            parameters.check_statistics(version, element, statistics)
        self._check_reachable()

    def _check_reachable(self) -> None:
        neighbours = defaultdict(set)
        for router, _, other, _ in self.cables():
            neighbours[router].add(other)
        routers = self.routers()
        seen, waiting = {0}, [0]
        while waiting:
            for other in neighbours[waiting.pop()] - seen:
                seen.add(other)
                waiting.append(other)
        assert len(seen) == len(routers), "not every router can be reached"


def run_recorded(config: Path, *, ranks: int = 1, threads: int = 1) -> Graph:
    """Run a config.py against a recording module and return what it built."""
    graph = Graph(ranks, threads)
    before = sys.modules.get("sst")
    sys.modules["sst"] = graph.module()
    try:
        runpy.run_path(str(config), run_name="__main__")
    finally:
        if before is None:
            del sys.modules["sst"]
        else:
            sys.modules["sst"] = before
    return graph


@pytest.fixture
def execute() -> Callable[..., Graph]:
    return run_recorded


@pytest.fixture(scope="session")
def sst_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the element library for the SST on the PATH; built for the session if not current."""
    if shutil.which("sst") is None:
        pytest.skip("no program sst on the PATH")
    from sst_models import build, locate

    installation = locate.find()
    installation.require("merlin")
    usual = build.library_dir(installation)
    if build.is_current(installation, usual):
        return usual
    return build.build(installation, tmp_path_factory.mktemp("library"))
