// 2D torus: dimension order with a dateline, as merlin.torus routes (sst-elements, merlin/topology/torus.cc).
#pragma once

#include <array>
#include <vector>

#include "hxmesh/route.hpp"

namespace hxmesh {

/// Ports: 0 = +x, 1 = -x, 2 = +y, 3 = -y, 4 = host; endpoint = router = row * size0 + column.
///
/// Two virtual channels: a packet that passes coordinate 0 of the ring it travels changes channel, so neither
/// channel's dependencies close a ring. When both ways round are equally long Merlin always goes the positive
/// way; `balanced` alternates by the parity of the router's coordinates instead.
class TorusRouting {
  public:
    static constexpr std::uint32_t kVcs = 2;
    static constexpr bool kNeedsSource = false;
    static constexpr bool kStateful = false;
    static constexpr bool kAdaptive = false;
    static constexpr std::uint32_t kHostPort = 4;

    TorusRouting(std::uint32_t size0, std::uint32_t size1, bool balanced) : size_{size0, size1}, balanced_(balanced) {
        for (std::uint32_t r = 0; r < size0 * size1; ++r)
            at_.push_back({static_cast<std::uint16_t>(r % size0), static_cast<std::uint16_t>(r / size0)});
    }

    [[nodiscard]] Hop next(const RouteQuery &q) const {
        if (q.dst == q.router) return {kHostPort, static_cast<std::uint8_t>(q.in_vc)};
        const auto &here = at_[q.router];
        const auto &there = at_[q.dst];
        const std::uint32_t dim = here[0] != there[0] ? 0 : 1;
        const std::uint32_t n = size_[dim];
        const std::uint32_t up = static_cast<std::uint32_t>(there[dim]) - here[dim] + (there[dim] >= here[dim] ? 0 : n);
        const std::uint32_t down = n - up;
        bool positive = up <= down;
        if (balanced_ && up == down) positive = ((here[0] + here[1]) & 1) == 0;
        // Channel 0 from the start of a ring, the other one from coordinate 0 on. A packet that turns at coordinate 0
        // takes the opposite of its old channel: so does Merlin, and it is as safe, since it does not pass 0 again.
        const bool transit = q.in_port < kHostPort;
        const bool in_ring = transit && q.in_port / 2 == dim;
        std::uint32_t vc = in_ring ? q.in_vc : 0;
        if (transit && here[dim] == 0) vc = q.in_vc ^ 1u;
        return {static_cast<std::uint16_t>(2 * dim + (positive ? 0 : 1)), static_cast<std::uint8_t>(vc)};
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
    std::uint32_t size_[2];
    bool balanced_;
    std::vector<std::array<std::uint16_t, 2>> at_; // [routers] coordinates: a division costs more than a look-up
};

} // namespace hxmesh
