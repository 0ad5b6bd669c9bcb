// Dragonfly: minimal and UGAL routing, as "minimal" and "ugal" of sst-elements, merlin/topology/dragonfly.cc.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "hxmesh/route.hpp"

namespace hxmesh {

/// Shape and cables of a Dragonfly.
///
/// Ports of a router: `p` hosts, a-1 local links, then global links; router = group * a + position in the group.
/// Two groups are joined by several cables ("slices").
class DragonflyCables {
  public:
    struct Tables {
        std::vector<std::int32_t> link_offset; // [g*g+1] slices of (own group, other group)
        std::vector<std::int32_t> link_router; // position in the own group
        std::vector<std::int32_t> link_port;   // local port number there
    };
    struct Place {
        std::uint32_t group, position, router;
    };

    DragonflyCables(std::uint32_t p, std::uint32_t a, std::uint32_t g, Tables tables)
        : p(p), a(a), g(g), tables_(std::move(tables)) {
        if (tables_.link_offset.size() != std::size_t{g} * g + 1)
            throw std::invalid_argument("group_link_offset must have groups * groups + 1 entries");
        // Tables for what every hop asks: divisions and searches cost more than look-ups.
        for (std::uint32_t r = 0; r < a * g; ++r) {
            const Place here{r / a, r % a, r};
            places_.push_back(here);
            homes_.insert(homes_.end(), p, here);
            const auto first = static_cast<std::size_t>(tables_.link_offset[std::size_t{here.group} * g]);
            const auto end = static_cast<std::size_t>(tables_.link_offset[std::size_t{here.group + 1} * g]);
            first_port_.push_back(ports_.size() - first);
            for (std::size_t cable = first; cable < end; ++cable) {
                const auto exit = static_cast<std::uint32_t>(tables_.link_router[cable]);
                ports_.push_back(exit == here.position ? static_cast<std::uint16_t>(tables_.link_port[cable])
                                                       : local_port(here.position, exit));
            }
        }
    }

    [[nodiscard]] const Place &place(std::uint32_t router) const { return places_[router]; }
    /// The router of an endpoint.
    [[nodiscard]] const Place &home(std::uint32_t endpoint) const { return homes_[endpoint]; }
    [[nodiscard]] std::uint16_t host_port(std::uint32_t endpoint) const {
        return static_cast<std::uint16_t>(endpoint - homes_[endpoint].router * p);
    }
    [[nodiscard]] bool is_host(std::uint32_t port) const { return port < p; }
    [[nodiscard]] bool is_global(std::uint32_t port) const { return port >= p + a - 1; }
    [[nodiscard]] std::uint16_t local_port(std::uint32_t here, std::uint32_t there) const {
        return static_cast<std::uint16_t>(p + there - (there > here ? 1 : 0));
    }
    [[nodiscard]] std::uint32_t slices(std::uint32_t from, std::uint32_t to) const {
        const std::size_t pair = std::size_t{from} * g + to;
        return static_cast<std::uint32_t>(tables_.link_offset[pair + 1] - tables_.link_offset[pair]);
    }
    [[nodiscard]] std::uint32_t most_slices() const {
        std::uint32_t most = 0;
        for (std::uint32_t pair = 0; pair < g * g; ++pair)
            most = std::max(most, slices(pair / g, pair % g));
        return most;
    }
    /// The port at `here` for a slice to another group: the global one, or the one of the local link to its router.
    [[nodiscard]] std::uint16_t port_to(const Place &here, std::uint32_t group, std::uint32_t slice) const {
        return ports_to(here, group)[slice];
    }
    /// The same for all slices, one after the other.
    [[nodiscard]] const std::uint16_t *ports_to(const Place &here, std::uint32_t group) const {
        const auto cable = static_cast<std::size_t>(tables_.link_offset[here.group * g + group]);
        return ports_.data() + first_port_[here.router] + cable;
    }

    std::uint32_t p, a, g;

