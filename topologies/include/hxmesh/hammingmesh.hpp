// HammingMesh: minimal adaptive routing over boards and line networks (HammingMesh article, section "Routing";
// tie order, turn rule and channels as simulated in its artifact, Zenodo 10.5281/zenodo.6462395).
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "hxmesh/route.hpp"

namespace hxmesh {

/// Boards of a x b accelerators (E-W x N-S), x boards in a row and y in a column.
///
/// Routers: accelerators first, numbered board by board (boards row-major, row-major inside a board), with ports
/// 0 = N, 1 = E, 2 = S, 3 = W, 4 = host; then the line networks of the rows, then those of the columns. A line over
/// n boards has 2n attachments, 2*board + side (side 0 = W or N edge). It is one switch, or, beyond `radix`
/// attachments, a two-level tree: leaves with radix/2 ports down and radix/2 up, then spines. Where radix/2 is odd,
/// some boards have their two edges on two leaves: the way by the farther edge may then be the shorter one.
///
/// Channels: inside a board the north-last turn rule holds; the channel rises by one on the link that leaves a board
/// for its line, at most twice on a path, hence three channels.
class HammingMeshRouting {
  public:
    static constexpr std::uint32_t kVcs = 3;
    static constexpr bool kNeedsSource = false;
    static constexpr bool kStateful = false;
    static constexpr bool kAdaptive = true;
    static constexpr std::uint32_t kNorth = 0, kEast = 1, kSouth = 2, kWest = 3, kHost = 4;

    HammingMeshRouting(std::uint32_t a, std::uint32_t b, std::uint32_t x, std::uint32_t y, std::uint32_t radix)
        : HammingMeshRouting(a, b, x, y, radix, std::vector<bool>(std::size_t{x} * y, true)) {}

    void candidates(const RouteQuery &q, Candidates &out) const { candidates_of(*this, q, out); }

    /// Whether there is one way to go whatever the credits, and which.
    [[nodiscard]] bool only_hop(const RouteQuery &q, Hop &hop) const {
        if (q.router < first_row_router_) return only_hop_of(*this, q, hop);
        const LinePlace place = line_places_[q.router - first_row_router_];
        if (line(place).spines != 0) return only_hop_of(*this, q, hop);
        const Sides to = (place.is_row ? row_sides_ : column_sides_)[q.dst];
        hop = {to.port, static_cast<std::uint8_t>(q.in_vc)};
        return to.count == 1;
    }

    template <class Credits> [[nodiscard]] Hop route(const RouteQuery &q, Credits &&credits) const {
        if (q.router < first_row_router_) return route_at_accelerator(*this, q, credits);
        Candidates all;
        at_line(q, all);
        return most_credits(all, credits);
    }

  protected:
    /// How a destination's board lies to the own one; the last two where it can be left by one kind of line only.
    enum Relation : std::uint8_t { kElsewhere, kSameColumn, kSameRow, kSameBoard, kElsewhereByRow, kElsewhereByColumn };
    static constexpr std::uint32_t kTabulated = 64; // largest board whose decisions are kept in a table

    /// Directions in order of preference; bit i of `leaves`: the i-th one leaves the board.
    struct alignas(8) Choice {
        std::uint8_t count = 0;
        std::uint8_t leaves = 0;
        std::array<std::uint8_t, 4> port{};

        /// What leaves the board for a line rises by one channel.
        [[nodiscard]] Hop hop(std::uint32_t i, std::uint32_t in_vc) const {
            return {port[i], static_cast<std::uint8_t>(in_vc + (leaves >> i & 1u))};
        }
    };

