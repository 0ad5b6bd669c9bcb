// Fat tree of any depth and taper: up by D-mod-k or adaptively, then down (sst-elements, merlin/topology/fattree.cc).
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "hxmesh/route.hpp"

namespace hxmesh {

/// Switches are numbered level by level, leaves first; down ports come first, then up ports.
///
/// Up: Merlin's D-mod-k takes up port (dst / level_divisor[level]) mod up_ports. With `adaptive` a packet leaves that
/// port for the one with most credits once less than half of its output buffer is free (Merlin's default threshold).
/// In costed trees the last pod may have fewer uplinks than there are top switches; a port whose switch does not
/// reach the destination is passed over.
/// Down: the ports to the child that holds the destination's leaf; of parallel ones (Merlin's trees have none) the one
/// with the number of the one that the packet came up by.
/// Up, then down has no cyclic dependency, so one virtual channel does.
class FatTreeRouting {
  public:
    static constexpr std::uint32_t kVcs = 1;
    static constexpr bool kNeedsSource = false;
    static constexpr bool kStateful = false;
    static constexpr bool kAdaptive = true;
    static constexpr bool kMayRepeat = true; // queues of regular traffic seldom fill half a buffer

    struct Tables {
        std::vector<std::uint8_t> level;            // [switches]
        std::vector<std::int32_t> down_ports;       // [switches]
        std::vector<std::int32_t> up_ports;         // [switches]
        std::vector<std::int32_t> first_leaf;       // [switches] leaves below, inclusive range
        std::vector<std::int32_t> last_leaf;        // [switches]
        std::vector<std::int32_t> child_span;       // [switches] leaves per child
        std::vector<std::int32_t> child_offset;     // [switches + 1]
        std::vector<std::int32_t> child_first_port; // [children]
        std::vector<std::int32_t> child_count;      // [children] parallel links, 0 = not linked
        std::vector<std::int32_t> level_divisor;    // [levels]
        std::vector<std::int32_t> up_switch_offset; // [switches + 1]
        std::vector<std::int32_t> up_switch;        // switch at the other end of each up port
    };

    FatTreeRouting(std::uint32_t hosts_per_leaf, bool adaptive, Tables tables)
        : d0_(hosts_per_leaf), adaptive_(adaptive), t_(std::move(tables)) {
        const std::size_t n = t_.level.size();
        if (t_.down_ports.size() != n || t_.up_ports.size() != n || t_.first_leaf.size() != n ||
            t_.last_leaf.size() != n || t_.child_span.size() != n || t_.child_offset.size() != n + 1 ||
            t_.up_switch_offset.size() != n + 1)
            throw std::invalid_argument("fat tree tables must have one entry per switch");
        cable_offset_.resize(n);
        for (std::size_t s = 0; s < n; ++s) {
            cable_offset_[s] = cable_.size();
            for (std::int32_t c = t_.child_offset[s]; c < t_.child_offset[s + 1]; ++c)
                for (std::int32_t k = 0; k < t_.child_count[c]; ++k)
                    cable_.push_back(static_cast<std::uint16_t>(k));
        }
        some_up_is_partial_.resize(n, 0);
        for (std::size_t s = 0; s < n; ++s)
            for (std::int32_t i = t_.up_switch_offset[s]; i < t_.up_switch_offset[s + 1]; ++i)
                if (is_partial(static_cast<std::size_t>(t_.up_switch[i]))) some_up_is_partial_[s] = 1;
    }

    /// The port that deterministic routing takes.
    [[nodiscard]] Hop next(const RouteQuery &q) const {
        const std::uint32_t s = q.router;
        const std::uint32_t leaf = q.dst / d0_;
        if (is_below(s, leaf)) {
            const std::uint32_t within = q.dst - leaf * d0_;
            if (t_.level[s] == 0) return {static_cast<std::uint16_t>(within), 0};
            const std::size_t c = child(s, leaf);
            const auto links = static_cast<std::uint32_t>(t_.child_count[c]);
            const std::uint32_t pick = links > 1 ? parallel(q, leaf, within, links) % links : 0;
            return {static_cast<std::uint16_t>(static_cast<std::uint32_t>(t_.child_first_port[c]) + pick), 0};
        }
        const auto ups = static_cast<std::uint32_t>(t_.up_ports[s]);
        std::uint32_t up = q.dst / static_cast<std::uint32_t>(t_.level_divisor[t_.level[s]]) % ups;
        if (some_up_is_partial_[s])
            for (std::uint32_t tried = 0; tried < ups && !reaches(s, up, leaf); ++tried)
                up = (up + 1) % ups;
        return {static_cast<std::uint16_t>(static_cast<std::uint32_t>(t_.down_ports[s]) + up), 0};
    }

