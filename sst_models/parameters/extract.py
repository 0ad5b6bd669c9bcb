"""Makes the parameter lists beside this file: what each element of an SST version declares.

Maintenance only; a run reads the lists. From an installed SST:

    sst-info -x -o merlin.xml merlin; sst-info -x -o ember.xml ember; sst-info -x -o firefly.xml firefly
    python -m sst_models.parameters.extract --version 16.0 --xml merlin.xml ember.xml firefly.xml

From a source tree of sst-elements, where the version is not installed:

    python -m sst_models.parameters.extract --version 15.1 --sources sst-elements/src/sst/elements
"""

from __future__ import annotations

import argparse
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIBRARIES = ("merlin", "ember", "firefly")

# Ember's one-sided motifs need Firefly's SHMEM and are not offered.
_LEFT_OUT = re.compile(r"^ember\.Shmem|^ember\..*Lib$|^merlin\.(Bridge|polar)")

_WHAT = {"Parameter": "parameters", "Statistic": "statistics", "Port": "ports", "SubComponentSlot": "slots"}

Elements = dict[str, dict[str, Any]]


def from_xml(files: Iterable[Path]) -> Elements:
    """What `sst-info -x` wrote: {"merlin.hr_router": {"parameters": {name: default}, "ports": [...]}}."""
    found: Elements = {}
    for file in files:
        for library in ElementTree.parse(file).getroot().iter("Element"):
            for item in library:
                if item.tag not in ("Component", "SubComponent", "Module"):
                    continue
                element: dict[str, Any] = {"parameters": {}}
                for tag, key in _WHAT.items():
                    names = [child.get("Name", "") for child in item.findall(tag)]
                    if tag == "Parameter":
                        values = [child.get("Default", "") for child in item.findall(tag)]
                        element[key] = dict(zip(names, values, strict=True))
                    elif names:
                        element[key] = names
                found[f"{library.get('Name')}.{item.get('Name')}"] = element
    return found


@dataclass
class _Class:
    """A C++ class that is an element, an interface of elements, or both."""

    registered: str = ""
    interface: str = ""
    """interface that the element implements, or that the class is"""
    declares: dict[str, list[list[str]]] = field(default_factory=dict)


_MACROS = {
    "SST_ELI_DOCUMENT_PARAMS": "parameters",
    "SST_ELI_DOCUMENT_STATISTICS": "statistics",
    "SST_ELI_DOCUMENT_PORTS": "ports",
    "SST_ELI_DOCUMENT_SUBCOMPONENT_SLOTS": "slots",
}


def from_sources(elements: Path) -> Elements:
    """The same from the ELI macros of the C++ sources below `elements`."""
    classes: list[_Class] = []
    interfaces: dict[str, dict[str, list[list[str]]]] = {}
    for library in LIBRARIES:
        for source in sorted((elements / library).rglob("*")):
            if source.suffix not in (".h", ".cc", ".hpp"):
                continue
            for known in _classes(source.read_text(encoding="utf-8", errors="replace")):
                if known.registered:
                    classes.append(known)
                else:
                    interfaces[known.interface] = known.declares
    out: Elements = {}
    for known in classes:
        element: dict[str, Any] = {"parameters": {}}
        inherited = interfaces.get(known.interface, {})
        for key in _MACROS.values():
            entries = [*known.declares.get(key, []), *inherited.get(key, [])]
            if key == "parameters":
                element[key] = {entry[0]: entry[2] if len(entry) > 2 else "none" for entry in entries}
            elif entries:
                element[key] = list(dict.fromkeys(entry[0] for entry in entries))
        out[known.registered] = element
    return out


_HEAD = re.compile(r"\b(?:class|struct)\s+(\w+)\s*(?:final\s*)?(?::[^{};]*)?\{")


def _classes(text: str) -> Iterator[_Class]:
    """The elements among the classes of a source file."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r'("(?:\\.|[^"\\\n])*")|//[^\n]*', lambda match: match.group(1) or "", text)
    heads = list(_HEAD.finditer(text))
    for number, head in enumerate(heads):
        end = heads[number + 1].start() if number + 1 < len(heads) else len(text)
        body = text[head.end() : end]
        registered = re.search(
            r"SST_ELI_REGISTER_(?:COMPONENT|SUBCOMPONENT|MODULE)(?:_DERIVED)?\s*\(([^;{]*?)\n\s*\)", body
        ) or re.search(
            r"SST_ELI_REGISTER_(?:COMPONENT|SUBCOMPONENT|MODULE)(?:_DERIVED)?\s*\(([^)]*\)[^)]*)\)", body
        )
        api = re.search(r"SST_ELI_REGISTER_(?:SUBCOMPONENT|MODULE)(?:_DERIVED)?_API\s*\(([\w: ]+)", body)
        if registered:
            interface = registered[1].split(",")[-1]
            found = _Class(".".join(re.findall(r'"([^"]*)"', registered[1])[:2]), _last(interface))
        elif api:
            found = _Class(interface=_last(api[1]))
        else:
            continue
        for macro, key in _MACROS.items():
            at = re.search(rf"\b{macro}\s*\(", body)
            if at:
                found.declares[key] = _entries(body, at.end())
        yield found


def _last(name: str) -> str:
    return name.split("::")[-1].strip(" )\n")


def _entries(body: str, start: int) -> list[list[str]]:
    """The {...} groups of a macro's argument, as lists of their strings."""
    entries: list[list[str]] = []
    depth, at, parens = 0, start, 1
    current: list[str] = []
    joined = False  # adjacent string literals are one
    for token in re.finditer(r'"((?:\\.|[^"\\])*)"|[{}(),]', body[at:]):
        mark = token[0]
        if mark == "{":
            depth += 1
            if depth == 1:
                current = []
            joined = False
        elif mark == "}":
            depth -= 1
            if depth == 0 and current:
                entries.append(current)
            joined = False
        elif mark == "(":
            parens += 1
        elif mark == ")":
            parens -= 1
            if parens == 0:
                break
        elif mark == ",":
            joined = False
        elif depth == 1:
            if joined:
                current[-1] += token[1]
            else:
                current.append(token[1])
            joined = True
    return entries


def main() -> None:
    """Write the list of one version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--xml", nargs="*", type=Path, default=[])
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--origin", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = from_sources(options.sources) if options.sources else from_xml(options.xml)
    kept = {name: found[name] for name in sorted(found) if not _LEFT_OUT.search(name)}
    origin = options.origin or ("ELI macros of the sources" if options.sources else "sst-info -x")
    content = {"version": options.version, "origin": origin, "elements": kept}
    out = options.out or Path(__file__).with_name(f"{options.version}.json")
    out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