    struct Place {
        std::uint16_t bx, by, lx, ly; // board column and row, column and row inside the board
        std::uint16_t inside;         // number inside the board
    };
    /// Attachments of a line by whose edges the way to an accelerator is shortest.
    struct Sides {
        std::uint16_t port, count;
    };
    /// Hops by the W or N edge and by the E or S edge of the own board, up to something common to both.
    struct Ways {
        std::uint32_t low, high;
    };
    struct LinePlace {
        bool is_row;
        std::uint16_t index; // of the router in its line
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
                while (leaves * ((radix / 2 + spines - 1) / spines) > radix)
                    ++spines;
                splits_boards = radix / 2 % 2 == 1;
            }
        }
        [[nodiscard]] std::uint32_t routers() const { return leaves + spines; }
        std::uint32_t leaves = 0, spines = 0;
        bool splits_boards = false; // some board's edges are attached to two leaves
    };

    /// The boards of `works` [x * y, row-major] only; accelerators are numbered without the others.
    HammingMeshRouting(std::uint32_t a, std::uint32_t b, std::uint32_t x, std::uint32_t y, std::uint32_t radix,
                       const std::vector<bool> &works)
        : a_(a), b_(b), inside_(a * b), x_(x), y_(y), half_(radix / 2), row_(x, radix), column_(y, radix) {
        for (std::uint32_t board = 0; board < x * y; ++board)
            for (std::uint32_t inside = 0; works[board] && inside < a * b; ++inside)
                places_.push_back({static_cast<std::uint16_t>(board % x), static_cast<std::uint16_t>(board / x),
                                   static_cast<std::uint16_t>(inside % a), static_cast<std::uint16_t>(inside / a),
                                   static_cast<std::uint16_t>(inside)});
        for (const Place &place : places_) {
            row_sides_.push_back(sides(place.bx, place.lx, a));
            column_sides_.push_back(sides(place.by, place.ly, b));
        }
        first_row_router_ = static_cast<std::uint32_t>(places_.size());
        const std::uint32_t row_routers = b * y * row_.routers(), column_routers = a * x * column_.routers();
        for (std::uint32_t r = 0; r < row_routers + column_routers; ++r) {
            const bool is_row = r < row_routers;
            const std::uint32_t index = is_row ? r % row_.routers() : (r - row_routers) % column_.routers();
            line_places_.push_back({is_row, static_cast<std::uint16_t>(index)});
        }
        tabulate(kSameBoard + 1);
    }

    /// Keeps the decisions of the first `relations` relations in a table, where boards are small and alike.
    void tabulate(std::uint32_t relations) {
        if (a_ * b_ > kTabulated || row_.splits_boards || column_.splits_boards) return;
        const std::uint32_t n = a_ * b_;
        const auto place = [&](std::uint32_t i) {
            return Place{0, 0, static_cast<std::uint16_t>(i % a_), static_cast<std::uint16_t>(i / a_),
                         static_cast<std::uint16_t>(i)};
        };
        choices_.resize(std::size_t{relations} * n * n);
        for (std::uint32_t relation = 0; relation < relations; ++relation)
            for (std::uint32_t here = 0; here < n; ++here)
                for (std::uint32_t there = 0; there < n; ++there)
                    choices_[(relation * n + here) * n + there] =
                        choose(static_cast<Relation>(relation), place(here), place(there));
    }

    // `Self` says which directions there are at an accelerator (choice_at) and where a line leads (at_line).
    template <class Self> static void candidates_of(const Self &self, const RouteQuery &q, Candidates &out) {
        if (q.router >= self.first_row_router_) {
            self.at_line(q, out);
            return;
        }
        if (q.router == q.dst) {
            out.add(kHost, q.in_vc);
            return;
        }
        const Choice choice = self.choice_at(q);
        for (std::uint32_t i = 0; i < choice.count; ++i) {
            const Hop hop = choice.hop(i, q.in_vc);
            out.add(hop.port, hop.vc);
        }
    }

    template <class Self, class Credits>
    [[nodiscard]] static Hop route_at_accelerator(const Self &self, const RouteQuery &q, Credits &&credits) {
        if (q.router == q.dst) return {kHost, static_cast<std::uint8_t>(q.in_vc)};
        const Choice choice = self.choice_at(q);
        Hop best = choice.hop(0, q.in_vc);
        if (choice.count == 1) return best;
        auto most = credits(best.port, best.vc);
        for (std::uint32_t i = 1; i < choice.count; ++i) {
            const Hop hop = choice.hop(i, q.in_vc);
            const auto room = credits(hop.port, hop.vc);
            if (room <= most) continue;
            most = room;
            best = hop;
        }
        return best;
    }

    template <class Self> [[nodiscard]] static bool only_hop_of(const Self &self, const RouteQuery &q, Hop &hop) {
        if (q.router >= self.first_row_router_) {
            Candidates all;
            self.at_line(q, all);
            hop = {all[0].first, all[0].vc};
            return all.size() == 1 && all[0].count == 1;
        }
        if (q.router == q.dst) {
            hop = {kHost, static_cast<std::uint8_t>(q.in_vc)};
            return true;
        }
        const Choice choice = self.choice_at(q);
        hop = choice.hop(0, q.in_vc);
        return choice.count == 1;
    }

    [[nodiscard]] Choice choice_at(const RouteQuery &q) const {
        const Place &here = places_[q.router], &there = places_[q.dst];
        const std::uint32_t relation = (here.bx == there.bx ? 1u : 0u) | (here.by == there.by ? 2u : 0u);
        return choice_of(static_cast<Relation>(relation), here, there);
    }

    [[nodiscard]] Choice choice_of(Relation relation, const Place &here, const Place &there) const {
        if (choices_.empty()) return choose(relation, here, there);
        return choices_[(relation * inside_ + here.inside) * inside_ + there.inside];
    }

    [[nodiscard]] Choice choose(Relation relation, const Place &here, const Place &there) const {
        const std::uint32_t hx = here.lx, hy = here.ly, tx = there.lx, ty = there.ly;
        const Ways row = ways(row_, here.bx, there.bx, hx, tx, a_),
                   column = ways(column_, here.by, there.by, hy, ty, b_);
        bool go[4] = {false, false, false, false};
        switch (relation) {
        case kSameBoard:
            toward(hx, tx, a_, row_, here.bx, go[kWest], go[kEast]);
            toward(hy, ty, b_, column_, here.by, go[kNorth], go[kSouth]);
            break;
        case kSameColumn:
            // Leave by the edge of the shorter way, or first take a step along the row: it is needed on one of the
            // boards anyway.
            go[kNorth] = column.low <= column.high;
            go[kSouth] = column.high <= column.low;
            go[kEast] = tx > hx;
            go[kWest] = tx < hx;
            break;
        case kSameRow:
            go[kWest] = row.low <= row.high;
            go[kEast] = row.high <= row.low;
            go[kSouth] = ty > hy;
            // The artifact offers north here as well; a packet that took it would have to turn east or west after it,
            // which closes cycles of channels on boards with more than two rows.
            break;
        case kElsewhere:
        case kElsewhereByRow:
        case kElsewhereByColumn:
            // The nearest of the edges of shorter ways.
            const std::uint32_t to_edge[4] = {hy + 1, a_ - hx, b_ - hy, hx + 1};
            go[kNorth] = relation != kElsewhereByRow && column.low <= column.high;
            go[kSouth] = relation != kElsewhereByRow && column.high <= column.low;
            go[kWest] = relation != kElsewhereByColumn && row.low <= row.high;
            go[kEast] = relation != kElsewhereByColumn && row.high <= row.low;
            std::uint32_t nearest = std::max(a_, b_) + 1;
            for (std::uint32_t port = 0; port < 4; ++port)
                if (go[port]) nearest = std::min(nearest, to_edge[port]);
            for (std::uint32_t port = 0; port < 4; ++port)
                go[port] = go[port] && to_edge[port] == nearest;
            break;
        }
        // North last: with a choice, a packet that is not yet in its column inside the board does not go north.
        if (hx != tx && (go[kEast] || go[kSouth] || go[kWest])) go[kNorth] = false;
        static constexpr std::uint8_t kOrders[4][4] = {{kNorth, kEast, kSouth, kWest},
                                                       {kNorth, kSouth, kEast, kWest},
                                                       {kWest, kEast, kSouth, kNorth},
                                                       {kSouth, kNorth, kEast, kWest}};
        const auto &order = kOrders[relation > kSameBoard ? kElsewhere : relation];
        const bool leaves[4] = {hy == 0, hx + 1 == a_, hy + 1 == b_, hx == 0};
        Choice choice;
        for (const std::uint8_t port : order) {
            if (!go[port]) continue;
            choice.leaves = static_cast<std::uint8_t>(choice.leaves | (leaves[port] ? 1u << choice.count : 0u));
            choice.port[choice.count++] = port;
        }
        return choice;
    }

    /// The leaf of a two-level line that one side of a board is attached to.
    [[nodiscard]] std::uint32_t leaf_of(std::uint32_t board, std::uint32_t side) const {
        return (2 * board + side) / half_;
    }

    /// Ways from `here` on one board to `there` on another one, boards `n` long in the direction of the line.
    [[nodiscard]] Ways ways(const Line &line, std::uint32_t from, std::uint32_t to, std::uint32_t here,
                            std::uint32_t there, std::uint32_t n) const {
        Ways result{here + 1, n - here};
        if (!line.splits_boards) return result; // the rest is the same by either edge
        const auto rest = [&](std::uint32_t side) {
            const std::uint32_t leaf = leaf_of(from, side);
            return std::min(there + (leaf == leaf_of(to, 0) ? 0u : 2u),
                            n - 1 - there + (leaf == leaf_of(to, 1) ? 0u : 2u));
        };
        result.low += rest(0);
        result.high += rest(1);
        return result;
    }

    /// Directions that shorten the way from `here` to `there` inside a board side of `n`: straight, or round through
    /// the line (to the edge, two hops or four, and on from the other edge) where that is no longer.
    void toward(std::uint32_t here, std::uint32_t there, std::uint32_t n, const Line &line, std::uint32_t board,
                bool &down, bool &up) const {
        if (here == there) return;
        const bool has_line = line.leaves > 0;
        const std::uint32_t straight = there > here ? there - here : here - there;
        const bool split = line.splits_boards && leaf_of(board, 0) != leaf_of(board, 1);
        const std::uint32_t round = n - straight + (split ? 3 : 1);
        const bool straight_up = there > here;
        if (straight <= round || !has_line) (straight_up ? up : down) = true;
        if (round <= straight && has_line) (straight_up ? down : up) = true;
    }

    void at_line(const RouteQuery &q, Candidates &out) const {
        const LinePlace place = line_places_[q.router - first_row_router_];
        const Place there = places_[q.dst];
        enter_board(q, place, there, place.is_row ? there.bx : there.by, out);
    }

    /// From a router of a line to the board with number `board` in it, by the edge nearer to the place of `there`.
    void enter_board(const RouteQuery &q, const LinePlace &place, const Place &there, std::uint32_t board,
                     Candidates &out) const {
        const Line &line = this->line(place);
        const std::uint32_t index = place.index;
        const std::uint32_t at = place.is_row ? there.lx : there.ly, n = place.is_row ? a_ : b_;
        const Sides to = sides(board, at, n);
        if (line.spines == 0) {
            out.add_run(to.port, to.count, q.in_vc);
            return;
        }
        if (line.splits_boards) {
            at_split_line(line, index, board, at, n - 1 - at, q.in_vc, out);
            return;
        }
        const std::uint32_t leaf = leaf_of(board, 0);
        if (index == leaf) {
            out.add_run(to.port % half_, to.count, q.in_vc);
        } else if (index < line.leaves) {
            out.add_run(half_, half_, q.in_vc);
        } else {
            add_down(line, index, leaf, q.in_vc, out);
        }
    }

    /// The same where the edges of a board, `low` and `high` hops from the destination, may be on two leaves.
    void at_split_line(const Line &line, std::uint32_t index, std::uint32_t board, std::uint32_t low,
                       std::uint32_t high, std::uint32_t vc, Candidates &out) const {
        const std::uint32_t leaf[2] = {leaf_of(board, 0), leaf_of(board, 1)};
        if (index >= line.leaves) {
            if (low <= high) add_down(line, index, leaf[0], vc, out);
            if (high <= low && (leaf[0] != leaf[1] || high < low)) add_down(line, index, leaf[1], vc, out);
            return;
        }
        // Another leaf is two hops away. What came down from a spine is at the leaf of the nearer edge: it never goes
        // up again, as that edge is the shorter way from there.
        if (leaf[0] != index) low += 2;
        if (leaf[1] != index) high += 2;
        bool up = false;
        for (std::uint32_t side = 0; side < 2; ++side) {
            if (side == 0 ? low > high : high > low) continue;
            if (leaf[side] == index)
                out.add((2 * board + side) % half_, vc);
            else
                up = true;
        }
        if (up) out.add_run(half_, half_, vc);
    }

    /// The cables from the spine with number `index` in its line to a leaf.
    void add_down(const Line &line, std::uint32_t index, std::uint32_t leaf, std::uint32_t vc, Candidates &out) const {
        const std::uint32_t spine = index - line.leaves;
        const std::uint32_t per_leaf = (half_ + line.spines - 1) / line.spines;
        out.add_run(leaf * per_leaf, (half_ - spine + line.spines - 1) / line.spines, vc);
    }

    [[nodiscard]] const Line &line(LinePlace place) const { return place.is_row ? row_ : column_; }

    /// For place `at` on a board of `n` in the direction of the line.
    static Sides sides(std::uint32_t board, std::uint32_t at, std::uint32_t n) {
        const std::uint32_t low = at, high = n - 1 - at; // distance from the W or N edge, and from the E or S edge
        return {static_cast<std::uint16_t>(2 * board + (low <= high ? 0 : 1)),
                static_cast<std::uint16_t>(low == high ? 2 : 1)};
    }

    std::uint32_t a_, b_, inside_, x_, y_, half_;
    Line row_, column_;
    std::uint32_t first_row_router_ = 0;
    std::vector<Place> places_;                   // [accelerators]
    std::vector<Sides> row_sides_, column_sides_; // [accelerators]
    std::vector<LinePlace> line_places_;          // [line routers]
    std::vector<Choice> choices_;                 // [relations, places, places]
};

} // namespace hxmesh
