"""Names against what the elements of a version declare; Ember's motifs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sst_models import ember, parameters
from sst_models.ember import Motif
from topologies import ConfigError

USED = (
    "merlin.hr_router", "merlin.linkcontrol", "merlin.reorderlinkcontrol", "merlin.fattree", "merlin.torus",
    "merlin.hyperx", "merlin.dragonfly", "merlin.xbar_arb_lru", "merlin.xbar_arb_lru_infx", "firefly.nic",
    "firefly.loopBack", "firefly.hades", "firefly.VirtNic", "firefly.CtrlMsgProto", "firefly.ctrlMsg",
    "ember.EmberEngine", "ember.InitMotif", "ember.FiniMotif", "ember.AlltoallMotif", "ember.AllreduceMotif",
    "ember.Halo2DMotif",
)  # fmt: skip


@pytest.mark.parametrize("version", parameters.VERSIONS)
def test_every_element_that_is_used_is_known(version: str) -> None:
    for element in USED:
        parameters.check(version, element, ())


def test_names() -> None:
    parameters.check("16.0", "merlin.hr_router", ["link_bw", "link_bw:host", "portcontrol.output_arb"])
    with pytest.raises(ConfigError, match="did you mean 'flit_size'"):
        parameters.check("16.0", "merlin.hr_router", ["flit_sise"])
    with pytest.raises(ConfigError, match=r"did you mean .merlin\.torus."):
        parameters.check("16.0", "merlin.tours", [])
    with pytest.raises(ConfigError, match="did you mean 'send_bit_count'"):
        parameters.check_statistics("15.1", "merlin.hr_router", ["send_bits_count"])
    with pytest.raises(ConfigError, match=r"17\.0\.0"):
        parameters.series("17.0.0")
    assert parameters.series("15.1.2") == "15.1"


def test_motifs() -> None:
    assert {"Init", "Fini", "Alltoall", "Allreduce", "Halo2D", "Halo3D", "Ring"} <= set(ember.names("16.0"))
    motif = Motif.parse("Halo2D iterations=3 sizex=4 sizey=2")
    assert motif.element == "ember.Halo2DMotif"
    ember.check([Motif("Init"), motif, Motif("Fini")], 8, "16.0")
    assert Motif.parse("hxmesh.Replay schedule=a").element == "hxmesh.ReplayMotif"


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["Init", "AlltoAll bytes=1", "Fini"], "did you mean 'Alltoall'"),
        (["Init", "Alltoall byte=1", "Fini"], "did you mean 'bytes'"),
        (["Init", "Alltoall bytes=4KiB", "Fini"], "must be a whole number"),
        (["Init", "Alltoall bytes", "Fini"], "must have name=value"),
        (["Init", "Halo2D sizex=4 sizey=4", "Fini"], "is 16 but must be 8"),
        (["Init", "FFT3D nx=8 ny=8 nz=8", "Fini"], "needs the argument npRow"),
        (["Init", "Stop", "Fini"], "ends the whole simulation"),
        (["Alltoall bytes=1", "Fini"], "must begin with Init"),
        (["Init", "Alltoall bytes=1"], "end with Fini"),
        (["Init", "Barrier what=1", "Fini"], "known are"),
        ([], "at least one"),
    ],
)
def test_wrong_motifs(texts: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ember.check([Motif.parse(text) for text in texts], 8, "16.0")


@pytest.mark.sst
def test_lists_are_those_of_the_installed_version(tmp_path: Path) -> None:
    if shutil.which("sst-info") is None:
        pytest.skip("no program sst-info on the PATH")
    from sst_models import locate
    from sst_models.parameters.extract import from_xml

    files = []
    for library in ("merlin", "ember", "firefly"):
        files.append(tmp_path / f"{library}.xml")
        subprocess.run(["sst-info", "-x", "-o", files[-1], library], check=True, capture_output=True)
    known = parameters.elements(locate.find().version)
    for name, element in from_xml(files).items():
        if name in known:
            assert dict(known[name].parameters) == element["parameters"], name
