"""`hxmesh topology`: the networks, what they can do and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from topologies.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from topologies import Topology
    from topologies.catalog import Cluster, Variant

app = typer.Typer(help="Networks: sizes, distances, bounds and cost.", no_args_is_help=True)

ClusterOption = Annotated[
    str, typer.Option(help="small, large or moe: about 1,024, 16,384 or 1,536 accelerators.")
]


@app.command("list", epilog="Example: `hxmesh topology list --cluster large`")
def list_topologies(cluster: ClusterOption = "small") -> None:
    """List the networks of the paper's Table 2, and the families that own ones are made of."""
    from topologies import catalog
    from topologies.cost import bill_of_materials
    from topologies.metrics import diameter_hops
    from workflow.cli.display import console, table
    from workflow.schema import TOPOLOGY_TYPES

    numbers = ("accelerators", "diameter", "cost, M$")
    shown = table("name", "variant", "network", *numbers, right=numbers)
    for name in catalog.NAMES:
        differs = catalog.differs(name, cast("Cluster", cluster))
        for variant in catalog.VARIANTS if differs else ("both",):
            kind = "as-simulated" if variant == "both" else variant
            topology = catalog.table2(name, cast("Cluster", cluster), cast("Variant", kind))
            # The simulated networks are priced as the machines they stand for.
            cost = f"{bill_of_materials(topology).cost_musd:.3f}" if variant != "as-simulated" else "-"
            hops = diameter_hops(topology)
            shown.add_row(name, variant, topology.name, str(topology.num_endpoints), str(hops), cost)
    out = console()
    out.print(shown)
    families = table("family", "meaning")
    for family, model in TOPOLOGY_TYPES.items():
        families.add_row(family, " ".join((model.__doc__ or "").split()))
    out.print("")
    out.print(families)


@app.command(
    epilog="Examples: `hxmesh topology show hx2mesh --cluster large`, "
    "`hxmesh topology show hxmesh --a 2 --b 2 --x 16 --y 16 --graphml hx2.graphml`"
)
def show(
    name: Annotated[str, typer.Argument(help="Name in Table 2, or a family with the options of its shape.")],
    cluster: ClusterOption = "small",
    variant: Annotated[
        str, typer.Option(help="as-simulated or as-costed, for the networks of Table 2.")
    ] = "as-simulated",
    single_plane: Annotated[
        bool, typer.Option(help="One plane of a network described with several merged.")
    ] = False,
    a: Annotated[int | None, typer.Option(help="hxmesh: accelerators of a board along a row.")] = None,
    b: Annotated[int | None, typer.Option(help="hxmesh: accelerators of a board along a column.")] = None,
    x: Annotated[int | None, typer.Option(help="hxmesh: boards along a row.")] = None,
    y: Annotated[int | None, typer.Option(help="hxmesh: boards along a column.")] = None,
    columns: Annotated[
        int | None, typer.Option(help="hxmesh, torus, hyperx: accelerators along a row.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="hxmesh, torus, hyperx: accelerators along a column.")
    ] = None,
    radix: Annotated[int | None, typer.Option(help="hxmesh, clos: ports of a switch.")] = None,
    hosts: Annotated[int | None, typer.Option(help="dragonfly: accelerators of a router.")] = None,
    routers: Annotated[int | None, typer.Option(help="dragonfly: routers of a group.")] = None,
    groups: Annotated[int | None, typer.Option(help="dragonfly: groups.")] = None,
    links: Annotated[int | None, typer.Option(help="dragonfly: links between two groups.")] = None,
    global_ports: Annotated[int | None, typer.Option(help="dragonfly: global ports of a router.")] = None,
    shape: Annotated[
        str | None, typer.Option(help="fattree: ports down and up of each level, e.g. 32,16:32.")
    ] = None,
    endpoints: Annotated[int | None, typer.Option(help="clos: accelerators.")] = None,
    leaf_down: Annotated[int | None, typer.Option(help="clos: ports of a leaf to accelerators.")] = None,
    leaf_up: Annotated[int | None, typer.Option(help="clos: ports of a leaf upwards.")] = None,
    levels: Annotated[int | None, typer.Option(help="clos: levels of switches.")] = None,
    graphml: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the network as GraphML.")
    ] = None,
) -> None:
    """Show a network: size, links, distances, bounds and cost."""
    options = {
        "a": a, "b": b, "x": x, "y": y, "columns": columns, "rows": rows, "radix": radix, "hosts": hosts,
        "routers": routers, "groups": groups, "links": links, "global_ports": global_ports, "shape": shape,
        "endpoints": endpoints, "leaf_down": leaf_down, "leaf_up": leaf_up, "levels": levels,
    }  # fmt: skip
    given = {key: value for key, value in options.items() if value is not None}
    topology = _find(name, given, cluster, variant)
    if single_plane:
        topology = topology.single_plane()
    _print(topology)
    if graphml is not None:
        from topologies.export import write_graphml

        try:
            write_graphml(topology, graphml)
        except OSError as error:
            raise ConfigError(f"--graphml {str(graphml)!r} cannot be written: {error.strerror}.") from None
        print(f"\nwritten: {graphml}")


