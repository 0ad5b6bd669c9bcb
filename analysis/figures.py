"""Figures in the manner of the article's: alltoall and allreduce sweeps, permutations, and an overview of
Table 2.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from analysis import measures, networks, published
from analysis.collect import COMPLETE
from analysis.render import Picture, size_label, write
from topologies.catalog import NAMES, TABLE2_NAMES, VARIANTS

# Colours of Okabe and Ito, told apart with any colour vision; the fat trees differ in lightness.
_COLOURS = {
    "fattree": "#000000",
    "fattree50": "#6B6B6B",
    "fattree75": "#ABABAB",
    "dragonfly": "#E69F00",
    "hyperx": "#CC79A7",
    "hx1mesh": "#9467BD",
    "hx2mesh": "#0072B2",
    "hx4mesh": "#56B4E9",
    "torus": "#D55E00",
}
_OTHER_COLOURS = ("#009E73", "#8C564B", "#17BECF", "#BCBD22", "#7F7F7F", "#F0E442")
_MARKERS = {
    "fattree": "o",
    "fattree50": "s",
    "fattree75": "D",
    "dragonfly": "X",
    "hyperx": "P",
    "hx1mesh": "p",
    "hx2mesh": "^",
    "hx4mesh": "v",
    "torus": "*",
}
_VARIANT_MARKERS = "ods^"
_STYLE: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10.5,
    "legend.fontsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.7,
    "lines.markersize": 6,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "pdf.fonttype": 42,
    "svg.hashsalt": "hxmesh",
}


@contextmanager
def styled() -> Iterator[None]:
    """The style of all figures, whatever matplotlib's own settings are."""
    defaults: Any = matplotlib.rcParamsDefault
    style: Any = {**defaults, "backend": "agg", **_STYLE}
    with matplotlib.rc_context(style):
        yield


def colour(topology: str, others: Sequence[str] = ()) -> str:
    """Colour of a network, the same in every figure; networks outside Table 2 take theirs by place among
    ``others``.
    """
    if topology in _COLOURS:
        return _COLOURS[topology]
    unknown = [name for name in others if name not in _COLOURS]
    place = unknown.index(topology) if topology in unknown else 0
    return _OTHER_COLOURS[place % len(_OTHER_COLOURS)]


def _marker(topology: str) -> str:
    return _MARKERS.get(topology, "h")


def _topologies(frame: pd.DataFrame) -> list[str]:
    present = dict.fromkeys(str(name) for name in frame["topology"])
    known = [name for name in NAMES if name in present]
    return known + sorted(name for name in present if name not in known)


def _variants(frame: pd.DataFrame) -> list[str]:
    present = set(frame["variant"])
    return [v for v in VARIANTS if v in present] + sorted(present - set(VARIANTS))


def save_picture(figure: Figure, directory: Path, stem: str, caption: str) -> Picture:
    """Write a figure as PNG and PDF, the same bytes for the same data."""
    paths = {}
    # No dates or versions inside the files.
    metadata: dict[str, dict[str, Any]] = {
        "png": {"Software": None},
        "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    }
    for suffix, entries in metadata.items():
        out = io.BytesIO()
        figure.savefig(out, format=suffix, metadata=entries)
        figure.set_layout_engine("none")
        paths[suffix] = write(directory / f"{stem}.{suffix}", out.getvalue())
    return Picture(paths["png"], paths["pdf"], caption)


def _size_axis(axes: Axes, sizes: Sequence[int], what: str) -> None:
    """Logarithmic axis of sizes with a label at every size, thinned out where they stand too close."""
    axes.set_xscale("log", base=2)
    shown = sorted(set(sizes))
    if shown:
        width = max(np.log2(shown[-1]) - np.log2(shown[0]), 1.0)
        kept = [shown[0]]
        for size in shown[1:]:
            if np.log2(size) - np.log2(kept[-1]) >= width / 8:
                kept.append(size)
        axes.xaxis.set_major_locator(FixedLocator(kept))
        axes.xaxis.set_major_formatter(lambda value, _: size_label(round(value)))
        axes.tick_params(axis="x", rotation=35)
        for text in axes.get_xticklabels():
            text.set_horizontalalignment("right")
            text.set_rotation_mode("anchor")
        margin = width * 0.04
        axes.set_xlim(2 ** (np.log2(shown[0]) - margin), 2 ** (np.log2(shown[-1]) + margin))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(what)


def _series(
    axes: Axes, frame: pd.DataFrame, topologies: Sequence[str], x: str, y: str, every: Sequence[str]
) -> None:
    for topology in topologies:
        part = frame[(frame["topology"] == topology) & frame[x].notna()].sort_values(x)
        if part[y].notna().any():
            # A run without a value leaves a gap in the line.
            axes.plot(
                part[x].to_numpy(dtype=float),
                part[y].to_numpy(dtype=float, na_value=np.nan),
                color=colour(topology, every),
                marker=_marker(topology),
                markersize=8 if _marker(topology) in "*XP" else 6,
                markeredgewidth=0,
                zorder=3,
            )


def _published(axes: Axes, points: Sequence[tuple[int, float]], topology: str) -> None:
    """Published points: larger hollow markers, so that a coinciding measurement stays visible inside."""
    if points:
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            linestyle="none",
            marker=_marker(topology),
            markerfacecolor="none",
            markeredgecolor=colour(topology),
            markersize=11,
            markeredgewidth=1.2,
            zorder=4,
        )


