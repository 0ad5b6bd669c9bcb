// HammingMesh: minimal adaptive routing over boards and line networks (HammingMesh article, section "Routing";
// tie order, turn rule and channels as simulated in its artifact, Zenodo 10.5281/zenodo.6462395).
#pragma once

#include <algorithm>
#include <vector>

#include "hxmesh/route.hpp"

namespace hxmesh {

/// Boards of a x b accelerators (E-W x N-S), x boards in a row and y in a column.
///
/// Routers: accelerators first, numbered board by board (boards row-major, row-major inside a board), with ports
/// 0 = N, 1 = E, 2 = S, 3 = W, 4 = host; then the line networks of the rows, then those of the columns. A line over
/// n boards has 2n attachments, 2*board + side (side 0 = W or N edge). It is one switch, or, beyond `radix`
/// attachments, a two-level tree: leaves with radix/2 ports down and radix/2 up, then spines.
///
/// Channels: inside a board the north-last turn rule holds; the channel rises by one on the link that leaves a board
/// for its line, at most twice on a path, hence three channels.
class HammingMeshRouting {
  public:
    static constexpr bool kNeedsSource = false;
    static constexpr std::uint32_t kNorth = 0, kEast = 1, kSouth = 2, kWest = 3, kHost = 4;

    HammingMeshRouting(std::uint32_t a, std::uint32_t b, std::uint32_t x, std::uint32_t y, std::uint32_t radix)
        : a_(a), b_(b), x_(x), y_(y), half_(radix / 2), row_(x, radix), column_(y, radix) {
        const std::uint32_t accelerators = a * b * x * y;
        places_.resize(accelerators);
        for (std::uint32_t r = 0; r < accelerators; ++r) {
            const std::uint32_t board = r / (a * b), inside = r % (a * b);
            places_[r] = {static_cast<std::uint16_t>(board % x), static_cast<std::uint16_t>(board / x),
                          static_cast<std::uint16_t>(inside % a), static_cast<std::uint16_t>(inside / a)};
        }
        first_row_router_ = accelerators;
        first_column_router_ = accelerators + b * y * row_.routers();
    }

    [[nodiscard]] std::uint32_t num_vcs() const { return 3; }

    void candidates(const RouteQuery &q, Candidates &out) const {
        if (q.router < first_row_router_)
            at_accelerator(q, out);
        else
            at_line(q, out);
    }

    template <class Credits> [[nodiscard]] Hop route(const RouteQuery &q, Credits &&credits) const {
        Candidates all;
        candidates(q, all);
        return most_credits(all, credits);
    }

  private:
    enum Order : std::uint8_t { kSameBoard, kSameColumn, kSameRow, kElsewhere };

    struct Place {
        std::uint16_t bx, by, lx, ly;  // board column and row, column and row inside the board
    };

    /// The network of one line.
    struct Line {
        Line(std::uint32_t boards, std::uint32_t radix) {
            if (boards < 2) return;
            if (2 * boards <= radix) {
                leaves = 1;
            } else {
                leaves = (2 * boards + radix / 2 - 1) / (radix / 2);
                spines = (leaves * (radix / 2) + radix - 1) / radix;
                // A spine takes the same number of uplinks of every leaf, rounded up, and has `radix` ports.
                while (leaves * ((radix / 2 + spines - 1) / spines) > radix) ++spines;
            }
        }
        [[nodiscard]] std::uint32_t routers() const { return leaves + spines; }
        std::uint32_t leaves = 0, spines = 0;
    };

