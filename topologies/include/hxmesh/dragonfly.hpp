// Dragonfly: minimal routing, local - global - local (sst-elements, merlin/topology/dragonfly.cc, "minimal").
#pragma once

#include <vector>

#include "hxmesh/route.hpp"

namespace hxmesh {

/// Ports of a router: `p` hosts, a-1 local links, then global links; router = group * a + position in the group.
///
/// Two groups are joined by several cables ("slices"). Merlin picks the slice from the source endpoint alone
/// (source mod slices), which loads some cables more than others; `balanced` picks it from source and destination.
/// The virtual channel rises by one with the global link, hence two channels.
class DragonflyRouting {
  public:
    static constexpr std::uint32_t kVcs = 2;
    static constexpr bool kNeedsSource = true;

    struct Tables {
        std::vector<std::int32_t> link_offset; // [g*g+1] slices of (own group, other group)
        std::vector<std::int32_t> link_router; // position in the own group
        std::vector<std::int32_t> link_port;   // local port number there
    };

    DragonflyRouting(std::uint32_t p, std::uint32_t a, std::uint32_t g, bool balanced, Tables tables)
        : p_(p), a_(a), g_(g), balanced_(balanced), tables_(std::move(tables)) {
        if (tables_.link_offset.size() != std::size_t{g} * g + 1)
            throw std::invalid_argument("group_link_offset must have groups * groups + 1 entries");
    }

    [[nodiscard]] Hop next(const RouteQuery &q) const {
        const std::uint32_t group = q.router / a_, here = q.router % a_;
        const std::uint32_t dst_router = q.dst / p_, dst_group = dst_router / a_, there = dst_router % a_;
        // The channel rises on the far side of the global link.
        const bool from_global = q.in_port >= p_ + a_ - 1;
        const auto vc = static_cast<std::uint8_t>(q.in_vc + (from_global ? 1 : 0));
        if (dst_group == group) {
            if (there == here) return {static_cast<std::uint16_t>(q.dst % p_), vc};
            return {local_port(here, there), vc};
        }
        const std::int32_t first = tables_.link_offset[group * g_ + dst_group];
        const auto slices = static_cast<std::uint32_t>(tables_.link_offset[group * g_ + dst_group + 1] - first);
        const std::uint32_t pick = balanced_ ? (q.src + q.dst) % slices : q.src % slices;
        const auto exit = static_cast<std::uint32_t>(tables_.link_router[first + static_cast<std::int32_t>(pick)]);
        if (exit == here)
            return {static_cast<std::uint16_t>(tables_.link_port[first + static_cast<std::int32_t>(pick)]), vc};
        return {local_port(here, exit), vc};
    }

    void candidates(const RouteQuery &q, Candidates &out) const {
        const Hop hop = next(q);
        out.add(hop.port, hop.vc);
    }

    template <class Credits> [[nodiscard]] Hop route(const RouteQuery &q, Credits &&) const { return next(q); }

    /// Whether there is one way to go whatever the credits, and which.
    [[nodiscard]] bool only_hop(const RouteQuery &q, Hop &hop) const {
        hop = next(q);
        return true;
    }

  private:
    [[nodiscard]] std::uint16_t local_port(std::uint32_t here, std::uint32_t there) const {
        return static_cast<std::uint16_t>(p_ + there - (there > here ? 1 : 0));
    }

    std::uint32_t p_, a_, g_;
    bool balanced_;
    Tables tables_;
};

} // namespace hxmesh