def _legend(
    figure: Figure,
    topologies: Sequence[str],
    *,
    with_published: bool,
    with_theory: bool = False,
    columns: int = 0,
) -> None:
    handles = [
        Line2D([], [], color=colour(name, topologies), marker=_marker(name), label=networks.label(name))
        for name in topologies
    ]
    if with_published:
        handles.append(
            Line2D(
                [],
                [],
                linestyle="none",
                marker="o",
                markersize=10,
                markerfacecolor="none",
                markeredgecolor="#333333",
                label="published, without its last barrier",
            )
        )
    if with_theory:
        handles.append(
            Line2D([], [], color="#333333", linestyle=(0, (1.2, 1.6)), linewidth=1.1, label="theory")
        )
    count = columns or (len(handles) + 1) // 2
    figure.legend(handles=handles, loc="outside lower center", ncols=count, frameon=False, handlelength=2.2)


def alltoall(frame: pd.DataFrame, cluster: str, directory: Path, stem: str) -> Picture:
    """Alltoall bandwidth over message size, a panel per variant; ``frame`` as ``sweeps.build_alltoall`` of
    one cluster.
    """
    with styled():
        frame = _with_shared_networks(frame, cluster)
        topologies, variants = _topologies(frame), _variants(frame)
        figure = Figure(figsize=(5.4 * len(variants) + 0.8, 8.2), layout="constrained")
        grid = figure.subplots(2, len(variants), sharex=True, sharey="row", squeeze=False)
        sizes = [int(size) for size in frame["message_bytes"].dropna()]
        any_published = False
        for column, variant in enumerate(variants):
            part = frame[frame["variant"] == variant]
            for axes in grid[:, column]:
                _series(axes, part, topologies, "message_bytes", "bandwidth_gbps", topologies)
                if variant == VARIANTS[0]:
                    for topology in topologies:
                        points = published.alltoall_points(cluster, topology)
                        shown = [
                            (x, r.bandwidth_gbps * r.barrier_factor)
                            for x, r in points
                            if x in sizes and r.bandwidth_gbps
                        ]
                        _published(axes, shown, topology)
                        any_published |= bool(shown)
                _size_axis(axes, sizes, "message per pair of accelerators" if axes is grid[1, column] else "")
            grid[0, column].set_title(_variant_title(variant, frame))
            grid[0, column].set_ylim(bottom=0)
            grid[0, column].tick_params(axis="x", labelbottom=False)
            grid[1, column].set_yscale("log")
            grid[1, column].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        for row in grid:
            row[0].set_ylabel("alltoall bandwidth, Gb/s per accelerator")
            _percent_axis(row[-1], frame)
        _legend(figure, topologies, with_published=any_published)
        caption = (
            "Alltoall (global) bandwidth in a plane over message size, linear above and logarithmic below"
            + ("; hollow: published values of the as-simulated networks." if any_published else ".")
        )
        return save_picture(figure, directory, stem, caption)


