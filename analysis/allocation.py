"""The allocation study as tables and figures, with the published utilisations beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import published
from analysis.figures import save_picture, styled
from analysis.render import Picture, csv_text, write

SCENARIO = ["mesh", "cluster", "failed_boards", "transpose", "aspect_ratio", "sort_jobs", "locality"]
MEAN_TOLERANCE_POINTS = 1.0
P99_TOLERANCE_POINTS = 3.0
"""Percentage points from the published values up to which a scenario counts as reproduced."""

_NAMES = {"hx2mesh": "Hx2Mesh", "hx4mesh": "Hx4Mesh"}
_COLOURS = ("#6B6B6B", "#E69F00", "#009E73", "#56B4E9", "#CC79A7", "#0072B2", "#D55E00", "#9467BD")


def p99_percent(utilization_percent: pd.Series[float]) -> float:
    """What 99% of the samples reach or exceed; of 1000 the 10th lowest, as in the artifact."""
    ordered = np.sort(utilization_percent.to_numpy())[::-1]
    return float(ordered[min(int(0.99 * len(ordered)), len(ordered) - 1)])


def _p99_standard_error(utilization_percent: pd.Series[float]) -> float:
    """From 200 bootstrap resamples with a fixed seed."""
    values = np.sort(utilization_percent.to_numpy())
    rng = np.random.default_rng(0)
    resampled = np.sort(rng.choice(values, size=(200, len(values))), axis=1)
    return float(resampled[:, len(values) - 1 - min(int(0.99 * len(values)), len(values) - 1)].std())


def utilization(samples: pd.DataFrame, seed: int) -> pd.DataFrame:
    """One row a scenario of `allocation.study.utilization_samples`, published values beside ours.

    The standard errors are those of our samples; the published values, of 1000 samples, have their own.
    """
    grouped = samples.groupby(SCENARIO, sort=False)
    rows = []
    for key, group in grouped:
        values = group["utilization_percent"]
        row: dict[str, Any] = dict(zip(SCENARIO, key, strict=True))
        row["mean_percent"] = values.mean()
        row["p99_percent"] = p99_percent(values)
        row["mean_standard_error"] = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        row["p99_standard_error"] = _p99_standard_error(values)
        for pattern in ("alltoall", "allreduce"):
            row[f"{pattern}_upper_percent"] = group[f"{pattern}_upper_percent"].mean()
        row["samples"], row["seed"] = len(values), seed
        rows.append(row)
    frame = pd.DataFrame(rows)
    known = published.load("allocation_utilization").drop(columns="provenance")
    known = known.rename(columns={name: f"published_{name}" for name in ("mean_percent", "p99_percent")})
    frame = frame.merge(known, on=SCENARIO, how="left")
    first = [*SCENARIO, "mean_percent", "p99_percent", "published_mean_percent", "published_p99_percent"]
    return frame[[*first, *(name for name in frame.columns if name not in first)]]


def baselines(samples: pd.DataFrame, seed: int) -> pd.DataFrame:
    """One row a scenario of `allocation.study.baseline_samples`."""
    keys = ["topology", "mesh", "cluster", "failed_boards", "sort_jobs"]
    grouped = samples.groupby(keys, sort=False)["utilization_percent"]
    frame = grouped.agg(mean_percent="mean", p99_percent=p99_percent, samples="size").reset_index()
    return frame.assign(seed=seed)


def bound(samples: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Means over the samples of `allocation.study.bound_samples`, and how many were solved to the end."""
    proven = samples["best_percent"] >= samples["bound_percent"] - 1e-9
    keys = ["mesh", "cluster", "failed_boards"]
    columns = ["greedy_percent", "sorted_percent", "best_percent", "bound_percent", "proven"]
    frame = samples.assign(proven=proven).groupby(keys, sort=False)[columns]
    summary = frame.agg({**dict.fromkeys(columns[:-1], "mean"), "proven": "sum"}).reset_index()
    sizes = samples.groupby(keys, sort=False).size().to_numpy()
    return summary.assign(samples=sizes, seed=seed)


def differences(frame: pd.DataFrame) -> list[str]:
    """One sentence for each published scenario of `utilization` that is not reproduced."""
    said = []
    for row in frame.dropna(subset="published_mean_percent").to_dict("records"):
        for what, limit in (("mean", MEAN_TOLERANCE_POINTS), ("p99", P99_TOLERANCE_POINTS)):
            ours, theirs = row[f"{what}_percent"], row[f"published_{what}_percent"]
            if abs(ours - theirs) > limit:
                name = " ".join(f"{key}={row[key]}" for key in SCENARIO)
                error = row[f"{what}_standard_error"]
                said.append(
                    f"{name}: {what} {ours:.2f}% against {theirs:.2f}% published, more than {limit:g} points "
                    f"(standard error of ours {error:.2f})"
                )
    return said


