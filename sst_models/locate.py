"""Finds an installed SST: programs, version, element libraries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from topologies.errors import ConfigError

__all__ = ["OLDEST_VERSION", "Installation", "find"]

OLDEST_VERSION = (15, 1)
"""Older ones lack what the element library is written against."""

_TIMEOUT_S = 60


@dataclass(frozen=True)
class Installation:
    """An SST that was found. Nothing but `sst-config` has been run for it."""

    sst: Path
    sst_config: Path
    sst_info: Path
    prefix: Path
    version: str
    """such as "16.0.0" """
    include: Path
    """folder of sst/core"""
    compiler: str
    """the C++ compiler that SST was built with, without options"""
    library_dirs: tuple[Path, ...]
    """folders in which SST looks for element libraries, but for `SST_LIB_PATH`"""
    sources: dict[str, Path] = field(default_factory=dict)
    """source folder of each element library that registered one, whether it exists or not"""
    source_root: Path | None = None
    """source tree of sst-elements, as registered"""

    @property
    def version_numbers(self) -> tuple[int, int]:
        """First two numbers of the version."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    @property
    def libraries(self) -> dict[str, Path]:
        """Folder of lib<name>.so of each installed element library."""
        found: dict[str, Path] = {}
        for directory in self.library_dirs:
            for library in sorted(directory.glob("lib*.so")):
                found.setdefault(library.stem.removeprefix("lib"), directory)
        return found

    def require(self, library: str) -> Path:
        """Return the folder of lib<library>.so; ConfigError if SST has no such element library."""
        found = self.libraries.get(library)
        if found is None:
            raise ConfigError(
                f"SST {self.version} in {self.prefix} has no element library {library} but must have it; "
                "install sst-elements of the same version."
            )
        return found

    @property
    def merlin_include(self) -> Path | None:
        """Folder with sst/elements/merlin/router.h, None if it is not installed."""
        header = Path("sst/elements/merlin/router.h")
        places = [self.include]
        for directory in self.library_dirs:
            # <prefix>/lib/sst-elements-library, or lib64 instead of lib
            places += [parent / "include" for parent in directory.parents[:2]]
        return next((place for place in places if (place / header).is_file()), None)

    @property
    def ember_source(self) -> Path | None:
        """Source tree of sst-elements if it is there, has Ember and is of the version of SST; else None."""
        return self.source_root if self.source_root and self.is_source(self.source_root) else None

    def is_source(self, root: Path) -> bool:
        """Whether `root` is a source tree of sst-elements with Ember, of the version of this SST."""
        if not (root / "src/sst/elements/ember/mpi/embermpigen.h").is_file():
            return False
        try:
            text = (root / "configure.ac").read_text()
        except (OSError, UnicodeDecodeError):
            return False
        stated = re.search(r"AC_INIT\(\[[^]]*\],\s*\[(\d+)\.(\d+)", text)
        return stated is not None and (int(stated[1]), int(stated[2])) == self.version_numbers


def find(where: str | os.PathLike[str] | None = None) -> Installation:
    """Return the SST at `where`: its prefix, its `sst-config`, or None for the one on the PATH.

    Raises ConfigError if there is none, it does not work, or it is older than `OLDEST_VERSION`.
    """
    sst_config = _program(where)
    settings = _settings(sst_config)
    core = settings.get("SSTCore", {})
    try:
        prefix, include = Path(core["prefix"]), Path(core["includedir"])
    except KeyError as error:
        raise ConfigError(
            f"{sst_config} does not state {error.args[0]}, so this is no SST that works."
        ) from None
    binaries = Path(core.get("bindir", sst_config.parent))
    sst = binaries / "sst"
    if not os.access(sst, os.X_OK):
        raise ConfigError(f"SST in {prefix} has no program {sst} but must have it.")
    version = _version(include)
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < OLDEST_VERSION:
        raise ConfigError(
            f"SST in {prefix} is {version} but must be {OLDEST_VERSION[0]}.{OLDEST_VERSION[1]} or later."
        )
    directories: dict[Path, None] = {}
    for group in settings.values():
        for key, value in group.items():
            if key.endswith("LIBDIR") and value and Path(value).is_dir():
                directories[Path(value)] = None
    registered = settings.get("SST_ELEMENT_LIBRARY", {}).get("SST_ELEMENT_LIBRARY_SOURCE_ROOT")
    return Installation(
        sst=sst,
        sst_config=sst_config,
        sst_info=binaries / "sst-info",
        prefix=prefix,
        version=version,
        include=include,
        compiler=(core.get("CXX") or "c++").split()[0],
        library_dirs=tuple(directories),
        sources={name: Path(value) for name, value in settings.get("SST_ELEMENT_SOURCE", {}).items()},
        source_root=Path(registered) if registered else None,
    )


def _program(where: str | os.PathLike[str] | None) -> Path:
    if where is None:
        found = shutil.which("sst-config")
        if found is None:
            raise ConfigError(
                "SST is not there: no program sst-config on the PATH; "
                "install SST or add its bin folder to the PATH."
            )
        return Path(found)
    path = Path(where)
    if path.is_file():
        return path
    for candidate in (path / "bin" / "sst-config", path / "sst-config"):
        if candidate.is_file():
            return candidate
    raise ConfigError(f"SST is not at {path}: there is no {path / 'bin' / 'sst-config'}.")


def _settings(sst_config: Path) -> dict[str, dict[str, str]]:
    """All that `sst-config` knows: {group: {key: value}}."""
    try:
        done = subprocess.run(
            [sst_config], capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{sst_config} does not work: no answer after {_TIMEOUT_S} s.") from None
    except OSError as error:
        raise ConfigError(f"{sst_config} does not work: {error.strerror}.") from None
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        why = f"exit code {done.returncode}{': ' + last[0].rstrip('.') if last else ''}"
        raise ConfigError(f"{sst_config} does not work: {why}.")
    settings: dict[str, dict[str, str]] = {}
    group: dict[str, str] = {}
    for line in done.stdout.splitlines():
        title = re.match(r"# Group: (\S+)", line)
        if title:
            group = settings.setdefault(title[1], {})
        elif "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            group[key.strip()] = value.strip()
    return settings


def _version(include: Path) -> str:
    header = include / "sst/core/sst_config.h"
    try:
        text = header.read_text(errors="replace")
    except OSError as error:
        raise ConfigError(f"the headers of SST cannot be read: {header}: {error.strerror}.") from None
    stated = re.search(r'^#define PACKAGE_VERSION "(\d+\.\d+[^"]*)"', text, re.MULTILINE)
    if stated is None:
        raise ConfigError(f"{header} does not state the version of SST.")
    return stated[1]
