// What the engine is told of a network: wiring, link speeds, buffer sizes, endpoint costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calendar.hpp"
#include "hxmesh/endpoint.hpp"

namespace hxmesh::engine {

/// Arrays of topologies.base.Topology; see there for their meaning.
struct Wiring {
    std::vector<std::int64_t> port_offset;     // [routers + 1]
    std::vector<std::int32_t> port_peer;       // [ports]
    std::vector<std::uint8_t> port_kind;       // [ports]
    std::vector<std::int32_t> endpoint_router; // [endpoints]
    std::vector<std::int32_t> endpoint_port;   // [endpoints]
};

/// Resolved parameters; engine.NetworkParams documents them.
struct Parameters {
    std::int64_t packet_bytes = 8192;
    std::int64_t flit_bytes = 256;
    std::vector<std::int64_t> bandwidth_bps; // [kinds], one direction
    std::vector<std::int64_t> latency_ps;    // [kinds], of the cable alone
    TimePs router_input_latency_ps = 0;
    TimePs router_output_latency_ps = 0;
    std::int64_t crossbar_bps = 0;        // of each port of the crossbar; 0 = not limiting
    std::int64_t input_buffer_bytes = 0;  // of each port and virtual channel
    std::int64_t output_buffer_bytes = 0; // of each port and virtual channel
    std::int32_t send_machines = 1;
    EndpointCosts costs;
    std::uint64_t seed = 0; // of what a routing function draws
};

} // namespace hxmesh::engine
