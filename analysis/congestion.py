"""Why an alltoall gets slower once buffers are full: the table and the figure of docs/congestion.md.

    snakemake --configfile workflow/config/congestion.yaml
    python -m analysis.congestion results/congestion

The role of a run in the study says which question it answers (``ROLES``).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import networks, published
from analysis.collect import COMPLETE, collect, load_ranks, run_dir
from analysis.figures import colour, save_picture, styled
from analysis.measures import LINK_BPS, PS_PER_S
from analysis.render import Column, Picture, csv_text, markdown_text, table, write
from analysis.render import Report as Page
from topologies import HxMesh, Topology, Torus2D
from topologies.bounds import alltoall_bound, routing_bound
from topologies.errors import ConfigError

ROLES = {
    "buffers": "both buffers, shifts in rising order",
    "order": "both buffers, shifts in mixed order",
    "sorts": "one sort of buffer larger",
    "crossbar": "crossbar",
    "pace": "messages at a pace, mixed order",
    "pace-rising": "messages at a pace, rising order",
    "one-shift": "one shift alone",
}
"""Roles of the study's runs, in the order of the table, and what is varied."""

FIRST_COMMANDS = 5
"""Commands that reach a NIC before the first receive is posted (NicCommands, hxmesh/endpoint.hpp)."""

PUBLISHED_BUFFER_BYTES = 32_000_000
"""Of the artifact's runs (engine.NetworkParams)."""

_COLUMNS = {
    "varied": Column("varied", left=True),
    "topology": Column("network", left=True),
    "accelerators": Column("accelerators"),
    "message_bytes": Column("message", "size"),
    "input_buffer_bytes": Column("input buffer, kB"),
    "output_buffer_bytes": Column("output buffer, kB"),
    "buffer_share": Column("buffer / sent", ".3f"),
    "crossbar_gbps": Column("crossbar, Gb/s", ".0f"),
    "load_percent": Column("load, % of injection", ".2f"),
    "time_us": Column("time, us", ".1f"),
    "percent_of_injection": Column("% of injection", ".2f"),
    "percent_of_bound": Column("% of bound", ".1f"),
    "status": Column("status", left=True),
}


def build(results_dir: Path) -> pd.DataFrame:
    """One row a run, in the order of ``ROLES`` and by network, size and buffers.

    ``buffer_share`` is the input buffer of a port and virtual channel over what an accelerator sends,
    ``load_percent`` what the pace of its messages would take of injection (missing without a pace),
    ``time_us`` the time from the first message that can leave to the last rank's end, and
    ``percent_of_bound`` of ``alltoall_bound``, which holds for whole alltoalls only. Values are missing
    where a run is not complete.

    Raises ConfigError for a directory without results, a role that is not one of ``ROLES``, and networks
    other than tori and HammingMeshes.
    """
    rows = [
        _row(results_dir, {str(k): v for k, v in run.items()})
        for run in collect(results_dir).to_dict("records")
    ]
    frame = pd.DataFrame(rows)
    by = ["role", "topology", "accelerators", "load_percent", "crossbar_gbps", "input_buffer_bytes"]
    order = {role: place for place, role in enumerate(ROLES)}
    return frame.sort_values(
        by, key=lambda column: column.map(order) if column.name == "role" else column, ignore_index=True
    )


def one_shift_ends(results_dir: Path, frame: pd.DataFrame) -> pd.DataFrame:
    """When the messages of one shift alone have arrived, by the sender's column.

    Columns input_buffer_bytes, columns (of the torus), shift, message_bytes, column, end_s: the mean over
    the column's senders. Only complete runs with the role "one-shift".
    """
    known = ["input_buffer_bytes", "columns", "shift", "message_bytes"]
    parts = [pd.DataFrame(columns=["column", "end_s", *known])]
    for run in frame[(frame["role"] == "one-shift") & (frame["status"] == COMPLETE)].to_dict("records"):
        ranks = load_ranks(results_dir, run["run_id"])
        columns, shift = run["columns"], run["shift"]
        sender = (ranks["rank"].to_numpy() - shift) % len(ranks)
        ends = ranks["end_ps"].groupby(sender % columns).mean() / PS_PER_S
        part = pd.DataFrame({"column": ends.index, "end_s": ends.to_numpy()})
        parts.append(part.assign(**{name: run[name] for name in known}))
    return pd.concat(parts[1:] or parts, ignore_index=True)


