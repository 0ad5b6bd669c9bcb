"""Figures of the deep-learning workloads: cost savings, overheads, and timelines of one accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis import networks
from analysis.dnn import MESHES, WORKLOADS, Timeline
from analysis.figures import colour, save_picture, styled
from analysis.render import Picture
from topologies.catalog import NAMES

_STEP_COLOURS = {
    "compute": "#BBBBBB",
    "allreduce": "#0072B2",
    "reduce-scatter": "#56B4E9",
    "allgather": "#009E73",
    "alltoall": "#E69F00",
    "exchange": "#CC79A7",
    "send": "#D55E00",
}


def _order(names: Sequence[str], known: Sequence[str]) -> list[str]:
    present = list(dict.fromkeys(names))
    return [name for name in known if name in present] + sorted(set(present) - set(known))


def cost_savings(saved: pd.DataFrame, directory: Path, stem: str) -> Picture:
    """Savings of both HxMeshes, a panel each: a group of bars per workload, a bar per network; published
    ones as ticks.
    """
    with styled():
        workloads = _order(list(saved["workload"]), WORKLOADS)
        others = _order(list(saved["topology"]), NAMES)
        meshes = [mesh for mesh in MESHES if mesh in set(saved["mesh"])]
        figure = Figure(figsize=(6.2 * len(meshes) + 0.4, 4.6), layout="constrained")
        grid = figure.subplots(1, len(meshes), sharey=True, squeeze=False)[0]
        width = 0.84 / max(1, len(others))
        for axes, mesh in zip(grid, meshes, strict=True):
            part = saved[saved["mesh"] == mesh].set_index(["workload", "topology"])
            values = {name: part[name].astype("float64").to_dict() for name in ("saving", "published_saving")}
            for place, other in enumerate(others):
                at = np.arange(len(workloads)) + (place - (len(others) - 1) / 2) * width
                ours, printed = (
                    [float(values[name].get((workload, other), np.nan)) for workload in workloads]
                    for name in values
                )
                axes.bar(at, ours, width * 0.92, color=colour(other, others), zorder=2)
                axes.hlines(printed, at - width / 2, at + width / 2, color="#333333", linewidth=1.4, zorder=3)
            axes.axhline(1, color="#333333", linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
            axes.set_xticks(range(len(workloads)), workloads)
            axes.set_title(networks.label(mesh))
            axes.grid(axis="x", visible=False)
        grid[0].set_ylabel("cost saving")
        handles: list[Artist] = [
            Patch(color=colour(name, others), label=networks.label(name)) for name in others
        ]
        if saved["published_saving"].notna().any():
            handles.append(Line2D([], [], color="#333333", linewidth=1.4, label="published"))
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
        caption = (
            "Cost savings: price of the other network over that of the HxMesh, times the ratio of their "
            "communication overheads."
        )
        return save_picture(figure, directory, stem, caption)


def timeline(shown: Sequence[Timeline], directory: Path, stem: str) -> Picture:
    """One accelerator a panel: computation above, each communication in a line of its own below."""
    with styled():
        heights = [2 + len(_lanes(one)) for one in shown]
        figure = Figure(figsize=(11, 0.42 * sum(heights) + 0.8 * len(shown) + 0.6), layout="constrained")
        grid = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
        kinds: dict[str, None] = {}
        for axes, one in zip(grid, shown, strict=True):
            lanes = ["compute", *_lanes(one)]
            for label, op, begin, end in one.steps:
                lane = 0 if op == "compute" else lanes.index(label)
                kinds.setdefault(op)
                axes.barh(
                    lane,
                    end - begin,
                    left=begin,
                    height=0.72,
                    color=_STEP_COLOURS.get(op, "#8C564B"),
                    edgecolor="white",
                    linewidth=0.6,
                    zorder=2,
                )
                last = max(step[3] for step in one.steps)
                if op == "compute" and end - begin > 0.018 * last * max(4, len(label)) * 0.5:
                    axes.text((begin + end) / 2, lane, label, ha="center", va="center", fontsize=8, zorder=3)
            axes.set_yticks(range(len(lanes)), lanes)
            axes.invert_yaxis()
            axes.grid(axis="y", visible=False)
            axes.set_title(one.title, loc="left")
            axes.set_xlim(0, max(step[3] for step in one.steps) * 1.01)
        grid[-1].set_xlabel("time, ms")
        handles = [Patch(color=_STEP_COLOURS.get(kind, "#8C564B"), label=kind) for kind in kinds]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
        return save_picture(
            figure, directory, stem, "When one accelerator computes and communicates in one iteration."
        )


def _lanes(one: Timeline) -> list[str]:
    return list(dict.fromkeys(label for label, op, _, _ in one.steps if op != "compute"))
