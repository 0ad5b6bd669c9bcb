// Names for the ports of a Merlin topology that names none, so that host links can be faster than the others.
#include <sst/core/sst_config.h>

#include <sst/core/subcomponent.h>

#include <string>
#include <utility>
#include <vector>

#include "sst/elements/merlin/router.h"

namespace hxmesh_element {

using SST::Merlin::internal_router_event;
using SST::Merlin::RtrEvent;

/// Passes every call on to the topology in its own slot `topology` and answers getPortLogicalGroup from its list.
///
/// merlin.hr_router reads `link_bw:<group>` and its like for the group that the topology gives to a port. Of Merlin's
/// own topologies only the Dragonfly gives any; all ports of the others have the same bandwidth.
class PortGroups : public SST::Merlin::Topology {
  public:
    SST_ELI_REGISTER_SUBCOMPONENT(
        PortGroups, "hxmesh", "port_groups", SST_ELI_ELEMENT_VERSION(1, 0, 0),
        "Gives names to the ports of another topology, for link_bw:<name> of merlin.hr_router", SST::Merlin::Topology)

    SST_ELI_DOCUMENT_PARAMS({"groups", "Array of one name for each port of the router."})

    SST_ELI_DOCUMENT_SUBCOMPONENT_SLOTS({"topology", "The topology that routes", "SST::Merlin::Topology"})

    PortGroups(SST::ComponentId_t id, SST::Params &params, int num_ports, int rtr_id, int num_vns)
        : SST::Merlin::Topology(id) {
        params.find_array<std::string>("groups", groups_);
        if (groups_.size() != static_cast<std::size_t>(num_ports))
            output.fatal(CALL_INFO, 1, "hxmesh.port_groups: groups has %zu names but the router %d has %d ports\n",
                         groups_.size(), rtr_id, num_ports);
        inner_ = loadUserSubComponent<SST::Merlin::Topology>("topology", SST::ComponentInfo::SHARE_NONE, num_ports,
                                                             rtr_id, num_vns);
        if (inner_ == nullptr)
            output.fatal(CALL_INFO, 1, "hxmesh.port_groups: the topology of router %d cannot be loaded\n", rtr_id);
    }

    void route_packet(int port, int vc, internal_router_event *ev) override { inner_->route_packet(port, vc, ev); }
    internal_router_event *process_input(RtrEvent *ev) override { return inner_->process_input(ev); }
    std::pair<int, int> getDeliveryPortForEndpointID(int endpoint) override {
        return inner_->getDeliveryPortForEndpointID(endpoint);
    }
    int routeControlPacket(SST::Merlin::CtrlRtrEvent *ev) override { return inner_->routeControlPacket(ev); }
    PortState getPortState(int port) const override { return inner_->getPortState(port); }
    std::string getPortLogicalGroup(int port) const override { return groups_[static_cast<std::size_t>(port)]; }
    void routeUntimedData(int port, internal_router_event *ev, std::vector<int> &out) override {
        inner_->routeUntimedData(port, ev, out);
    }
    internal_router_event *process_UntimedData_input(RtrEvent *ev) override {
        return inner_->process_UntimedData_input(ev);
    }
    void getVCsPerVN(std::vector<int> &vcs) override { inner_->getVCsPerVN(vcs); }
    int getEndpointID(int port) override { return inner_->getEndpointID(port); }
    void setOutputBufferCreditArray(int const *array, int vcs) override {
        inner_->setOutputBufferCreditArray(array, vcs);
    }
    void setOutputQueueLengthsArray(int const *array, int vcs) override {
        inner_->setOutputQueueLengthsArray(array, vcs);
    }
    void recvTopologyEvent(int port, SST::Merlin::TopologyEvent *ev) override { inner_->recvTopologyEvent(port, ev); }

  private:
    SST::Merlin::Topology *inner_ = nullptr;
    std::vector<std::string> groups_;
};

} // namespace hxmesh_element
