"""Records and statistics of a run, and what is said about one that failed; without SST."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import motifs
from engine import NetworkParams
from sst_models.read import link_table, read_records, read_result, read_statistics
from sst_models.render import ReplayWorkload, render
from sst_models.run import Outcome, RunOptions, read_manifest, run
from sst_models.run import _explain as explain
from topologies import ConfigError, Torus2D

HEADER = "rank,bytes_sent,bytes_received,start_ps,end_ps,waiting_for\n"


def manifest(ranks: int = 2, **more: Any) -> dict[str, Any]:
    return {"ranks": ranks, "records": "replay", "motifs": 0} | more


def write(directory: Path, **files: str) -> Path:
    (directory / "records").mkdir(exist_ok=True)
    for name, text in files.items():
        (directory / "records" / name.replace("_of_", "-of-").replace("ranks_", "ranks-")).with_suffix(
            ".csv"
        ).write_text(HEADER + text)
    return directory


def test_complete_records(tmp_path: Path) -> None:
    write(tmp_path, ranks_0_of_2="1,10,20,5,7000,\n", ranks_1_of_2="0,20,10,0,9000,\n")
    records = read_records(tmp_path, manifest())
    assert records.complete
    assert records.simulated_time_ps == 9000
    assert records.bytes_sent.tolist() == [20, 10]
    assert records.start_ps.tolist() == [0, 5]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "no rank has left a record"),
        ({"ranks_0_of_1": "0,1,1,0,5,\n"}, "rank 1 has no record"),
        ({"ranks_0_of_1": "0,1,1,0,5,\n0,1,1,0,5,\n1,1,1,0,5,\n"}, "rank 0 has two records"),
        ({"ranks_0_of_2": "0,1,1,0,5,\n1,1,1,0,5,\n"}, "there are 1 files of records but should be 2"),
        ({"ranks_0_of_1": "0,1,1,0\n"}, "cannot be read"),
        ({"ranks_0_of_1": "7,1,1,0,5,\n"}, "cannot be read"),
        ({"ranks_0_of_1": "0,1,1,0,5,\n1,1,0,0,-1,receive from rank 0 (operation 3)\n"},
         r"rank 1 waits for receive from rank 0 \(operation 3\)"),
    ],
)  # fmt: skip
def test_incomplete_records(files: dict[str, str], words: str, tmp_path: Path) -> None:
    records = read_records(write(tmp_path, **files), manifest())
    assert not records.complete
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(records.waiting())


def test_many_waiting_ranks_are_counted(tmp_path: Path) -> None:
    lines = "".join(f"{rank},0,0,0,-1,send to rank 9 (operation 0)\n" for rank in range(10))
    assert read_records(write(tmp_path, ranks_0_of_1=lines), manifest(10)).waiting().endswith("and 6 more")


def test_motif_log(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    log = tmp_path / "records" / "motifs.log"
    lines = [
        "0 0 0 Init 0 s 1.5 us",
        "0 1 0 Init 0 s 1.25 us",
        "0 0 1  1.5 us 3.25 us",  # the motif Random has no name
        "0 1 1 Random 1.25 us 3 us",
        "0 0 2 Fini 3.25 us 3.5 us",
    ]
    log.write_text("\n".join(lines) + "\n")
    asked = manifest(records="motif log", motifs=3)
    records = read_records(tmp_path, asked)
    assert not records.complete
    assert records.waiting() == "rank 1 waits for the end of motif 2"
    log.write_text("\n".join([*lines, "0 1 2 Fini 3 us 4 us"]) + "\n")
    records = read_records(tmp_path, asked)
    assert records.complete
    assert records.end_ps.tolist() == [3_500_000, 4_000_000]
    assert records.start_ps.tolist() == [1_500_000, 1_250_000]


STATISTICS = (
    "ComponentName,StatisticName,StatisticSubId,StatisticType,SimTime,Rank,"
    "Sum.u64,SumSQ.u64,Count.u64,Min.u64,Max.u64\n"
)


def statistics(torus: Torus2D) -> str:
    """One packet of 32 flits from endpoint 0 to endpoint 1 on a torus of 2x2."""
    del torus
    bits = 32 * 256 * 8
    return STATISTICS + "".join(
        f"{name},{what},{port},Accumulator,9,0,{value},{value},1,{value},{value}\n"
        for name, port in (("router0", "port0"), ("router1", "port4"), ("endpoint0", ""))
        for what, value in (("send_bit_count", bits), ("send_packet_count", 1))
        if name != "endpoint0" or what == "send_bit_count"
    )


def test_link_table(tmp_path: Path) -> None:
    torus = Torus2D(2, 2)
    (tmp_path / "statistics.csv").write_text(statistics(torus))
    table = link_table(read_statistics(tmp_path), torus, NetworkParams())
    used = table[table["packets"] > 0]
    assert used[["router", "port", "peer_router", "packets", "flits"]].to_numpy().tolist() == [
        [0, 0, 1, 1, 32],
        [1, 4, -2, 1, 32],
        [-1, 0, 0, 1, 32],
    ]
    assert used["busy_ps"].tolist() == [163840, 40960, 40960]
    assert len(table) == 4 * 5 + 4


def test_one_file_for_each_process(tmp_path: Path) -> None:
    lines = statistics(Torus2D(2, 2)).splitlines(keepends=True)
    (tmp_path / "statistics_0.csv").write_text("".join(lines[:3]))
    (tmp_path / "statistics_1.csv").write_text(lines[0] + "".join(lines[3:]))
    assert len(read_statistics(tmp_path)) == 5


def outcome(directory: Path, asked: dict[str, Any]) -> Outcome:
    return Outcome("complete", "", 1.5, 2**20, "16.0.0", read_records(directory, asked))


def test_cut_statistics_are_no_result(tmp_path: Path) -> None:
    torus = Torus2D(2, 2)
    render(tmp_path, torus, ReplayWorkload(motifs.build("alltoall", torus, message_bytes=8192)))
    asked = read_manifest(tmp_path)
    write(tmp_path, ranks_0_of_1="".join(f"{rank},24576,24576,0,5,\n" for rank in range(4)))
    whole = statistics(torus)
    (tmp_path / "statistics.csv").write_text(whole)
    result = read_result(tmp_path, asked, outcome(tmp_path, asked), torus)
    assert (result.status, result.packets, result.packet_hops, result.messages) == ("complete", 1, 3, 12)
    assert (result.engine, result.versions["sst"], result.bytes_delivered) == ("sst", "16.0.0", 4 * 24576)
    for cut in (len(whole) - 60, len(STATISTICS) + 30, 0):
        (tmp_path / "statistics.csv").write_text(whole[:cut])
        result = read_result(tmp_path, asked, outcome(tmp_path, asked), torus)
        assert result.status == "failed"
        assert "is the disk full?" in result.message


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("FATAL: # SST Core: something is wrong\nSST Fatal Backtrace", 1, "SST gave up: something is wrong."),
        (
            "Traceback (most recent call last):\n  File \"config.py\", line 3\nKeyError: 'x'\n"
            "FATAL: SSTPythonModel: Execution of model construction function failed\n",
            1,
            "config.py failed: KeyError: 'x'.",
        ),
        ("dlopen: libhxmesh.so: undefined symbol: _ZN3SST", 1, "an element library cannot be loaded"),
        ("mpirun noticed that process rank 1 exited on signal 9 (Killed).", 137, "killed by SIGKILL"),
        ("", -11, "killed by SIGSEGV"),
        ("There are not enough slots available in the system", 1, "fewer slots than ranks"),
        ("mpirun has detected an attempt to run as root.", 1, "refuses to run as root"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", -6, "ran out of memory"),
        ("", 0, "ended with code 0 without complete records; rank 0 did not end."),
    ],
)
def test_sentences(text: str, code: int, words: str) -> None:
    sentence = explain(text, code, "rank 0 did not end")
    assert words in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_no_run_and_no_sst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="is no directory of a run for SST"):
        run(tmp_path)
    torus = Torus2D(2, 2)
    render(tmp_path, torus, ReplayWorkload(motifs.build("alltoall", torus, message_bytes=8192)))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="SST is not there"):
        run(tmp_path)


def test_sst_without_merlin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sst_models import locate

    torus = Torus2D(2, 2)
    render(tmp_path, torus, ReplayWorkload(motifs.build("alltoall", torus, message_bytes=8192)))
    bare = locate.Installation(
        sst=tmp_path / "sst",
        sst_config=tmp_path / "sst-config",
        sst_info=tmp_path / "sst-info",
        prefix=tmp_path,
        version="16.0.0",
        include=tmp_path,
        compiler="c++",
        library_dirs=(),
    )
    monkeypatch.setattr(locate, "find", lambda where=None: bare)
    with pytest.raises(ConfigError, match="no element library merlin"):
        run(tmp_path)
    monkeypatch.setattr(locate, "find", lambda where=None: dataclasses.replace(bare, version="15.1.2"))
    with pytest.raises(ConfigError, match=r"prepared for SST 16\.0 but SST is 15\.1\.2"):
        run(tmp_path, RunOptions())


def test_arrays_are_whole_numbers(tmp_path: Path) -> None:
    write(tmp_path, ranks_0_of_1="0,1,1,0,5,\n1,1,1,0,5,\n")
    assert read_records(tmp_path, manifest()).end_ps.dtype == np.int64