def _with_shared_networks(frame: pd.DataFrame, cluster: str) -> pd.DataFrame:
    """``frame`` with the runs of a network repeated under a variant without its own rows, where both are
    the same network.
    """
    parts = [frame]
    for variant in _variants(frame):
        for topology in _topologies(frame):
            rows = frame[frame["topology"] == topology]
            if variant in set(rows["variant"]) or networks.variants_differ(topology, cluster):
                continue
            if topology in TABLE2_NAMES:
                parts.append(rows.assign(variant=variant))
    return pd.concat(parts, ignore_index=True)


def _variant_title(variant: str, frame: pd.DataFrame) -> str:
    if set(frame["variant"]) <= {""}:
        return ""
    return f"networks {variant.replace('-', ' ')}" if variant in VARIANTS else f"{variant} networks"


def _percent_axis(axes: Axes, frame: pd.DataFrame) -> None:
    """A second axis in percent of injection, where all runs of the figure have the same injection
    bandwidth.
    """
    rates = (100 * frame["bandwidth_gbps"] / frame["percent_of_injection"]).dropna()
    if len(rates) and np.allclose(rates, rates.iloc[0], rtol=1e-6):
        rate = float(rates.iloc[0])

        def to_percent(gbps: Any) -> Any:
            return gbps * 100 / rate

        def to_gbps(percent: Any) -> Any:
            return percent * rate / 100

        second = axes.secondary_yaxis("right", functions=(to_percent, to_gbps))
        second.set_ylabel("% of injection bandwidth")
        if axes.get_yscale() == "log":
            second.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        second.spines["right"].set_visible(True)


def allreduce(frame: pd.DataFrame, cluster: str, directory: Path, stem: str) -> Picture:
    """Allreduce, percent of peak over vector size: a panel per algorithm, a row of panels per variant."""
    with styled():
        frame = _with_shared_networks(frame, cluster)
        topologies, variants = _topologies(frame), _variants(frame)
        order = ("ring", "bidirectional-ring", "two-rings", "bucket", "torus-2d")
        present = set(frame["algorithm"])
        algorithms = [a for a in order if a in present] + sorted(present - set(order))
        columns = min(len(algorithms), 4)
        figure = Figure(
            figsize=(max(3.7 * columns + 0.6, 6.5), 3.5 * len(variants) + 1.2), layout="constrained"
        )
        grid = figure.subplots(len(variants), len(algorithms), sharex=True, sharey=True, squeeze=False)
        sizes = [int(size) for size in frame["bytes"].dropna()]
        any_published = any_theory = False
        for row, variant in zip(grid, variants, strict=True):
            for axes, algorithm in zip(row, algorithms, strict=True):
                part = frame[(frame["variant"] == variant) & (frame["algorithm"] == algorithm)]
                any_theory |= _theory(axes, part, algorithm)
                _series(axes, part, topologies, "bytes", "percent_of_peak", topologies)
                if variant == VARIANTS[0]:
                    for topology in set(part["topology"]) & set(TABLE2_NAMES):
                        points = published.allreduce_points(cluster, topology, algorithm)
                        shown = [
                            (x, r.percent * r.barrier_factor) for x, r in points if sizes and x <= max(sizes)
                        ]
                        _published(axes, shown, topology)
                        any_published |= bool(shown)
                if part["percent_of_peak"].notna().sum() == 0:
                    axes.text(0.5, 0.5, "no run", transform=axes.transAxes, ha="center", color="#777777")
                title = algorithm if len(variants) == 1 else f"{algorithm}, {variant.replace('-', ' ')}"
                axes.set_title(title)
                _size_axis(axes, sizes, "vector on the whole machine" if row is grid[-1] else "")
                axes.set_ylim(0, 104)
            row[0].set_ylabel("allreduce, % of peak")
        for row in grid[:-1]:
            for axes in row:
                axes.tick_params(axis="x", labelbottom=False)
        _legend(figure, topologies, with_published=any_published, with_theory=any_theory)
        caption = "Allreduce bandwidth in percent of peak (half of injection) over vector size"
        caption += "; hollow: published" if any_published else ""
        caption += "; dotted: theory, without congestion." if any_theory else "."
        return save_picture(figure, directory, stem, caption)