    /// Adds a direction out of a board, or inside it; what leaves rises by one channel.
    void at_accelerator(const RouteQuery &q, Candidates &out) const {
        const Place here = places_[q.router];
        if (q.router == q.dst) {
            out.add(kHost, q.in_vc);
            return;
        }
        const Place there = places_[q.dst];
        const std::uint32_t to_north = here.ly + 1u, to_south = b_ - here.ly;
        const std::uint32_t to_west = here.lx + 1u, to_east = a_ - here.lx;
        bool go[4] = {false, false, false, false};
        Order order = kSameBoard;
        if (here.bx == there.bx && here.by == there.by) {
            toward(here.lx, there.lx, a_, x_ > 1, go[kWest], go[kEast]);
            toward(here.ly, there.ly, b_, y_ > 1, go[kNorth], go[kSouth]);
        } else if (here.bx == there.bx) {
            // Leave by the nearer edge, or first take a step along the row: it is needed on one of the boards anyway.
            go[kNorth] = to_north <= to_south;
            go[kSouth] = to_south <= to_north;
            go[kEast] = there.lx > here.lx;
            go[kWest] = there.lx < here.lx;
            order = kSameColumn;
        } else if (here.by == there.by) {
            go[kWest] = to_west <= to_east;
            go[kEast] = to_east <= to_west;
            go[kSouth] = there.ly > here.ly;
            // The artifact offers north here as well; a packet that took it would have to turn east or west after it,
            // which closes cycles of channels on boards with more than two rows.
            order = kSameRow;
        } else {
            const std::uint32_t nearest = std::min(std::min(to_north, to_south), std::min(to_west, to_east));
            go[kNorth] = to_north == nearest;
            go[kSouth] = to_south == nearest;
            go[kWest] = to_west == nearest;
            go[kEast] = to_east == nearest;
            order = kElsewhere;
        }
        // North last: with a choice, a packet that is not yet in its column inside the board does not go north.
        if (here.lx != there.lx && (go[kEast] || go[kSouth] || go[kWest])) go[kNorth] = false;
        static constexpr std::uint8_t kOrders[4][4] = {{kSouth, kNorth, kEast, kWest},
                                                       {kNorth, kSouth, kEast, kWest},
                                                       {kWest, kEast, kSouth, kNorth},
                                                       {kNorth, kEast, kSouth, kWest}};
        const bool leaves[4] = {here.ly == 0, here.lx + 1u == a_, here.ly + 1u == b_, here.lx == 0};
        for (const std::uint8_t port : kOrders[order])
            if (go[port]) out.add(port, q.in_vc + (leaves[port] ? 1 : 0));
    }

    /// Directions that shorten the way from `here` to `there` inside a board side of `n`: straight, or round through
    /// the line's switch (to the edge, two hops, and on from the other edge) where that is no longer.
    static void toward(std::uint32_t here, std::uint32_t there, std::uint32_t n, bool has_line, bool &down, bool &up) {
        if (here == there) return;
        const std::uint32_t straight = there > here ? there - here : here - there;
        const std::uint32_t round = n - straight + 1;
        const bool straight_up = there > here;
        if (straight <= round || !has_line) (straight_up ? up : down) = true;
        if (round <= straight && has_line) (straight_up ? down : up) = true;
    }

    void at_line(const RouteQuery &q, Candidates &out) const {
        const bool is_row = q.router < first_column_router_;
        const Line &line = is_row ? row_ : column_;
        const std::uint32_t index = (q.router - (is_row ? first_row_router_ : first_column_router_)) % line.routers();
        const Place there = places_[q.dst];
        const std::uint32_t board = is_row ? there.bx : there.by;
        const std::uint32_t at = is_row ? there.lx : there.ly, n = is_row ? a_ : b_;
        const std::uint32_t low = at, high = n - 1 - at;  // distance from the W or N edge, and from the E or S edge
        if (line.spines == 0) {
            add_sides(2 * board, low, high, q.in_vc, out);
            return;
        }
        const std::uint32_t leaf = 2 * board / half_;
        if (index == leaf) {
            add_sides(2 * board % half_, low, high, q.in_vc, out);
        } else if (index < line.leaves) {
            out.add_run(half_, half_, q.in_vc);
        } else {
            const std::uint32_t spine = index - line.leaves;
            const std::uint32_t per_leaf = (half_ + line.spines - 1) / line.spines;
            out.add_run(leaf * per_leaf, (half_ - spine + line.spines - 1) / line.spines, q.in_vc);
        }
    }

    static void add_sides(std::uint32_t port, std::uint32_t low, std::uint32_t high, std::uint32_t vc, Candidates &out) {
        if (low <= high) out.add(port, vc);
        if (high <= low) out.add(port + 1, vc);
    }

    std::uint32_t a_, b_, x_, y_, half_;
    Line row_, column_;
    std::uint32_t first_row_router_ = 0, first_column_router_ = 0;
    std::vector<Place> places_;
};

}  // namespace hxmesh
