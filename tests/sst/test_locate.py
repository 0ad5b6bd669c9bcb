"""Finding SST, with stand-ins for `sst-config`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sst_models import build, locate
from topologies.errors import ConfigError

Fake = Callable[..., Path]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """Make an installation that has everything but programs that work; returns its prefix."""

    def make(version: str = "16.0.0", *, merlin: bool = True, header: bool = True, script: str = "") -> Path:
        prefix, elements = tmp_path / "sst", tmp_path / "elements"
        (prefix / "bin").mkdir(parents=True)
        (prefix / "include/sst/core").mkdir(parents=True)
        (prefix / "include/sst/core/sst_config.h").write_text(f'#define PACKAGE_VERSION "{version}"\n')
        libraries = elements / "lib/sst-elements-library"
        libraries.mkdir(parents=True)
        if merlin:
            (libraries / "libmerlin.so").touch()
        if header:
            router = elements / "include/sst/elements/merlin/router.h"
            router.parent.mkdir(parents=True)
            router.touch()
        settings = (
            "\n# Group: SSTCore ---\nCXX=no-such-compiler -std=c++17\n"
            f"prefix={prefix}\nincludedir={prefix}/include\nbindir={prefix}/bin\n"
            f"# Group: SST_ELEMENT_LIBRARY ---\nSST_ELEMENT_LIBRARY_LIBDIR={libraries}\n"
            f"SST_ELEMENT_LIBRARY_EXT_LIBDIR={libraries}/ext\n"
            f"SST_ELEMENT_LIBRARY_SOURCE_ROOT={tmp_path}/source\n"
        )
        (prefix / "settings").write_text(settings)
        for name, text in (("sst-config", script or f"cat {prefix}/settings"), ("sst", "exit 1")):
            program = prefix / "bin" / name
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)
        return prefix

    return make


def test_everything_is_found(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = fake("15.1.2")
    for where in (prefix, prefix / "bin", prefix / "bin/sst-config"):
        found = locate.find(where)
        assert (found.prefix, found.version, found.version_numbers) == (prefix, "15.1.2", (15, 1))
        assert found.compiler == "no-such-compiler"
        assert found.require("merlin").name == "sst-elements-library"
        assert found.merlin_include == prefix.parent / "elements/include"
        assert found.ember_source is None
    monkeypatch.setenv("PATH", f"{prefix}/bin{os.pathsep}{os.environ['PATH']}")
    assert locate.find() == locate.find(prefix / "bin/sst-config")


def test_nothing_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no program sst-config on the PATH"):
        locate.find()
    with pytest.raises(ConfigError, match=r"SST is not at .*: there is no .*bin/sst-config\.$"):
        locate.find(tmp_path)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo broken >&2; exit 3", r"does not work: exit code 3: broken\.$"),
        ("exit 1", r"does not work: exit code 1\.$"),
        ("echo hello", "does not state prefix, so this is no SST that works"),
    ],
)
def test_programs_that_do_not_work(fake: Fake, script: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        locate.find(fake(script=script))


def test_program_that_is_none(fake: Fake) -> None:
    prefix = fake()
    (prefix / "bin/sst-config").write_bytes(b"\x7fELF")
    with pytest.raises(ConfigError, match="does not work"):
        locate.find(prefix)


def test_too_old(fake: Fake) -> None:
    with pytest.raises(ConfigError, match=r"is 14\.1\.0 but must be 15\.1 or later"):
        locate.find(fake("14.1.0"))


def test_headers_missing(fake: Fake) -> None:
    prefix = fake()
    (prefix / "include/sst/core/sst_config.h").write_text("")
    with pytest.raises(ConfigError, match="does not state the version"):
        locate.find(prefix)
    (prefix / "include/sst/core/sst_config.h").unlink()
    with pytest.raises(ConfigError, match="headers of SST cannot be read"):
        locate.find(prefix)


def test_sst_itself_missing(fake: Fake) -> None:
    prefix = fake()
    (prefix / "bin/sst").unlink()
    with pytest.raises(ConfigError, match="has no program"):
        locate.find(prefix)


def test_merlin_missing(fake: Fake) -> None:
    found = locate.find(fake(merlin=False, header=False))
    with pytest.raises(ConfigError, match="has no element library merlin but must have it"):
        found.require("merlin")
    with pytest.raises(ConfigError, match="has no element library merlin but must have it"):
        build.build(found)


def test_header_of_merlin_missing(fake: Fake) -> None:
    with pytest.raises(ConfigError, match=r"lacks the header sst/elements/merlin/router\.h"):
        build.build(locate.find(fake(header=False)))


def test_ember_source_must_be_of_the_same_version(fake: Fake, tmp_path: Path) -> None:
    found = locate.find(fake())
    (tmp_path / "source/src/sst/elements/ember/mpi").mkdir(parents=True)
    (tmp_path / "source/src/sst/elements/ember/mpi/embermpigen.h").touch()
    for version, good in (("15.1.0", False), ("16.0.0", True)):
        (tmp_path / "source/configure.ac").write_text(f"AC_INIT([SSTElements],[{version}],[mail])\n")
        assert (found.ember_source is not None) == good
        if not good:
            with pytest.raises(ConfigError, match="must be a source tree of sst-elements 16"):
                build.wants_motif(found, tmp_path / "source")


def test_compiler_missing(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ConfigError, match=r"needs the C\+\+ compiler no-such-compiler"):
        build.build(locate.find(fake()), tmp_path / "out")


def test_cmake_missing(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = locate.find(fake())
    monkeypatch.setenv("CXX", str(found.sst))  # any program
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="needs CMake"):
        build.build(found, tmp_path / "out")


def test_compilation_that_fails(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = locate.find(fake())
    cmake = tmp_path / "bin/cmake"
    cmake.parent.mkdir()
    cmake.write_text("#!/bin/sh\necho 'fatal error: no such header'\nexit 1\n")
    cmake.chmod(0o755)
    monkeypatch.setenv("CXX", str(found.sst))
    monkeypatch.setenv("PATH", f"{cmake.parent}{os.pathsep}{os.environ['PATH']}")
    out = tmp_path / "out"
    with pytest.raises(ConfigError) as caught:
        build.build(found, out)
    assert str(caught.value) == (
        "the element library does not compile for SST 16.0.0 (fatal error: no such header); "
        f"all the compiler said is in {out}/build.log."
    )
    assert sorted(path.name for path in out.iterdir()) == [".lock", "build.log"]


def test_folder_that_cannot_be_written(fake: Fake, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"the folder .*file/out cannot be written"):
        build.build(locate.find(fake()), tmp_path / "file" / "out")


def test_state_of_the_library(fake: Fake, tmp_path: Path) -> None:
    found = locate.find(fake())
    out = tmp_path / "out"
    out.mkdir()
    assert "is not built" in str(build.state(found, out))
    (out / build.LIBRARY).touch()
    (out / "hxmesh-build.json").write_text('{"sst": "15.1.2", "prefix": "/usr/local/sst"}')
    assert "is built for SST 15.1.2 in /usr/local/sst but not for SST 16.0.0" in str(build.state(found, out))
    (out / "hxmesh-build.json").write_text(f'{{"sst": "16.0.0", "prefix": "{found.prefix}", "code": ""}}')
    assert "from other sources" in str(build.state(found, out))
    (out / "hxmesh-build.json").write_text("[")
    assert not build.is_current(found, out)


def test_usual_folder(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = locate.find(fake())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert build.library_dir(found) == tmp_path / "cache/hxmesh/sst-16.0.0"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build.library_dir(found) == tmp_path / ".cache/hxmesh/sst-16.0.0"
    assert build.library_dir(found, "here") == Path("here")