def _theory(axes: Axes, part: pd.DataFrame, algorithm: str) -> bool:
    """Theory lines of the networks of a panel; networks with the same line share it."""
    known = part[part["theory_time_s"].notna() & part["bytes"].notna() & part["accelerators"].notna()]
    drawn: set[tuple[int, bool]] = set()
    for topology, accelerators in sorted(
        {(str(t), int(n)) for t, n in zip(known["topology"], known["accelerators"], strict=True)}
    ):
        key = (accelerators, topology.startswith(("fattree", "dragonfly")))
        if key in drawn:
            continue
        drawn.add(key)
        sizes = np.geomspace(float(known["bytes"].min()), float(known["bytes"].max()), 120)
        times = [
            measures.allreduce_theory_s(topology, algorithm, accelerators, round(size)) for size in sizes
        ]
        percents = [
            100 * size * 8 / (time or np.inf) / (measures.PLANE_BPS / 2)
            for size, time in zip(sizes, times, strict=True)
        ]
        axes.plot(sizes, percents, color="#333333", linestyle=(0, (1.2, 1.6)), linewidth=1.1, zorder=2)
    return bool(drawn)


def permutation(
    frame: pd.DataFrame, accelerators: pd.DataFrame, cluster: str, directory: Path, stem: str
) -> Picture:
    """Violins of the receive bandwidth of all accelerators and seeds, a row per network, beside the
    published quantiles.
    """
    with styled():
        frame = _with_shared_networks(frame, cluster)
        accelerators = _with_shared_networks(accelerators, cluster)
        topologies, variants = _topologies(frame), _variants(frame)
        figure = Figure(
            figsize=(4.9 * len(variants) + 1.6, 0.55 * len(topologies) + 1.9), layout="constrained"
        )
        panels = figure.subplots(1, len(variants), sharex=True, sharey=True, squeeze=False)[0]
        any_published = False
        for axes, variant in zip(panels, variants, strict=True):
            for place, topology in enumerate(topologies):
                part = accelerators[
                    (accelerators["variant"] == variant) & (accelerators["topology"] == topology)
                ]
                rows = frame[(frame["variant"] == variant) & (frame["topology"] == topology)]
                values = part["receive_gbps"].to_numpy(dtype=float)
                if len(values):
                    _violin(axes, values, place, colour(topology, topologies))
                elif len(rows):
                    reason = "; ".join(sorted(set(rows["status"]) - {COMPLETE})) or "no value"
                    axes.text(
                        0.02,
                        place,
                        reason,
                        transform=axes.get_yaxis_transform(),
                        va="center",
                        color="#777777",
                    )
                known = rows.dropna(subset=["published_mean_gbps"])
                if variant == VARIANTS[0] and len(known):
                    _published_distribution(axes, known.iloc[0], place)
                    any_published = True
            axes.set_title(_variant_title(variant, frame))
            axes.set_xlabel("receive bandwidth per accelerator and plane, Gb/s")
            axes.set_xlim(left=0)
            axes.grid(axis="y", visible=False)
        panels[0].set_yticks(range(len(topologies)), [networks.label(name) for name in topologies])
        panels[0].set_ylim(len(topologies) - 0.4, -0.6)
        handles = [
            Line2D([], [], color="#333333", marker="o", markerfacecolor="white", label="median, p1 to p99"),
        ]
        if any_published:
            handles.append(
                Line2D(
                    [],
                    [],
                    color="#333333",
                    linestyle=(0, (3, 1.5)),
                    marker="|",
                    markersize=9,
                    label="published median, p1 to p99",
                )
            )
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
        seeds = frame["seed"].nunique()
        caption = (
            "Random permutation: distribution of receive bandwidth over accelerators "
            f"({seeds} seed{'s' if seeds != 1 else ''})."
        )
        return save_picture(figure, directory, stem, caption)