def draw(frame: pd.DataFrame, ends: pd.DataFrame, directory: Path) -> Picture:
    """The figure: bandwidth over buffers, one shift alone, accepted over offered load."""
    with styled():
        figure = Figure(figsize=(13.2, 4.4), layout="constrained")
        buffers, shift, load = figure.subplots(1, 3)
        _draw_buffers(buffers, frame)
        _draw_one_shift(shift, ends)
        _draw_load(load, frame)
        caption = (
            "Left: alltoall over the size of a buffer; hollow: published values, by their ratio of buffer to "
            "bytes sent. Middle: one shift of half a row alone on the torus of 256. Right: the torus of 256 "
            "with messages posted at a pace."
        )
        return save_picture(figure, directory, "congestion", caption)


def report(results_dir: Path) -> list[Path]:
    """Write congestion_runs.csv, congestion_table.md and the figure into the results; return their paths."""
    frame = build(results_dir)
    picture = draw(frame, one_shift_ends(results_dir, frame), results_dir / "figures")
    shown = frame.assign(
        varied=frame["role"].map(ROLES),
        topology=frame["topology"].map(networks.label),
        input_buffer_bytes=frame["input_buffer_bytes"] // 1000,
        output_buffer_bytes=frame["output_buffer_bytes"] // 1000,
    )
    page = Page("Congestion", "Alltoalls behind full buffers.", [table("Runs", _COLUMNS, shown)], [picture])
    return [
        write(results_dir / "congestion_runs.csv", csv_text(frame)),
        write(results_dir / "congestion_table.md", markdown_text(page, results_dir)),
        picture.png,
        picture.pdf,
    ]


def _row(results_dir: Path, run: dict[str, Any]) -> dict[str, Any]:
    if run["role"] not in ROLES:
        raise ConfigError(
            f"role of run {run['run_id']} is {run['role']!r} but must be one of {', '.join(ROLES)}."
        )
    experiment = json.loads((run_dir(results_dir, run["run_id"]) / "experiment.json").read_bytes())
    network, motif = experiment["network"], experiment["motif"]
    topology = _topology(experiment["topology"])
    ranks, message_bytes = topology.num_endpoints, motif["message_bytes"]
    shifts = motif.get("shifts")
    sent_bytes = message_bytes * (ranks - 1 if shifts is None else len(shifts))
    injection_bps = experiment["topology"]["injection_bps"]
    row = {
        "run_id": run["run_id"],
        "role": run["role"],
        "topology": run["topology"],
        "accelerators": ranks,
        "columns": experiment["topology"]["params"].get("size0"),
        "message_bytes": message_bytes,
        "shift": shifts[0] if shifts is not None and len(shifts) == 1 else None,
        "input_buffer_bytes": network["input_buffer_bytes"],
        "output_buffer_bytes": network["output_buffer_bytes"],
        "buffer_share": network["input_buffer_bytes"] / sent_bytes,
        "crossbar_gbps": network["crossbar_bps"] / 1e9,
        "load_percent": None,
        "time_us": None,
        "percent_of_injection": None,
        "percent_of_bound": None,
        "status": run["status"],
    }
    start_ps = 0
    if run["role"] in ("pace", "pace-rising"):
        period_ps = network["nic_command_ps"]
        row["load_percent"] = 100 * message_bytes * 8 * PS_PER_S / period_ps / injection_bps
        start_ps = (ranks - 1 + FIRST_COMMANDS) * period_ps
    if run["status"] == COMPLETE:
        time_s = (int(run["simulated_time_ps"]) - start_ps) / PS_PER_S
        percent = 100 * sent_bytes * 8 / time_s / injection_bps
        row |= {"time_us": time_s * 1e6, "percent_of_injection": percent}
        if run["role"] != "one-shift":
            row["percent_of_bound"] = 100 * percent / alltoall_bound(topology).percent
    return row


def _topology(described: dict[str, Any]) -> Topology:
    params = described["params"]
    if described["family"] == "torus":
        return Torus2D(params["size0"], params["size1"], balanced=bool(params["balanced"]))
    if described["family"] == "hxmesh":
        return HxMesh(params["a"], params["b"], params["x"], params["y"], radix=params["radix"])
    raise ConfigError(f"topology family is {described['family']!r} but must be torus or hxmesh.")


