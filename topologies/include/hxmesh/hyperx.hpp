// Direct 2D HyperX: dimension order (merlin.hyperx, algorithm DOR; sst-elements, merlin/topology/hyperx.cc).
#pragma once

#include "hxmesh/route.hpp"

namespace hxmesh {

/// Ports: to the other routers of dimension 0 (own coordinate skipped), then of dimension 1, then the host.
/// Endpoint = router = row * size0 + column. One virtual channel: dimension order in complete graphs has no cycle.
class HyperXRouting {
  public:
    static constexpr std::uint32_t kVcs = 1;
    static constexpr bool kNeedsSource = false;
    static constexpr bool kStateful = false;
    static constexpr bool kAdaptive = false;

    HyperXRouting(std::uint32_t size0, std::uint32_t size1) : size0_(size0), size1_(size1) {}

    [[nodiscard]] Hop next(const RouteQuery &q) const {
        if (q.dst == q.router) return {static_cast<std::uint16_t>(size0_ + size1_ - 2), 0};
        const std::uint32_t hx = q.router % size0_, hy = q.router / size0_;
        const std::uint32_t dx = q.dst % size0_, dy = q.dst / size0_;
        if (hx != dx) return {static_cast<std::uint16_t>(dx - (dx > hx ? 1 : 0)), 0};
        return {static_cast<std::uint16_t>(size0_ - 1 + dy - (dy > hy ? 1 : 0)), 0};
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
    std::uint32_t size0_, size1_;
};

} // namespace hxmesh