  private:
    Tables tables_;
    std::vector<Place> places_;           // [routers]
    std::vector<Place> homes_;            // [endpoints]
    std::vector<std::uint16_t> ports_;    // [routers, cables of their group]
    std::vector<std::size_t> first_port_; // [routers] where cable 0 of all groups would be
};

/// Local - global - local.
///
/// Merlin picks the slice from the source endpoint alone (source mod slices), which loads some cables more than
/// others; `balanced` picks it from source and destination. The virtual channel rises by one with the global link,
/// hence two channels.
class DragonflyRouting {
  public:
    static constexpr std::uint32_t kVcs = 2;
    static constexpr bool kNeedsSource = true;
    static constexpr bool kStateful = false;
    static constexpr bool kAdaptive = false;

    DragonflyRouting(DragonflyCables cables, bool balanced) : cables_(std::move(cables)), balanced_(balanced) {}

    [[nodiscard]] Hop next(const RouteQuery &q) const {
        const DragonflyCables::Place &here = cables_.place(q.router), &there = cables_.home(q.dst);
        // The channel rises on the far side of the global link.
        const auto vc = static_cast<std::uint8_t>(q.in_vc + (cables_.is_global(q.in_port) ? 1 : 0));
        if (there.group == here.group) {
            if (there.position == here.position) return {cables_.host_port(q.dst), vc};
            return {cables_.local_port(here.position, there.position), vc};
        }
        const std::uint32_t slices = cables_.slices(here.group, there.group);
        return {cables_.port_to(here, there.group, (balanced_ ? q.src + q.dst : q.src) % slices), vc};
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
    DragonflyCables cables_;
    bool balanced_;
};

/// UGAL: the minimal way, or one through another group (within a group: another router) where queues make that pay.
///
/// Where a packet enters the network a middle is drawn for it, and every way on weighs the flits queued for it here,
/// those through the middle twice that and `kDetourFlits` more; the lightest is taken, one of several by chance. It is
/// decided again at the router with the cable, if that has the same slice to both groups, and in the middle group,
/// over all slices (those of other routers weigh twice). A packet carries its middle group and its slice.
///
/// Channel by link, in the order in which they can follow each other, so that none waits for one before it: 0 local,
/// 0 global, 1 local, 1 global, 2 local. A detour within a group takes 0 local, 2 local.
class DragonflyUgalRouting {
  public:
    static constexpr std::uint32_t kVcs = 3;
    static constexpr bool kNeedsSource = false;
    static constexpr bool kStateful = true;
    static constexpr bool kAdaptive = true;
    static constexpr std::int32_t kDetourFlits = 50; // Merlin's bias

    explicit DragonflyUgalRouting(DragonflyCables cables)
        : cables_(std::move(cables)), slice_bits_(width(cables_.most_slices())) {}

    [[nodiscard]] std::uint32_t state_bits() const { return slice_bits_ + width(std::max(cables_.g, cables_.a)); }

    /// `queues.queued(port, vc)` are the flits in an output queue.
    template <class Queues>
    [[nodiscard]] Hop route(const RouteQuery &q, std::uint32_t &state, const Queues &queues, Random &random) const {
        if (cables_.is_host(q.in_port)) {
            const std::uint32_t middles = count_middles(q);
            state = middle(q, middles > 1 ? random.below(middles) : 0) << slice_bits_;
        }
        Hop best{};
        std::uint32_t best_state = state, as_light = 0;
        std::int32_t least = std::numeric_limits<std::int32_t>::max();
        ways(q, state, [&](Hop hop, std::uint32_t next, std::int32_t times, std::int32_t more) {
            const std::int32_t weight = times * queues.queued(hop.port, hop.vc) + more;
            if (weight > least) return;
            if (weight < least) as_light = 0;
            least = weight;
            if (++as_light > 1 && random.below(as_light) != 0) return;
            best = hop;
            best_state = next;
        });
        state = best_state;
        return best;
    }

    /// Every way that `route` may take with any queues and any luck: visit(hop, state at the next router).
    template <class Visit> void candidates(const RouteQuery &q, std::uint32_t state, Visit &&visit) const {
        const auto each = [&](Hop hop, std::uint32_t next, std::int32_t, std::int32_t) { visit(hop, next); };
        if (!cables_.is_host(q.in_port)) {
            ways(q, state, each);
            return;
        }
        for (std::uint32_t number = 0; number < count_middles(q); ++number)
            ways(q, middle(q, number) << slice_bits_, each);
    }

