// HammingMesh as a topology of Merlin's routers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sst/elements/merlin/router.h>

#include "hxmesh/hammingmesh.hpp"

namespace hxmesh::sst {

/// What the routers of one HammingMesh need to know; one object for all routers of a process.
struct HammingMesh {
    /// Throws std::invalid_argument with one sentence that names the wrong parameter.
    HammingMesh(std::uint32_t a, std::uint32_t b, std::uint32_t x, std::uint32_t y, std::uint32_t radix);

    /// Ports and groups of one router; `group[p]` is empty for a port without a cable.
    [[nodiscard]] std::vector<std::string> port_groups(std::uint32_t router) const;
    [[nodiscard]] std::uint32_t accelerators() const { return a * b * x * y; }
    [[nodiscard]] std::uint32_t routers() const;

    /// Shared with every router of this process that has the same parameters.
    static std::shared_ptr<const HammingMesh> get(std::uint32_t a, std::uint32_t b, std::uint32_t x, std::uint32_t y,
                                                  std::uint32_t radix);

  private:
    /// Switches of the network of one line of boards; spines is 0 where one switch suffices.
    struct Line {
        std::uint32_t attachments = 0, leaves = 0, spines = 0, ports_per_leaf_at_spine = 0;
        [[nodiscard]] std::uint32_t routers() const { return leaves + spines; }
    };
    static Line line(const char *dimension, std::uint32_t boards, std::uint32_t radix);
    [[nodiscard]] std::vector<std::string> line_groups(const Line &line, std::uint32_t index, const char *group) const;

  public:
    const std::uint32_t a, b, x, y, radix;

  private:
    Line row_, column_; // before the routing, which does not end for lines that are too long

  public:
    const HammingMeshRouting routing;
};

class Topology final : public SST::Merlin::Topology {
  public:
    SST_ELI_REGISTER_SUBCOMPONENT(Topology, "hxmesh", "topology", SST_ELI_ELEMENT_VERSION(1, 0, 0),
                                  "HammingMesh: boards of accelerators joined by one network per row and column",
                                  SST::Merlin::Topology)
    SST_ELI_DOCUMENT_PARAMS({"a", "Accelerators of a board along a row (required)."},
                            {"b", "Accelerators of a board along a column (required)."},
                            {"x", "Boards along a row (required)."}, {"y", "Boards along a column (required)."},
                            {"radix",
                             "Ports of a switch of a row or column, even, 4 or more; longer lines are two-level trees.",
                             "64"})

    Topology(SST::ComponentId_t id, SST::Params &params, int num_ports, int rtr_id, int num_vns);

    void route_packet(int port, int vc, SST::Merlin::internal_router_event *ev) override;
    SST::Merlin::internal_router_event *process_input(SST::Merlin::RtrEvent *ev) override;
    void routeUntimedData(int port, SST::Merlin::internal_router_event *ev, std::vector<int> &out_ports) override;
    SST::Merlin::internal_router_event *process_UntimedData_input(SST::Merlin::RtrEvent *ev) override;
    PortState getPortState(int port) const override;
    std::string getPortLogicalGroup(int port) const override;
    int getEndpointID(int port) override;
    std::pair<int, int> getDeliveryPortForEndpointID(int endpoint) override;
    void getVCsPerVN(std::vector<int> &vcs_per_vn) override;
    void setOutputBufferCreditArray(int const *array, int vcs) override;

  private:
    [[nodiscard]] Hop route(int port, int vc, int destination, int source) const;
    [[noreturn]] void fail(const std::string &sentence) const;

    std::shared_ptr<const HammingMesh> mesh_;
    std::vector<std::string> groups_; // [ports]
    std::uint32_t router_ = 0;
    int const *credits_ = nullptr; // [ports * channels] room in flits, live
    int channels_ = 0;
};

} // namespace hxmesh::sst