def _draw_buffers(axes: Axes, frame: pd.DataFrame) -> None:
    done = frame[frame["percent_of_bound"].notna()]
    for topology in ("torus", "hx4mesh"):
        for role, accelerators, marker, line in (
            ("buffers", 256, "o", "-"),
            ("buffers", 1024, "s", "--"),
            ("order", 256, "^", ":"),
        ):
            part = done[
                (done["role"] == role)
                & (done["topology"] == topology)
                & (done["accelerators"] == accelerators)
            ].sort_values("buffer_share")
            if part.empty:
                continue
            axes.plot(
                part["buffer_share"],
                part["percent_of_bound"],
                linestyle=line,
                marker=marker,
                color=colour(topology),
                label=f"{networks.label(topology)}, {accelerators}"
                + (", mixed order" if role == "order" else ""),
            )
        _published_points(axes, topology)
    axes.set_xscale("log")
    axes.set_ylim(0, 104)
    axes.set_xlabel("buffer of a port and channel / bytes that an accelerator sends")
    axes.set_ylabel("alltoall, % of the bound")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, loc="lower right")


def _published_points(axes: Axes, topology: str) -> None:
    network = networks.network(topology, "small", "as-simulated")
    assert network is not None
    for message_bytes, reference in published.alltoall_points("small", topology):
        # Below, messages are single packets, and latencies count.
        if message_bytes < 4096:
            continue
        axes.plot(
            PUBLISHED_BUFFER_BYTES / (message_bytes * (network.accelerators - 1)),
            100 * reference.percent * reference.barrier_factor / network.alltoall_bound_percent,
            linestyle="none",
            marker="o",
            markersize=11,
            markerfacecolor="none",
            markeredgecolor=colour(topology),
        )


def _draw_one_shift(axes: Axes, ends: pd.DataFrame) -> None:
    for place, buffer_bytes in enumerate(sorted(set(ends["input_buffer_bytes"]))):
        part = ends[ends["input_buffer_bytes"] == buffer_bytes]
        first = part.iloc[0]
        alone_s = first["message_bytes"] * 8 / LINK_BPS
        axes.plot(
            part["column"],
            part["end_s"] * 1e3,
            color=("#D55E00", "#0072B2")[place % 2],
            marker="os"[place % 2],
            label=f"buffers of {buffer_bytes / 1e6:g} MB",
        )
        if place == 0:
            columns, shift = int(first["columns"]), int(first["shift"])
            axes.axhline(shift * alone_s * 1e3, color="#333333", linewidth=1, linestyle=":")
            axes.text(0, shift * alone_s * 0.97e3, "all links busy", va="top", fontsize=8)
            axes.axhline(columns * alone_s * 1e3, color="#333333", linewidth=1, linestyle=":")
            axes.text(
                columns - 1,
                columns * alone_s * 1e3,
                "one message of the row after the other",
                ha="right",
                va="bottom",
                fontsize=8,
            )
            axes.set_xticks(np.arange(0, columns, 3))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("column of the sender")
    axes.set_ylabel("its message of 8 MiB is there, ms")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, loc="lower left")


def _draw_load(axes: Axes, frame: pd.DataFrame) -> None:
    part = frame[(frame["role"] == "pace") & frame["percent_of_injection"].notna()].sort_values(
        "load_percent"
    )
    if not part.empty:
        columns = int(part.iloc[0]["columns"])
        limit = routing_bound(Torus2D(columns, int(part.iloc[0]["accelerators"]) // columns))
        top = float(part["load_percent"].max())
        axes.plot([0, limit], [0, limit], color="#333333", linewidth=1, linestyle=":")
        axes.plot(
            [limit, top],
            [limit, limit],
            color="#333333",
            linewidth=1,
            linestyle=":",
            label="what the routing allows",
        )
        axes.plot(
            part["load_percent"],
            part["percent_of_injection"],
            color=colour("torus"),
            marker="o",
            label="buffers of 0.5 MB",
        )
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel("offered load, % of injection")
    axes.set_ylabel("alltoall, % of injection")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, loc="center right")


def main(arguments: list[str] | None = None) -> int:
    """Make table and figure of a results directory and list the files; 2 for a wrong one."""
    parser = argparse.ArgumentParser(description="Table and figure of docs/congestion.md.")
    parser.add_argument("results", type=Path, help="results of the study congestion")
    try:
        for path in report(parser.parse_args(arguments).results):
            print(path)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
