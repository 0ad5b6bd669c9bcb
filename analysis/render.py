"""Frames to CSV, Markdown and HTML with the same bytes for the same content: fixed order, fixed number
format, no dates.
"""

from __future__ import annotations

import base64
import csv
import io
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd

from analysis.published import MARK_NOTES, mark

ABSENT = "–"
"""What a table shows where there is no value."""


@dataclass(frozen=True)
class Column:
    """One column of a readable table: heading with its unit, format of numbers, alignment."""

    heading: str
    format: str = ""
    left: bool = False


@dataclass(frozen=True)
class Table:
    """A readable table: formatted cells under headings, and notes below."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A figure that was written: its PNG, its PDF, what it shows."""

    png: Path
    pdf: Path
    caption: str


@dataclass
class Report:
    """What the Markdown and HTML of one study hold."""

    title: str
    description: str
    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    config: str = ""


def table(title: str, columns: dict[str, Column], frame: pd.DataFrame, notes: Iterable[str] = ()) -> Table:
    """Readable table of ``frame``: the columns named, numbers formatted, published values with the mark of
    their provenance.

    A value is marked where the frame has a column of the same name followed by ``_provenance``.
    """
    marks: set[str] = set()
    rows = []
    for record in frame.to_dict("records"):
        cells = []
        for name, column in columns.items():
            text = _readable(record[name], column.format)
            sign = mark(record.get(f"{name}_provenance")) if text != ABSENT else ""
            marks |= {sign} - {""}
            cells.append(text + sign)
        rows.append(tuple(cells))
    return Table(
        title,
        tuple(columns.values()),
        tuple(rows),
        (*notes, *(text for sign, text in MARK_NOTES.items() if sign in marks)),
    )


def csv_text(frame: pd.DataFrame) -> str:
    """CSV of ``frame``: missing values empty, seconds with 12 significant digits, other fractions with 8."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(frame.columns)
    seconds = [str(name).endswith("_s") for name in frame.columns]
    for row in frame.itertuples(index=False, name=None):
        writer.writerow([_plain(value, 12 if fine else 8) for value, fine in zip(row, seconds, strict=True)])
    return out.getvalue()


def markdown_text(report: Report, base: Path) -> str:
    """Markdown of a report; pictures are linked relative to the directory ``base``."""
    parts = [f"# {report.title}"]
    if report.description:
        parts.append(report.description)
    for item in report.tables:
        parts.append(f"## {item.title}")
        parts.append(_markdown_table(item))
        parts.extend(item.notes)
    for picture in report.pictures:
        link = picture.png.relative_to(base).as_posix()
        parts.append(f"![{_one_line(picture.caption)}]({link})")
        parts.append(picture.caption)
    if report.remarks:
        parts.append("\n".join(f"- {_one_line(remark)}" for remark in report.remarks))
    return "\n\n".join(parts) + "\n"


def html_text(report: Report) -> str:
    """One HTML page with everything inside it; no request leaves the page."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string((files("analysis") / "report.html.j2").read_text("utf-8"))
    pictures = [
        {"data": base64.b64encode(p.png.read_bytes()).decode("ascii"), "caption": p.caption}
        for p in report.pictures
    ]
    return template.render(report=report, pictures=pictures) + "\n"


def write(path: Path, content: str | bytes) -> Path:
    """Write a file whole or not at all (temporary name, then rename), making its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own, since others may be making the same report.
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        partial.chmod(0o644)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def size_label(size_bytes: int) -> str:
    """``65536`` as ``64 KiB``: the largest binary unit that divides it."""
    for exponent, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size_bytes and size_bytes % (1 << exponent) == 0:
            return f"{size_bytes >> exponent} {unit}"
    return f"{size_bytes} B"


_PATTERNS: dict[str, Callable[[Any], str]] = {
    "size": lambda value: size_label(int(value)),
    "factor": lambda value: f"{value:.2f}x",
    "percent": lambda value: f"{100 * value:.2g}%",
    "ms": lambda value: f"{value * 1e3:.5g}",
    "MiB": lambda value: f"{value / (1 << 20):,.0f}",
}
"""Formats of ``Column`` beside those of Python: bytes, a factor, a short percentage, seconds shown as
milliseconds, bytes shown as MiB.
"""


def _is_absent(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value))


def _plain(value: Any, digits: int) -> str:
    if _is_absent(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return format(float(value), f".{digits}g")
    return str(value)


def _readable(value: Any, pattern: str) -> str:
    if _is_absent(value) or value == "":
        return ABSENT
    if pattern in _PATTERNS:
        return _PATTERNS[pattern](value)
    return format(value, pattern) if pattern else _plain(value, 8)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _markdown_table(item: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(_one_line(cell).replace("|", "\\|") for cell in cells) + " |"

    head = [line([column.heading for column in item.columns])]
    head.append("|" + "|".join(":---" if column.left else "---:" for column in item.columns) + "|")
    return "\n".join(head + [line(row) for row in item.rows])
