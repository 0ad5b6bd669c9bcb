// The configuration of SST comes first in every source (core issue 865).
#include <sst/core/sst_config.h>

#include "topology.hpp"

#include <map>
#include <mutex>
#include <stdexcept>
#include <tuple>

namespace hxmesh::sst {

namespace {

constexpr int kVcs = HammingMeshRouting::kVcs;
constexpr std::uint32_t kMostRouters = 1u << 24;

void require(bool condition, const std::string &field, std::uint64_t value, const std::string &allowed) {
    if (condition) return;
    throw std::invalid_argument(field + " is " + std::to_string(value) + " but must be " + allowed + ".");
}

/// `a`, once all of them have been checked.
std::uint32_t checked(std::uint32_t a, std::uint32_t b, std::uint32_t x, std::uint32_t y, std::uint32_t radix) {
    const std::uint32_t sides[] = {a, b, x, y};
    const char *const names[] = {"a", "b", "x", "y"};
    std::uint64_t accelerators = 1;
    for (int i = 0; i < 4; ++i) {
        require(sides[i] >= 1 && sides[i] < 65536, names[i], sides[i], "1 to 65535");
        accelerators *= sides[i];
        require(accelerators < kMostRouters, "a*b*x*y", accelerators, "below " + std::to_string(kMostRouters));
    }
    require(accelerators >= 2, "a*b*x*y", accelerators, "at least 2");
    require(radix >= 4 && radix < 65536 && radix % 2 == 0, "radix", radix, "even, 4 to 65534");
    return a;
}

} // namespace

HammingMesh::HammingMesh(std::uint32_t a_, std::uint32_t b_, std::uint32_t x_, std::uint32_t y_, std::uint32_t radix_)
    : a(checked(a_, b_, x_, y_, radix_)),
      b(b_),
      x(x_),
      y(y_),
      radix(radix_),
      row_(line("x", x_, radix_)),
      column_(line("y", y_, radix_)),
      routing(a_, b_, x_, y_, radix_) {}

HammingMesh::Line HammingMesh::line(const char *dimension, std::uint32_t boards, std::uint32_t radix) {
    Line made;
    if (boards == 1) return made;
    made.attachments = 2 * boards;
    made.leaves = 1;
    if (made.attachments <= radix) return made;
    const std::uint32_t half = radix / 2;
    made.leaves = (made.attachments + half - 1) / half;
    require(made.leaves <= radix, dimension, boards,
            "at most " + std::to_string(radix * std::uint64_t{radix} / 4) + ", the longest two-level line of radix " +
                std::to_string(radix));
    made.spines = (made.leaves + 1) / 2;
    // Uplink u goes to spine u % spines; where that is uneven, the busiest spine must still fit.
    while (made.leaves * ((half + made.spines - 1) / made.spines) > radix)
        ++made.spines;
    made.ports_per_leaf_at_spine = (half + made.spines - 1) / made.spines;
    return made;
}

std::uint32_t HammingMesh::routers() const {
    return accelerators() + b * y * row_.routers() + a * x * column_.routers();
}

std::vector<std::string> HammingMesh::port_groups(std::uint32_t router) const {
    if (router < accelerators()) {
        const std::uint32_t inside = router % (a * b), lx = inside % a, ly = inside / a;
        const std::string row = x > 1 ? "row" : "", column = y > 1 ? "column" : "";
        std::vector<std::string> groups(5);
        groups[HammingMeshRouting::kNorth] = ly == 0 ? column : "board";
        groups[HammingMeshRouting::kEast] = lx + 1 == a ? row : "board";
        groups[HammingMeshRouting::kSouth] = ly + 1 == b ? column : "board";
        groups[HammingMeshRouting::kWest] = lx == 0 ? row : "board";
        groups[HammingMeshRouting::kHost] = "host";
        return groups;
    }
    router -= accelerators();
    const std::uint32_t row_routers = b * y * row_.routers();
    if (router < row_routers) return line_groups(row_, router % row_.routers(), "row");
    return line_groups(column_, (router - row_routers) % column_.routers(), "column");
}

std::vector<std::string> HammingMesh::line_groups(const Line &line, std::uint32_t index, const char *group) const {
    if (line.spines == 0) return std::vector<std::string>(line.attachments, group);
    const std::uint32_t half = radix / 2;
    if (index < line.leaves) {
        std::vector<std::string> groups(radix, "uplink");
        for (std::uint32_t p = 0; p < half; ++p)
            groups[p] = index * half + p < line.attachments ? group : "";
        return groups;
    }
    const std::uint32_t spine = index - line.leaves, per_leaf = line.ports_per_leaf_at_spine;
    const std::uint32_t used = (half - spine + line.spines - 1) / line.spines;
    std::vector<std::string> groups(line.leaves * per_leaf);
    for (std::uint32_t p = 0; p < groups.size(); ++p)
        groups[p] = p % per_leaf < used ? "uplink" : "";
    return groups;
}

std::shared_ptr<const HammingMesh> HammingMesh::get(std::uint32_t a, std::uint32_t b, std::uint32_t x, std::uint32_t y,
                                                    std::uint32_t radix) {
    using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
    static std::mutex mutex;
    static std::map<Key, std::weak_ptr<const HammingMesh>> known;
    const std::lock_guard lock(mutex);
    std::weak_ptr<const HammingMesh> &slot = known[{a, b, x, y, radix}];
    std::shared_ptr<const HammingMesh> found = slot.lock();
    if (!found) slot = found = std::make_shared<const HammingMesh>(a, b, x, y, radix);
    return found;
}

Topology::Topology(SST::ComponentId_t id, SST::Params &params, int num_ports, int rtr_id, int)
    : SST::Merlin::Topology(id), router_(static_cast<std::uint32_t>(rtr_id)) {
    try {
        std::uint32_t value[5] = {0, 0, 0, 0, 64};
        const char *const names[] = {"a", "b", "x", "y", "radix"};
        for (int i = 0; i < 5; ++i) {
            const auto text = params.find<std::string>(names[i], i == 4 ? "64" : "");
            if (text.empty()) throw std::invalid_argument(std::string(names[i]) + " is missing but must be given.");
            const bool digits = text.size() <= 9 && text.find_first_not_of("0123456789") == std::string::npos;
            if (!digits) {
                const std::string allowed = i == 4 ? "even, 4 to 65534" : "1 to 65535";
                throw std::invalid_argument(std::string(names[i]) + " is " + text + " but must be " + allowed + ".");
            }
            value[i] = static_cast<std::uint32_t>(std::stoul(text));
        }
        mesh_ = HammingMesh::get(value[0], value[1], value[2], value[3], value[4]);
        require(rtr_id >= 0 && router_ < mesh_->routers(), "id of the router", router_,
                "below " + std::to_string(mesh_->routers()) + ", the number of routers");
        groups_ = mesh_->port_groups(router_);
        require(static_cast<std::size_t>(num_ports) == groups_.size(), "num_ports of router " + std::to_string(rtr_id),
                static_cast<std::uint64_t>(num_ports), std::to_string(groups_.size()));
    } catch (const std::invalid_argument &error) {
        fail(error.what());
    }
}

void Topology::fail(const std::string &sentence) const {
    output.fatal(CALL_INFO, 1, "hxmesh.topology: %s\n", sentence.c_str());
    throw std::logic_error(sentence); // not reached: fatal ends the process
}

Hop Topology::route(int port, int vc, int destination, int source) const {
    const int first = vc / kVcs * kVcs; // of the packet's virtual network
    const RouteQuery query{router_, static_cast<std::uint32_t>(port), static_cast<std::uint32_t>(vc - first),
                           static_cast<std::uint32_t>(source), static_cast<std::uint32_t>(destination)};
    // Room in the output queue of the channel that would be taken: what the authors' artifact looks at.
    return mesh_->routing.route(query, [&](std::uint32_t p, std::uint32_t v) {
        return credits_[static_cast<int>(p) * channels_ + first + static_cast<int>(v)];
    });
}

void Topology::route_packet(int port, int vc, SST::Merlin::internal_router_event *ev) {
    const Hop hop = route(port, vc, ev->getDest(), ev->getSrc());
    ev->setNextPort(hop.port);
    ev->setVC(vc / kVcs * kVcs + hop.vc);
}

SST::Merlin::internal_router_event *Topology::process_input(SST::Merlin::RtrEvent *ev) {
    // Checked where packets enter, once: a wrong number would be looked up in tables at every hop.
    const auto destination = ev->getDest();
    if (destination < 0 || destination >= static_cast<std::int64_t>(mesh_->accelerators()))
        fail("destination of a packet from endpoint " + std::to_string(router_) + " is " + std::to_string(destination) +
             " but must be 0 to " + std::to_string(mesh_->accelerators() - 1) + ".");
    auto *event = new SST::Merlin::internal_router_event(ev);
    event->setVC(event->getVN() * kVcs);
    return event;
}

void Topology::routeUntimedData(int port, SST::Merlin::internal_router_event *ev, std::vector<int> &out_ports) {
    route_packet(port, ev->getVC(), ev);
    out_ports.push_back(ev->getNextPort());
}

SST::Merlin::internal_router_event *Topology::process_UntimedData_input(SST::Merlin::RtrEvent *ev) {
    if (ev->getDest() == SST::Merlin::UNTIMED_BROADCAST_ADDR)
        fail("an endpoint broadcasts before the simulation starts, but this network delivers to single endpoints "
             "only.");
    return process_input(ev);
}

SST::Merlin::Topology::PortState Topology::getPortState(int port) const {
    const std::string &group = groups_.at(static_cast<std::size_t>(port));
    return group.empty() ? UNCONNECTED : group == "host" ? R2N : R2R;
}

std::string Topology::getPortLogicalGroup(int port) const { return groups_.at(static_cast<std::size_t>(port)); }

int Topology::getEndpointID(int port) { return getPortState(port) == R2N ? static_cast<int>(router_) : -1; }

std::pair<int, int> Topology::getDeliveryPortForEndpointID(int endpoint) {
    return {endpoint, static_cast<int>(HammingMeshRouting::kHost)};
}

void Topology::getVCsPerVN(std::vector<int> &vcs_per_vn) {
    for (int &vcs : vcs_per_vn)
        vcs = kVcs;
}

void Topology::setOutputBufferCreditArray(int const *array, int vcs) {
    credits_ = array;
    channels_ = vcs;
}

} // namespace hxmesh::sst