def _violin(axes: Axes, values: np.ndarray[Any, Any], place: int, shade: str) -> None:
    p1, median, p99 = np.percentile(values, [1, 50, 99])
    if np.ptp(values) > 1e-9 * max(median, 1.0):
        bodies: Any = axes.violinplot(
            values, [place], orientation="horizontal", widths=0.85, showextrema=False
        )["bodies"]
        for body in bodies:
            body.set(facecolor=shade, edgecolor="none", alpha=0.55)
    axes.plot([p1, p99], [place, place], color=shade, linewidth=1.6, solid_capstyle="butt", zorder=3)
    axes.plot(
        [median],
        [place],
        marker="o",
        markerfacecolor="white",
        markeredgecolor=shade,
        markeredgewidth=1.5,
        zorder=4,
    )


def _published_distribution(axes: Axes, row: pd.Series[Any], place: int) -> None:
    low, median, high = (float(row[f"published_{name}_gbps"]) for name in ("p1", "median", "p99"))
    level = place + 0.36
    axes.plot([low, high], [level, level], color="#333333", linestyle=(0, (3, 1.5)), linewidth=1.3, zorder=5)
    axes.plot([median], [level], color="#333333", marker="|", markersize=9, markeredgewidth=1.6, zorder=5)


def table2(frame: pd.DataFrame, cluster: str, directory: Path, stem: str) -> Picture:
    """Overview of Table 2: global bandwidth, allreduce bandwidth and both savings of every network; hollow
    are published.
    """
    quantities = (
        ("alltoall_percent_of_injection", "published_alltoall_percent", "alltoall, % of injection"),
        ("allreduce_percent_of_peak", "published_allreduce_percent", "allreduce, % of peak"),
        ("alltoall_saving", "published_alltoall_saving", "alltoall cost saving"),
        ("allreduce_saving", "published_allreduce_saving", "allreduce cost saving"),
    )
    with styled():
        topologies, variants = _topologies(frame), _variants(frame)
        figure = Figure(figsize=(11.5, 0.5 * len(topologies) + 1.9), layout="constrained")
        panels = figure.subplots(1, len(quantities), sharey=True)
        for axes, (ours, theirs, title) in zip(panels, quantities, strict=True):
            for place, topology in enumerate(topologies):
                _table2_line(
                    axes,
                    frame[frame["topology"] == topology],
                    variants,
                    place,
                    colour(topology, topologies),
                    ours,
                    theirs,
                )
            axes.set_title(title)
            axes.set_xlim(left=0)
            if "saving" in ours:
                axes.axvline(1, color="#999999", linewidth=0.9, zorder=1)
                axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
            else:
                axes.set_xlim(0, 108)
        panels[0].set_yticks(range(len(topologies)), [networks.label(name) for name in topologies])
        panels[0].set_ylim(len(topologies) - 0.5, -0.5)
        handles = [
            Line2D([], [], linestyle="none", color="#333333", marker=shape, label=variant.replace("-", " "))
            for shape, variant in zip(_VARIANT_MARKERS, variants, strict=False)
        ]
        handles.append(
            Line2D(
                [],
                [],
                linestyle="none",
                marker="o",
                markersize=11,
                markerfacecolor="none",
                markeredgecolor="#333333",
                label="published",
            )
        )
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
        caption = (
            "Bandwidth and cost saving over the nonblocking fat tree of every network; hollow: published."
        )
        return save_picture(figure, directory, stem, caption)


def _table2_line(
    axes: Axes, rows: pd.DataFrame, variants: Sequence[str], place: int, shade: str, ours: str, theirs: str
) -> None:
    """Variants one below the other; the published value around the first, which is the network it was
    simulated on.
    """
    values = dict(zip(rows["variant"], rows[ours], strict=True))
    levels = [place + 0.34 * (index - (len(variants) - 1) / 2) for index in range(len(variants))]
    marks: dict[str, Any] = {"linestyle": "none", "clip_on": False}
    for shape, variant, level in zip(_VARIANT_MARKERS, variants, levels, strict=False):
        value = values.get(variant)
        if value is not None and not pd.isna(value):
            axes.plot([float(value)], [level], color=shade, marker=shape, markersize=6, zorder=3, **marks)
    known = rows[theirs].dropna()
    if len(known):
        marks |= {"marker": "o", "markersize": 11, "markerfacecolor": "none", "markeredgecolor": shade}
        axes.plot([float(known.iloc[0])], [levels[0]], markeredgewidth=1.2, zorder=4, **marks)
