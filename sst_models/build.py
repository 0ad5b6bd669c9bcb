"""Compiles the element library `hxmesh` for an installed SST."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import topologies
from sst_models import locate
from sst_models.locate import Installation
from topologies.errors import ConfigError

__all__ = ["LIBRARY", "LIBRARY_VARIABLE", "build", "is_current", "library_dir", "state", "wants_motif"]

LIBRARY = "libhxmesh.so"
LIBRARY_VARIABLE = "HXMESH_SST_LIBRARY"

_ELEMENTS = Path(__file__).parent / "elements"
_HEADERS = Path(topologies.__file__).parent / "include"
_STAMP = "hxmesh-build.json"
_LOG = "build.log"


def library_dir(installation: Installation, out_dir: str | os.PathLike[str] | None = None) -> Path:
    """Folder of the library for `installation`: `out_dir`, else what the environment variable
    HXMESH_SST_LIBRARY says, else one for its version in the user's cache.
    """
    named = out_dir or os.environ.get(LIBRARY_VARIABLE)
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "hxmesh" / f"sst-{installation.version}"


def wants_motif(
    installation: Installation, elements_source: str | os.PathLike[str] | None = None
) -> Path | None:
    """Source tree to build the Ember motif from, None where there is none.

    Raises ConfigError for an `elements_source` that is not of the version of SST.
    """
    if elements_source is not None:
        source = Path(elements_source)
        if not installation.is_source(source):
            raise ConfigError(
                f"elements_source is {source} but must be a source tree of sst-elements "
                f"{installation.version}."
            )
        return source
    return installation.ember_source if "ember" in installation.libraries else None


def state(installation: Installation, directory: Path) -> str | None:
    """What is wrong with the library in `directory`, as words after "the element library", or None."""
    try:
        stamp = json.loads((directory / _STAMP).read_text())
    except (OSError, ValueError):
        stamp = None
    if not isinstance(stamp, dict) or not (directory / LIBRARY).is_file():
        return f"is not built (it would be in {directory}; run `hxmesh sst build`)"
    if (stamp.get("sst"), stamp.get("prefix")) != (installation.version, str(installation.prefix)):
        return (
            f"in {directory} is built for SST {stamp.get('sst')} in {stamp.get('prefix')} but not for SST "
            f"{installation.version} in {installation.prefix} (run `hxmesh sst build`)"
        )
    if stamp.get("code") != _code():
        return f"in {directory} is built from other sources than the present ones (run `hxmesh sst build`)"
    return None


def is_current(installation: Installation, directory: Path) -> bool:
    """Whether `directory` holds the library, complete, of the present sources and for this SST."""
    return state(installation, directory) is None


def build(
    where: str | os.PathLike[str] | Installation | None = None,
    out_dir: str | os.PathLike[str] | None = None,
    *,
    elements_source: str | os.PathLike[str] | None = None,
    jobs: int = 1,
) -> Path:
    """Compile the library, if it is not there or not current; return the folder to put on `SST_LIB_PATH`.

    `where` as for :func:`sst_models.locate.find`, or what it returned. The Ember motif is built where the
    sources of sst-elements are: at `elements_source`, or where the installed ones say they came from. `jobs`
    compilers run at the same time. Several processes may call this at once.

    Raises ConfigError without SST, Merlin's header, CMake or a compiler, for a folder that cannot be written
    and for a compilation that fails.
    """
    installation = where if isinstance(where, Installation) else locate.find(where)
    directory = library_dir(installation, out_dir)
    merlin = installation.merlin_include
    if merlin is None:
        installation.require("merlin")
        raise ConfigError(
            f"SST {installation.version} in {installation.prefix} lacks the header "
            "sst/elements/merlin/router.h; install sst-elements with its headers."
        )
    source = wants_motif(installation, elements_source)
    stamp = {
        "sst": installation.version,
        "prefix": str(installation.prefix),
        "code": _code(),
        "motif": str(source) if source else None,
    }
    # A library that is there may be somebody else's, to read only.
    if _is_built(installation, directory, stamp):
        return directory
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / ".lock").open("w")
    except OSError as error:
        raise ConfigError(f"the folder {directory} cannot be written: {error.strerror}.") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_built(installation, directory, stamp):
            return directory
        _compile(installation, directory, merlin, source, jobs)
        (directory / _STAMP).write_text(json.dumps(stamp, indent=1) + "\n")
    return directory


def _is_built(installation: Installation, directory: Path, stamp: dict[str, str | None]) -> bool:
    return is_current(installation, directory) and json.loads((directory / _STAMP).read_text()) == stamp


def _code() -> str:
    """Digest of everything that the library is compiled from."""
    digest = hashlib.sha256()
    files = [p for p in _ELEMENTS.iterdir() if p.suffix in {".cc", ".hpp", ".txt"}]
    files += (_HEADERS / "hxmesh").glob("*.hpp")
    for path in sorted(files, key=lambda p: (p.parent.name, p.name)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _cmake() -> str:
    found = shutil.which("cmake")
    if found is None:
        # The package `cmake` of Python's index brings the program, not always on the PATH.
        spec = importlib.util.find_spec("cmake")
        if spec is not None and spec.origin is not None:
            packaged = Path(spec.origin).parent / "data" / "bin" / "cmake"
            found = str(packaged) if packaged.is_file() else None
    if found is None:
        raise ConfigError(
            "the element library needs CMake to be built: no program cmake on the PATH; "
            "install CMake, or `pip install 'hxmesh[build]'`."
        )
    return found


def _compile(
    installation: Installation, directory: Path, merlin: Path, source: Path | None, jobs: int
) -> None:
    compiler = os.environ.get("CXX") or installation.compiler
    if shutil.which(compiler.split()[0]) is None:
        raise ConfigError(
            f"the element library needs the C++ compiler {compiler} that SST was built with; it is not there."
        )
    cmake = _cmake()
    configure = [
        f"-DCMAKE_CXX_COMPILER={compiler}",
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DHXMESH_SST_CONFIG={installation.sst_config.resolve()}",
        f"-DHXMESH_INCLUDE={_HEADERS}",
        f"-DHXMESH_MERLIN_INCLUDE={merlin}",
    ]
    if source is not None:
        configure.append(f"-DHXMESH_SST_ELEMENTS_SOURCE={source.resolve()}")
        configure.append(f"-DHXMESH_SST_ELEMENTS_LIBDIR={installation.require('ember')}")
    log = directory / _LOG
    # In the same folder, so that the library can be moved to its place in one step.
    with tempfile.TemporaryDirectory(dir=directory, prefix=".build-") as work:
        steps = (
            [cmake, "-S", str(_ELEMENTS), "-B", work, *configure],
            [cmake, "--build", work, "--parallel", str(jobs)],
        )
        with log.open("w") as out:
            for step in steps:
                if subprocess.run(step, stdout=out, stderr=subprocess.STDOUT, check=False).returncode == 0:
                    continue
                out.flush()
                lines = log.read_text(errors="replace").splitlines()
                error = next((line.strip() for line in lines if "error" in line.lower()), "")
                raise ConfigError(
                    f"the element library does not compile for SST {installation.version}"
                    f"{' (' + error + ')' if error else ''}; all the compiler said is in {log}."
                )
        (Path(work) / LIBRARY).replace(directory / LIBRARY)