    /// Whether there is one way to go whatever the queues and the state, and which.
    [[nodiscard]] bool only_hop(const RouteQuery &q, Hop &hop) const {
        const DragonflyCables::Place &here = cables_.place(q.router), &there = cables_.home(q.dst);
        if (here.group != there.group || (cables_.is_host(q.in_port) && here.position != there.position)) return false;
        ways(q, 0, [&](Hop found, std::uint32_t, std::int32_t, std::int32_t) { hop = found; });
        return true;
    }

  private:
    static std::uint32_t width(std::uint32_t count) { return static_cast<std::uint32_t>(std::bit_width(count - 1)); }

    /// Detours that can be drawn where a packet enters: other groups, or other routers if it stays in the group.
    [[nodiscard]] std::uint32_t count_middles(const RouteQuery &q) const {
        const bool stays = cables_.place(q.router).group == cables_.home(q.dst).group;
        return std::max(stays ? cables_.a - 1 : cables_.g - 2, 1u);
    }

    /// The `number`-th of them. With two groups it is the destination's, and no detour.
    [[nodiscard]] std::uint32_t middle(const RouteQuery &q, std::uint32_t number) const {
        const DragonflyCables::Place &here = cables_.place(q.router), &there = cables_.home(q.dst);
        if (here.group == there.group) return number + (number >= here.position ? 1 : 0);
        if (cables_.g == 2) return there.group;
        const auto [low, high] = std::minmax(here.group, there.group);
        if (number >= low) ++number;
        return number + (number >= high ? 1 : 0);
    }

    /// Calls visit(hop, state, times, more) for each way on: it weighs `times` the flits queued for it and `more`.
    template <class Visit> void ways(const RouteQuery &q, std::uint32_t state, Visit &&visit) const {
        const DragonflyCables::Place &here = cables_.place(q.router), &there = cables_.home(q.dst);
        const std::uint32_t middle = state >> slice_bits_, slice = state & ((1u << slice_bits_) - 1);
        const bool entering = cables_.is_host(q.in_port), from_global = cables_.is_global(q.in_port);
        const auto vc = static_cast<std::uint8_t>(q.in_vc + (from_global ? 1 : 0));
        if (there.group == here.group) {
            if (there.position == here.position) {
                visit(Hop{cables_.host_port(q.dst), vc}, state, 1, 0);
                return;
            }
            // From a local link: the second half of a detour within the group.
            const auto last = static_cast<std::uint8_t>(entering || from_global ? vc : vc + 2);
            visit(Hop{cables_.local_port(here.position, there.position), last}, state, 1, 0);
            if (entering) visit(Hop{cables_.local_port(here.position, middle), vc}, state, 2, kDetourFlits);
            return;
        }
        const auto to = [&](std::uint32_t group, std::uint32_t number) {
            return Hop{cables_.port_to(here, group, number), vc};
        };
        const auto noting = [&](std::uint32_t number) { return middle << slice_bits_ | number; };
        if (entering || from_global) {
            const std::uint16_t *ports = cables_.ports_to(here, there.group);
            for (std::uint32_t s = 0, n = cables_.slices(here.group, there.group); s < n; ++s)
                visit(Hop{ports[s], vc}, noting(s), from_global && !cables_.is_global(ports[s]) ? 2 : 1, 0);
            if (from_global) return;
            ports = cables_.ports_to(here, middle);
            for (std::uint32_t s = 0, n = cables_.slices(here.group, middle); s < n; ++s)
                visit(Hop{ports[s], vc}, noting(s), 2, kDetourFlits);
            return;
        }
        // From a local link, at the router with the cable: of two other groups, at least one is behind a port here.
        if (middle == here.group) {
            visit(to(there.group, slice), state, 1, 0);
            return;
        }
        if (is_here(here, there.group, slice)) visit(to(there.group, slice), state, 1, 0);
        if (is_here(here, middle, slice)) visit(to(middle, slice), state, 2, kDetourFlits);
    }

    /// Whether the cable is at this router. Pairs of groups can have different numbers of cables.
    [[nodiscard]] bool is_here(const DragonflyCables::Place &here, std::uint32_t group, std::uint32_t slice) const {
        return slice < cables_.slices(here.group, group) && cables_.is_global(cables_.port_to(here, group, slice));
    }

    DragonflyCables cables_;
    std::uint32_t slice_bits_;
};

} // namespace hxmesh
