"""Network parameters of a simulation, with the published study's values as defaults."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from topologies.base import LinkKind, Topology
from topologies.errors import ConfigError

# Limits of the engine's packed packet header (engine/src/packets.hpp).
MAX_FLITS_PER_PACKET = 4095

# Times are 64-bit integers: a second of delay, and a byte in 8 us, leave room for all that can be simulated.
MAX_DELAY_PS = 10**12
BANDWIDTHS_BPS = (10**6, 10**18)


class NetworkParams(BaseModel):
    """Everything about the network that is not its wiring.

    Defaults are those of the HammingMesh study (SST 11.1.0 with its published artifact, Zenodo
    10.5281/zenodo.6462395): packets of 8 KiB, flits of 256 B, 40 ns links, 20 ns into and out of a router,
    32 MB of input and of output buffer per port and virtual channel, crossbar ports of 3200 Gb/s, four send
    machines per NIC, software delays of 1 ns; where the study set nothing, what Firefly does
    (measured on SST 16.0).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    packet_bytes: int = Field(8192, gt=0, le=2**30, description="Largest payload of a packet.")
    flit_bytes: int = Field(
        256, gt=0, le=2**30, description="Unit of link time and of buffer space; packets round up to it."
    )
    link_latency_ps: int = Field(
        40_000, ge=0, le=MAX_DELAY_PS, description="Time of flight of a link between routers."
    )
    host_latency_ps: int = Field(
        40_000, ge=0, le=MAX_DELAY_PS, description="Time of flight between an endpoint and its router."
    )
    router_input_latency_ps: int = Field(
        20_000, ge=0, le=MAX_DELAY_PS, description="From a router's port to its input queue."
    )
    router_output_latency_ps: int = Field(
        20_000, ge=0, le=MAX_DELAY_PS, description="From a router's output queue to its port."
    )
    crossbar_bps: int = Field(
        3_200_000_000_000,
        ge=0,
        le=BANDWIDTHS_BPS[1],
        description="Rate of each crossbar port; 0 = the crossbar never limits.",
    )
    input_buffer_bytes: int = Field(
        32_000_000, gt=0, description="Input buffer of each port and virtual channel."
    )
    output_buffer_bytes: int = Field(
        32_000_000, gt=0, description="Output buffer of each port and virtual channel."
    )
    send_machines: int = Field(
        4, ge=1, le=256, description="Messages that an endpoint sends at the same time."
    )
    send_overhead_ps: int = Field(1_000, ge=0, le=MAX_DELAY_PS, description="Processor time to start a send.")
    recv_overhead_ps: int = Field(
        0,
        ge=0,
        le=MAX_DELAY_PS,
        description="Processor time to post a receive. (With the study's settings SST 16.0's Firefly takes "
        "1.0 ns for an isend and no time for an irecv: measured.)",
    )
    match_overhead_ps: int = Field(
        1_000,
        ge=0,
        le=MAX_DELAY_PS,
        description="Processor time for each posted receive that an arrived message is compared with until "
        "its own is found (matchDelay_ns of Firefly, ctrlMsgMemory.h).",
    )
    nic_command_ps: int = Field(
        2_000,
        ge=0,
        le=MAX_DELAY_PS,
        description="Posted receives and sends are commands to the NIC; command number n, counted from the "
        "start, reaches it no sooner than n times this (latPerSend_ns of Firefly, virtNic.cc).",
    )
    nic_send_latency_ps: int = Field(
        2_000,
        ge=0,
        le=MAX_DELAY_PS,
        description="From the command of a send to the message's first packet (Firefly: 1 ns of link and "
        "txDelay_ns, nicSendMachine.cc).",
    )
    nic_recv_latency_ps: int = Field(
        2_000,
        ge=0,
        le=MAX_DELAY_PS,
        description="From a message's last packet to its matching (Firefly: rxMatchDelay_ns, "
        "nicMsgStream.cc, and 1 ns of link).",
    )
    message_header_bytes: int = Field(
        45,
        ge=0,
        le=2**31 - 1,
        description="Header in front of a message's payload (Firefly: 1 + 12 + 32 bytes, nic.h and "
        "ctrlMsgCommReq.h); a message that fills its packets gets one more for it.",
    )
    eager_limit_bytes: int = Field(
        2**31,
        ge=0,
        le=2**62,
        description="The send of a smaller message is complete when the processor is done with it, that of "
        "another one when its last packet has left (shortMsgLength of Firefly: 2 GiB in the study).",
    )
    bandwidth_bps: dict[str, int] = Field(
        default_factory=dict,
        description="Bandwidth by kind of link (host, board, row, column, uplink, local, global), where it "
        "is to differ from the topology's own.",
    )
    latency_ps: dict[str, int] = Field(
        default_factory=dict,
        description="Time of flight by kind of link (host, board, row, column, uplink, local, global), where "
        "it is to differ from host_latency and link_latency.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for field, lowest, highest in (
            ("bandwidth_bps", *BANDWIDTHS_BPS),
            ("latency_ps", 0, MAX_DELAY_PS),
        ):
            for name, value in getattr(self, field).items():
                if name.upper() not in LinkKind.__members__:
                    allowed = ", ".join(kind.name.lower() for kind in LinkKind)
                    raise ValueError(f"{field} has the kind of link {name!r}; allowed are {allowed}")
                if not lowest <= value <= highest:
                    raise ValueError(f"{field} of {name} is {value} but must be {lowest} to {highest}")
        if self.packet_bytes > self.flit_bytes * MAX_FLITS_PER_PACKET:
            raise ValueError(
                f"packet_bytes is {self.packet_bytes} but must be at most {MAX_FLITS_PER_PACKET} flits of "
                f"{self.flit_bytes} bytes"
            )
        # SST holds a packet that fits in no buffer for ever and says nothing (sst-elements issue 2555).
        whole = -(-self.packet_bytes // self.flit_bytes) * self.flit_bytes
        for name in ("input_buffer_bytes", "output_buffer_bytes"):
            size = getattr(self, name)
            if size < whole:
                raise ValueError(f"{name} is {size} but must hold a packet of {whole} bytes (in whole flits)")
            if size // self.flit_bytes >= 2**29:
                raise ValueError(
                    f"{name} is {size} but must be below {2**29} flits of {self.flit_bytes} bytes"
                )
        return self

    def link_bandwidths_bps(self, topology: Topology) -> dict[LinkKind, int]:
        """Bandwidth of each kind of link of `topology` under these parameters."""
        own = {LinkKind[name.upper()]: value for name, value in self.bandwidth_bps.items()}
        return {**topology.bandwidth_bps, **own}

    def latency_of_ps(self, kind: LinkKind) -> int:
        """Time of flight of a link of this kind."""
        usual = self.host_latency_ps if kind is LinkKind.HOST else self.link_latency_ps
        own = {LinkKind[name.upper()]: value for name, value in self.latency_ps.items()}
        return own.get(kind, usual)

    def check_against(self, topology: Topology) -> None:
        """Refuse what cannot carry the traffic of `topology`: a crossbar port slower than a port it serves.

        Raises ConfigError. (Merlin's hr_router.cc compares the router's link_bw; here every port counts.)
        """
        if not self.crossbar_bps:
            return
        present = {
            LinkKind(int(kind)) for kind in set(topology.port_kind.tolist()) if int(kind) in set(LinkKind)
        }
        bandwidths = self.link_bandwidths_bps(topology)
        fastest = max(bandwidths[kind] for kind in present)
        if self.crossbar_bps < fastest:
            raise ConfigError(
                f"crossbar_bps is {self.crossbar_bps} but must be 0 (not limiting) or at least {fastest}, "
                "the bandwidth of the fastest port."
            )