def interference_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Jobs of `workflow.interference.interference` by network, failed boards and traffic.

    Times of a job together with the others over its time alone, and alone over on a machine of its own.
    """
    keys = ["network", "failed_boards", "traffic"]
    return (
        frame.groupby(keys, sort=False)
        .agg(
            placements=("placement", "nunique"),
            jobs=("job", "size"),
            together_mean=("together_over_alone", "mean"),
            together_max=("together_over_alone", "max"),
            own_machine_mean=("alone_over_own_machine", "mean"),
            own_machine_max=("alone_over_own_machine", "max"),
        )
        .reset_index()
    )


def interference_figure(frame: pd.DataFrame, directory: Path, stem: str = "interference") -> Picture:
    """One dot a job: its time together with the others, over its time alone, by network."""
    with styled():
        names = list(dict.fromkeys(frame["network"]))
        figure = Figure(figsize=(9, 4.6), layout="constrained")
        axes = figure.subplots()
        kinds = [(failed, motif) for failed in (False, True) for motif in ("alltoall", "allreduce")]
        for place, name in enumerate(names):
            for i, (failed, motif) in enumerate(kinds):
                part = frame[(frame["network"] == name) & (frame["motif"] == motif)]
                values = part.loc[(part["failed_boards"] > 0) == failed, "together_over_alone"].to_numpy()
                spread = np.linspace(-0.07, 0.07, len(values)) if len(values) > 1 else np.zeros(len(values))
                axes.plot(
                    place + (i - 1.5) * 0.2 + spread,
                    np.sort(values),
                    "v" if failed else "o",
                    color=_COLOURS[5 if motif == "alltoall" else 6],
                    markersize=4,
                    alpha=0.7,
                    markeredgewidth=0,
                    label=f"{motif}{', with failed boards' if failed else ''}" if place == 0 else None,
                )
        axes.axhline(1, color="#333333", linewidth=0.8)
        axes.set_xticks(range(len(names)), names)
        axes.set_ylabel("time with neighbours / time alone")
        figure.legend(loc="outside lower center", ncols=4, frameon=False)
        caption = (
            "What neighbours cost: the time of each job while all jobs of its machine run, over its time "
            "alone at the same place. HxMesh: virtual sub-HxMeshes; torus: contiguous blocks; fat trees: "
            "accelerators at random."
        )
        return save_picture(figure, directory, stem, caption)


def write_csv(frame: pd.DataFrame, path: Path) -> Path:
    """Write a table, whole or not at all."""
    return write(path, csv_text(frame))


def figures(samples: pd.DataFrame, torus: pd.DataFrame, directory: Path) -> list[Picture]:
    """Violins of the utilisation by strategy and by failed boards, boxes of the upper level's traffic.

    `samples` and `torus` as of `allocation.study.utilization_samples` and `baseline_samples`.
    """
    with styled():
        return [
            _by_strategy(samples, directory),
            _by_failures(samples, torus, directory),
            _upper_level(samples, directory),
        ]


def label(row: dict[str, Any]) -> str:
    """Short name of a strategy: what is added to the plain greedy search."""
    added = [
        name
        for name, there in (
            ("transpose", row["transpose"] == "yes"),
            ("aspect ratio", row["aspect_ratio"] == "yes"),
            ("sort", row["sort_jobs"] == "yes"),
            (f"locality ({row['locality']})", row["locality"] != "no"),
        )
        if there
    ]
    return "greedy + " + " + ".join(added) if added else "greedy"


_STRATEGY = SCENARIO[3:]


def _groups(frame: pd.DataFrame, keys: Sequence[str], value: str) -> dict[tuple[Any, ...], Any]:
    return {
        key if isinstance(key, tuple) else (key,): group[value].dropna().to_numpy()
        for key, group in frame.groupby(list(keys), sort=False)
    }


def _violins(axes: Axes, series: Sequence[tuple[float, Any, str]], width: float) -> None:
    """Violins at x, with a square at the mean, a dot at the median and a triangle at p99."""
    for x, values, colour in series:
        if values.min() < values.max():
            parts: Any = axes.violinplot([values], positions=[x], widths=width, showextrema=False)
            for body in parts["bodies"]:
                body.set(facecolor=colour, alpha=0.75, linewidth=0)
        p99 = p99_percent(pd.Series(values))
        for y, marker in ((values.mean(), "s"), (np.median(values), "o"), (p99, "^")):
            axes.plot([x], [y], marker, color="white", markeredgecolor=colour, markersize=4.5, zorder=4)


def _machines(frame: pd.DataFrame) -> list[tuple[str, str]]:
    order = [("hx2mesh", "small"), ("hx4mesh", "small"), ("hx2mesh", "large"), ("hx4mesh", "large")]
    present = set(zip(frame["mesh"], frame["cluster"], strict=True))
    return [machine for machine in order if machine in present]


def _legend(figure: Figure, names: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=_COLOURS[i % len(_COLOURS)], label=name) for i, name in enumerate(names)]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)


def _by_strategy(samples: pd.DataFrame, directory: Path) -> Picture:
    frame = samples[samples["failed_boards"] == 0]
    machines = _machines(frame)
    groups = _groups(frame, ["mesh", "cluster", *_STRATEGY], "utilization_percent")
    strategies = list(dict.fromkeys(key[2:] for key in groups))
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(strategies)
    known = published.load("allocation_utilization")
    for place, machine in enumerate(machines):
        series = []
        for i, strategy in enumerate(strategies):
            x = place + (i - (len(strategies) - 1) / 2) * width
            series.append((x, groups[machine + strategy], _COLOURS[i]))
            row = dict(zip(SCENARIO, (*machine, 0, *strategy), strict=True))
            match = np.logical_and.reduce([known[key] == value for key, value in row.items()])
            for mean in known.loc[match, "mean_percent"]:
                axes.plot([x - width / 2, x + width / 2], [mean, mean], color="black", linewidth=1, zorder=5)
        _violins(axes, series, 0.95 * width)
    axes.set_xticks(range(len(machines)), [f"{_NAMES[mesh]}, {cluster}" for mesh, cluster in machines])
    axes.set_ylabel("boards in use, %")
    axes.set_ylim(top=101)
    _legend(figure, [label(dict(zip(_STRATEGY, strategy, strict=True))) for strategy in strategies])
    caption = (
        "Utilisation without failed boards by strategy: distribution over the samples, mean (square), median "
        "(dot), what 99% of the samples exceed (triangle); lines: published means."
    )
    return save_picture(figure, directory, "utilization", caption)


def _by_failures(samples: pd.DataFrame, torus: pd.DataFrame, directory: Path) -> Picture:
    both = (samples["transpose"] == "yes") & (samples["aspect_ratio"] == "yes")
    local = np.where(samples["cluster"] == "large", "alltoall", "no")
    mesh = samples[both & (samples["locality"] == local)].assign(topology="mesh")
    frame = pd.concat([mesh, torus[torus["topology"] == "torus"]], ignore_index=True)
    kinds = [("mesh", "no"), ("mesh", "yes"), ("torus", "no"), ("torus", "yes")]
    groups = _groups(
        frame, ["mesh", "cluster", "failed_boards", "topology", "sort_jobs"], "utilization_percent"
    )
    machines = _machines(frame)
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    panels = figure.subplots(1, len(machines), sharey=True, squeeze=False)[0]
    for axes, machine in zip(panels, machines, strict=True):
        failures = sorted({key[2] for key in groups if key[:2] == machine})
        series = [
            (place + (i - 1.5) * 0.2, groups[(*machine, failed, *kind)], _COLOURS[(1, 2, 6, 4)[i]])
            for place, failed in enumerate(failures)
            for i, kind in enumerate(kinds)
        ]
        _violins(axes, series, 0.19)
        axes.set_xticks(range(len(failures)), [str(failed) for failed in failures])
        axes.set_title(f"{_NAMES[machine[0]]}, {machine[1]}")
        axes.set_xlabel("failed boards")
    panels[0].set_ylabel("boards in use, % of those that work")
    panels[0].set_ylim(top=102)
    from matplotlib.patches import Patch

    names = ("HxMesh", "HxMesh, jobs sorted", "torus of the same boards", "torus, jobs sorted")
    handles = [Patch(color=_COLOURS[(1, 2, 6, 4)[i]], label=name) for i, name in enumerate(names)]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    caption = (
        "Utilisation with failed boards, on HxMesh and on a torus of the same boards, where jobs need "
        "contiguous blocks; transposed and other aspect ratios allowed, on the large HxMeshes with locality "
        "(alltoall). Markers as in the figure by strategy."
    )
    return save_picture(figure, directory, "utilization_failures", caption)


def _upper_level(samples: pd.DataFrame, directory: Path) -> Picture:
    frame = samples[(samples["failed_boards"] == 0) & samples["alltoall_upper_percent"].notna()]
    machines = _machines(frame)
    strategies = list(dict.fromkeys(frame[_STRATEGY].itertuples(index=False, name=None)))
    figure = Figure(figsize=(10, 5.0), layout="constrained")
    panels = figure.subplots(1, 2, squeeze=False)[0]
    width = 0.8 / max(len(strategies), 1)
    for axes, pattern in zip(panels, ("alltoall", "allreduce"), strict=True):
        groups = _groups(frame, ["mesh", "cluster", *_STRATEGY], f"{pattern}_upper_percent")
        for place, machine in enumerate(machines):
            for i, strategy in enumerate(strategies):
                x = place + (i - (len(strategies) - 1) / 2) * width
                drawn: Any = axes.boxplot(
                    [groups[machine + strategy]],
                    positions=[x],
                    widths=0.85 * width,
                    patch_artist=True,
                    showfliers=False,
                    whis=(1, 99),
                )
                drawn["boxes"][0].set(facecolor=_COLOURS[i], alpha=0.75)
                drawn["medians"][0].set(color="black")
        axes.set_xticks(range(len(machines)), [f"{_NAMES[mesh]}, {cluster}" for mesh, cluster in machines])
        axes.set_title(pattern)
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel("traffic in the upper level of line trees, %")
    _legend(figure, [label(dict(zip(_STRATEGY, strategy, strict=True))) for strategy in strategies])
    caption = (
        "Share of the traffic of line trees that passes their upper level, mean over the trees, without "
        "failed boards; boxes: quartiles, whiskers: 1% and 99% of the samples."
    )
    return save_picture(figure, directory, "upper_level", caption)