@app.command(
    epilog="Examples: `hxmesh topology cost`, `hxmesh topology cost hx2mesh hx4mesh --cluster large`"
)
def cost(
    names: Annotated[list[str] | None, typer.Argument(help="Networks of Table 2 (default: all).")] = None,
    cluster: ClusterOption = "small",
) -> None:
    """Count switches and cables of the networks as the paper prices them."""
    from topologies import catalog
    from topologies.cost import PriceList, bill_of_materials
    from workflow.cli.display import console, table

    numbers = ("accelerators", "planes", "switches", "DAC", "AoC", "cost, M$", "$ per accelerator")
    shown = table("name", "network", *numbers, right=numbers)
    for name in names or catalog.TABLE2_NAMES:
        topology = catalog.table2(name, cast("Cluster", cluster), "as-costed")
        bill = bill_of_materials(topology)
        shown.add_row(
            name,
            topology.name,
            str(topology.num_endpoints),
            str(bill.planes),
            str(bill.switches_per_plane),
            str(bill.dac_per_plane),
            str(bill.aoc_per_plane),
            f"{bill.cost_musd:.3f}",
            f"{bill.cost_usd / topology.num_endpoints:,.0f}",
        )
    out = console()
    out.print(shown)
    prices = PriceList()
    out.print(
        f"\nSwitches and cables are those of one plane; a 64-port switch is {prices.switch_usd:,.0f} $, an "
        f"active optical cable {prices.aoc_usd:,.0f} $, a copper cable {prices.dac_usd:,.0f} $."
    )


def _find(name: str, given: dict[str, Any], cluster: str, variant: str) -> Topology:
    from pydantic import ValidationError

    from topologies import catalog
    from workflow.schema import TOPOLOGY_TYPES, explain

    if not given and name in catalog.NAMES:
        return catalog.table2(name, cast("Cluster", cluster), cast("Variant", variant))
    if name not in TOPOLOGY_TYPES:
        if name in catalog.NAMES:
            option = next(iter(given)).replace("_", "-")
            raise ConfigError(
                f"--{option} goes with one of the families {', '.join(TOPOLOGY_TYPES)}, not with {name}."
            )
        raise unknown_name("topology", name, {*catalog.NAMES, *TOPOLOGY_TYPES})
    try:
        return TOPOLOGY_TYPES[name].model_validate({"type": name, **given}).build()
    except ValidationError as error:
        raise ConfigError(f"topology {name}: {explain(error)}") from None


def _print(topology: Topology) -> None:
    import numpy as np

    from topologies import UNCONNECTED, LinkKind, bounds, metrics
    from topologies.cost import bill_of_materials
    from workflow.cli.display import console, table
    from workflow.units import format_rate

    out = console()
    shown = table("", "")
    shown.show_header = False
    shown.add_row("network", topology.name)
    shown.add_row("accelerators", f"{topology.num_endpoints:,}")
    if topology.grid:
        shown.add_row("grid", f"{topology.grid[1]} columns, {topology.grid[0]} rows")
    switches = topology.num_routers - (topology.num_endpoints if topology.accelerator_is_router else 0)
    shown.add_row("switches", f"{switches:,}")
    shown.add_row(
        "planes", f"{topology.planes}, each with {format_rate(topology.injection_bps)} per accelerator"
    )
    kinds = topology.port_kind[topology.port_kind != UNCONNECTED]
    for kind in np.unique(kinds):
        link = LinkKind(int(kind))
        ends = 1 if link is LinkKind.HOST else 2
        number = int(np.count_nonzero(kinds == kind)) // ends
        rate = format_rate(topology.bandwidth_bps[link])
        shown.add_row(f"{link.name.lower()} links", f"{number:,} of {rate} ({topology.cable[link].value})")
    shown.add_row("diameter", f"{metrics.diameter_hops(topology)} hops")
    shown.add_row("average distance", f"{metrics.average_distance_hops(topology, max_sources=256):.3f} hops")
    if topology.structural_cuts():
        shown.add_row("relative cut width", f"{metrics.relative_cut_width(topology):.4f}")
    for what, bound in (
        ("alltoall", bounds.alltoall_bound(topology)),
        ("allreduce", bounds.allreduce_bound(topology)),
    ):
        of = "injection" if what == "alltoall" else "injection / 2"
        shown.add_row(f"{what} bound", f"{bound.percent:.2f} % of {of}, by {bound.binding}")
    bill = bill_of_materials(topology)
    shown.add_row(
        "cost",
        f"{bill.cost_musd:.3f} M$: {bill.planes} planes of {bill.switches_per_plane} switches, "
        f"{bill.dac_per_plane} DAC, {bill.aoc_per_plane} AoC",
    )
    out.print(shown)
