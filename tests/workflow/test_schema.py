"""The configuration: what it accepts, and the one sentence with which it refuses."""

import copy
from typing import Any

import pytest

from engine import NetworkParams
from topologies import ConfigError, LinkKind
from workflow.schema import NetworkSection, edge_name, network_values, parse_study

STUDY: dict[str, Any] = {
    "name": "study",
    "experiments": [
        {
            "topologies": ["hx2mesh", {"type": "hxmesh", "x": 4, "y": 4}],
            "motif": {"type": "alltoall", "message": ["1 MiB", 64], "window": [0, 4]},
            "network": {
                "packet": "4 KiB",
                "link_latency": "10 ns",
                "bandwidth": {"board": "800 Gb/s"},
                "latency": {"row": "59 ns"},
            },
        }
    ],
}


def study(**changes: Any) -> dict[str, Any]:
    """The study with changes to its entry; a key "study" changes the study itself."""
    content = copy.deepcopy(STUDY)
    own: dict[str, Any] = changes.pop("study", {})
    content["experiments"][0] |= changes
    return content | own


def refusal(content: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_study(content, "c.yaml")
    return str(caught.value)


def test_motif_lists_multiply_out() -> None:
    choices = parse_study(STUDY).experiments[0].motif.choices()
    sizes = [(values["message_bytes"], values["window"]) for _, values in choices]
    assert sizes == [(2**20, 0), (2**20, 4), (64, 0), (64, 4)]


def test_several_motifs_share_their_parameters() -> None:
    motif = {"type": ["two-rings", "bucket"], "total": ["1 MiB", "2 MiB"]}
    choices = parse_study(study(motif=motif)).experiments[0].motif.choices()
    assert [(name, values["total_bytes"] >> 20) for name, values in choices] == [
        ("two-rings", 1),
        ("two-rings", 2),
        ("bucket", 1),
        ("bucket", 2),
    ]


def test_a_list_parameter_stays_a_list() -> None:
    motif = {"type": "alltoall", "message": 64, "shifts": [1, 3]}
    assert parse_study(study(motif=motif)).experiments[0].motif.choices() == [
        ("alltoall", {"message_bytes": 64, "shifts": [1, 3]})
    ]
    motif["shifts"] = [[1], [3, 5]]
    assert [
        values["shifts"] for _, values in parse_study(study(motif=motif)).experiments[0].motif.choices()
    ] == [
        [1],
        [3, 5],
    ]


def test_every_engine_parameter_can_be_set() -> None:
    assert set(NetworkSection.model_fields) == {edge_name(name) for name in NetworkParams.model_fields}


def test_network_values_come_under_the_engines_names_in_si_units() -> None:
    assert network_values(parse_study(STUDY).experiments[0].network) == {
        "packet_bytes": 4096,
        "link_latency_ps": 10_000,
        "bandwidth_bps": {"board": 800 * 10**9},
        "latency_ps": {"row": 59_000},
    }


@pytest.mark.parametrize(
    ("spec", "endpoints"),
    [
        ({"type": "hxmesh", "a": 2, "b": 1, "x": 3, "y": 2}, 12),
        ({"type": "hxmesh", "a": 4, "b": 4, "columns": 8, "rows": 16}, 128),
        ({"type": "torus", "columns": 4, "rows": 6}, 24),
        ({"type": "hyperx", "columns": 3, "rows": 5}, 15),
        ({"type": "dragonfly", "hosts": 2, "routers": 4, "links": 1, "groups": 3}, 24),
        ({"type": "dragonfly", "hosts": 2, "routers": 4, "global_ports": 1, "groups": 5}, 40),
        ({"type": "dragonfly", "hosts": 2, "routers": 4, "links": 1, "groups": 3, "algorithm": "ugal"}, 24),
        ({"type": "fattree", "shape": "4,2:4"}, 16),
        ({"type": "clos", "endpoints": 70, "radix": 16, "leaf_down": 8, "leaf_up": 8}, 70),
    ],
)
def test_own_topologies(spec: dict[str, Any], endpoints: int) -> None:
    entry = parse_study(
        study(topologies=[spec | {"planes": 2, "bandwidth": {"host": "100 Gb/s"}}])
    ).experiments[0]
    network = entry.networks()[0]
    assert not isinstance(network, str)
    topology = network.build()
    assert topology.num_endpoints == endpoints
    assert topology.planes == 2
    assert topology.bandwidth_bps[LinkKind.HOST] == 10**11


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (study(study={"sedes": [1]}), "c.yaml: has the unknown key 'sedes'; did you mean 'seeds'?"),
        (
            study(topolgy="torus"),
            "c.yaml: experiments[0] has the unknown key 'topolgy'; did you mean 'topology'?",
        ),
        (
            study(network={"packet_": 1}),
            "c.yaml: experiments[0].network has the unknown key 'packet_'; did you mean 'packet'?",
        ),
        (study(topologies=[{"type": "hxmesh", "radx": 1}]), "'radx'; did you mean 'radix'?"),
        (
            study(motif={"type": "alltoall", "mssage": 1}),
            "alltoall has the unknown key 'mssage'; did you mean 'message'?",
        ),
        (study(topologies=["hx2msh"]), "topology is 'hx2msh' but must be one of "),
        (study(topologies=["hx2msh"]), "did you mean 'hx2mesh'?"),
        (study(topologies=[{"type": "hxmsh"}]), "did you mean 'hxmesh'?"),
        (study(motif={"type": "altoall"}), "did you mean 'alltoall'?"),
        (study(motif={"type": "alltoall"}), "alltoall needs the key message"),
        (study(motif={"type": "alltoall", "message": "-1 MiB"}), "message: '-1 MiB' is negative"),
        (study(motif={"type": "alltoall", "message": []}), "message is an empty list"),
        (study(motif={"type": "goal"}), "goal needs the key file"),
        (study(motif="alltoall"), "experiments[0].motif is 'alltoall' but must be a mapping"),
        (study(network={"link_latency": 20}), "experiments[0].network.link_latency: 20 has no unit"),
        (study(network={"bandwidth": {"hots": "1 Gb/s"}}), "experiments[0].network.bandwidth.hots is 'hots'"),
        (study(topology="torus"), "experiments[0] must have either topologies or topology."),
        (study(topologies=[]), "experiments[0] must have either topologies or topology."),
        (study(topologies=[{"type": "hxmesh", "x": 1, "y": 1, "rows": 2}]), "must have either x and y"),
        (study(topologies=[{"type": "torus", "columns": 0, "rows": 3}]), "columns is 0 but must be greater"),
        (
            study(variants=["as-priced"]),
            "experiments[0].variants[0] is 'as-priced' but must be 'as-simulated' or",
        ),
        (study(study={"kind": "table3"}), "kind is 'table3' but must be 'table2',"),
        (study(study={"seeds": []}), "seeds is empty but must have at least one element."),
        (study(study={"experiments": []}), "experiments is empty but must have"),
        (study(study={"name": "../up"}), "name is '../up' but must be letters"),
        (None, "c.yaml: is None but must be a mapping"),
        ([1], "c.yaml: is [1] but must be a mapping"),
    ],
)
def test_refusals_name_field_value_and_what_is_allowed(content: Any, sentence: str) -> None:
    got = refusal(content)
    assert sentence in got
    assert "\n" not in got
    assert got[-1] in ".?"