    void candidates(const RouteQuery &q, Candidates &out) const {
        const Hop hop = next(q);
        out.add(hop.port, hop.vc);
        if (!adaptive_ || is_below(q.router, q.dst / d0_)) return;
        const auto down = static_cast<std::uint32_t>(t_.down_ports[q.router]);
        const auto ups = static_cast<std::uint32_t>(t_.up_ports[q.router]);
        // Where some switch above is partial only the deterministic port is known to lead on.
        if (!some_up_is_partial_[q.router]) out.add_run(down, ups, 0);
    }

    template <class Credits> [[nodiscard]] Hop route(const RouteQuery &q, Credits &&credits) const {
        const Hop hop = next(q);
        if (!adaptive_ || credits(hop.port, hop.vc) >= credits.capacity() / 2) return hop;
        Candidates all;
        candidates(q, all);
        return most_credits(all, credits);
    }

    /// Whether there is one way to go whatever the credits, and which.
    [[nodiscard]] bool only_hop(const RouteQuery &q, Hop &hop) const {
        if (adaptive_ && !is_below(q.router, q.dst / d0_)) return false;
        hop = next(q);
        return true;
    }

  private:
    /// Which of `links` parallel cables leads down to the child that holds `leaf`, modulo `links`.
    [[nodiscard]] std::uint32_t parallel(const RouteQuery &q, std::uint32_t leaf, std::uint32_t within,
                                         std::uint32_t links) const {
        const auto ups = static_cast<std::uint32_t>(t_.up_ports[leaf]);
        // Where the packet turns it keeps the number of its cable: the sources' uplinks are evenly used, so the cables
        // down are. The leaves may have different numbers of cables here; one further for each round of the
        // destinations round the uplinks, the longer side's surplus falls on all of the shorter side's.
        if (q.in_port < static_cast<std::uint32_t>(t_.down_ports[q.router]))
            return cable_[cable_offset_[q.router] + q.in_port] + within / ups;
        // Further down a switch has every (ups / links)-th destination of a leaf, or all of them where the wiring is
        // staggered: taking the quotient uses parallel cables evenly in both cases.
        return within / std::max(1u, ups / links);
    }

    [[nodiscard]] bool is_below(std::uint32_t s, std::uint32_t leaf) const {
        return leaf >= static_cast<std::uint32_t>(t_.first_leaf[s]) &&
               leaf <= static_cast<std::uint32_t>(t_.last_leaf[s]);
    }

    [[nodiscard]] std::size_t child(std::uint32_t s, std::uint32_t leaf) const {
        const std::uint32_t index =
            (leaf - static_cast<std::uint32_t>(t_.first_leaf[s])) / static_cast<std::uint32_t>(t_.child_span[s]);
        return static_cast<std::size_t>(t_.child_offset[s]) + index;
    }

    [[nodiscard]] bool is_partial(std::size_t s) const {
        for (std::int32_t c = t_.child_offset[s]; c < t_.child_offset[s + 1]; ++c)
            if (t_.child_count[c] == 0) return true;
        return false;
    }

    [[nodiscard]] bool reaches(std::uint32_t s, std::uint32_t up, std::uint32_t leaf) const {
        const auto above =
            static_cast<std::uint32_t>(t_.up_switch[static_cast<std::uint32_t>(t_.up_switch_offset[s]) + up]);
        return !is_below(above, leaf) || t_.child_count[child(above, leaf)] > 0;
    }

    std::uint32_t d0_;
    bool adaptive_;
    Tables t_;
    std::vector<std::uint8_t> some_up_is_partial_;
    std::vector<std::size_t> cable_offset_; // [switches] where the down ports of one start in cable_
    std::vector<std::uint16_t> cable_;      // number of each down port among those to the same child
};

} // namespace hxmesh
