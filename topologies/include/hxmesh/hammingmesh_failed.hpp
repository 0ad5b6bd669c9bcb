// HammingMesh with failed boards: as without them, but by lines that lead to working boards only.
#pragma once

#include "hxmesh/hammingmesh.hpp"

namespace hxmesh {

/// Boards fail as a whole; accelerators are numbered without those of failed boards, line networks stay complete.
///
/// A packet for a board in another row and column has two corners to turn at: the own row's board in the destination's
/// column, and the other way round. It leaves towards one that works. Where both have failed it goes through a third
/// column (row): along the own row to a board from which the column leads to the destination's row, and then along that
/// one. Which column is fixed for a row and a destination, and only the boards in need of it come by that row, so that
/// the switches of a line need not know where a packet comes from.
///
/// Channels rise as without failures; a detour takes three lines, hence four channels.
class HammingMeshFailedRouting : private HammingMeshRouting {
    friend class HammingMeshRouting;

  public:
    static constexpr std::uint32_t kVcs = 4;
    static constexpr bool kNeedsSource = false;
    static constexpr bool kStateful = false;
    static constexpr bool kAdaptive = true;

    /// `failed` holds numbers of boards, counted row by row. Throws std::invalid_argument for a number that is none,
    /// and where two working boards are more than three lines apart.
    HammingMeshFailedRouting(std::uint32_t a, std::uint32_t b, std::uint32_t x, std::uint32_t y, std::uint32_t radix,
                             const std::vector<std::int32_t> &failed)
        : HammingMeshFailedRouting(a, b, x, y, radix, working(x, y, failed)) {}

    void candidates(const RouteQuery &q, Candidates &out) const { candidates_of(*this, q, out); }

    /// Whether there is one way to go whatever the credits, and which.
    [[nodiscard]] bool only_hop(const RouteQuery &q, Hop &hop) const { return only_hop_of(*this, q, hop); }

    template <class Credits> [[nodiscard]] Hop route(const RouteQuery &q, Credits &&credits) const {
        Hop hop;
        if (only_hop(q, hop)) return hop;
        Candidates all;
        candidates(q, all);
        return most_credits(all, credits);
    }

  private:
    static constexpr std::uint16_t kNone = 0xffff;

    static std::vector<bool> working(std::uint32_t x, std::uint32_t y, const std::vector<std::int32_t> &failed) {
        std::vector<bool> works(std::size_t{x} * y, true);
        for (const auto board : failed) {
            if (board < 0 || static_cast<std::size_t>(board) >= works.size())
                throw std::invalid_argument("there is no board " + std::to_string(board) + " that could fail");
            works[static_cast<std::size_t>(board)] = false;
        }
        return works;
    }

    HammingMeshFailedRouting(std::uint32_t a, std::uint32_t b, std::uint32_t x, std::uint32_t y, std::uint32_t radix,
                             const std::vector<bool> &works)
        : HammingMeshRouting(a, b, x, y, radix, works), works_(works) {
        tabulate(kElsewhereByColumn + 1);
        const std::uint32_t row_routers = b * y * row_.routers();
        for (std::uint32_t r = 0; r < line_places_.size(); ++r)
            line_board_.push_back(static_cast<std::uint16_t>(
                r < row_routers ? r / row_.routers() / b : (r - row_routers) / column_.routers() / a));
        by_row_.assign(std::size_t{y} * x * y, kNone);
        by_column_.assign(std::size_t{x} * x * y, kNone);
        for (std::uint32_t ty = 0; ty < y; ++ty)
            for (std::uint32_t tx = 0; tx < x; ++tx) {
                if (!is_working(tx, ty)) continue;
                for (std::uint32_t row = 0; row < y; ++row)
                    by_row_[(row * y + ty) * x + tx] = column_towards(row, tx, ty);
                for (std::uint32_t column = 0; column < x; ++column)
                    by_column_[(column * y + ty) * x + tx] = row_towards(column, tx, ty);
            }
        check_reach();
    }

    [[nodiscard]] bool is_working(std::uint32_t column, std::uint32_t row) const {
        return works_[std::size_t{row} * x_ + column];
    }

    /// The column to go to from `row` on the way to board (tx, ty): its own, or one to turn twice in. Those are spread
    /// over destinations.
    [[nodiscard]] std::uint16_t column_towards(std::uint32_t row, std::uint32_t tx, std::uint32_t ty) const {
        if (is_working(tx, row)) return static_cast<std::uint16_t>(tx);
        for (std::uint32_t i = 0; i < x_; ++i) {
            const std::uint32_t column = (tx + ty + row + i) % x_;
            if (is_working(column, row) && is_working(column, ty)) return static_cast<std::uint16_t>(column);
        }
        return kNone;
    }

    [[nodiscard]] std::uint16_t row_towards(std::uint32_t column, std::uint32_t tx, std::uint32_t ty) const {
        if (is_working(column, ty)) return static_cast<std::uint16_t>(ty);
        for (std::uint32_t i = 0; i < y_; ++i) {
            const std::uint32_t row = (tx + ty + column + i) % y_;
            if (is_working(column, row) && is_working(tx, row)) return static_cast<std::uint16_t>(row);
        }
        return kNone;
    }

    void check_reach() const {
        for (std::uint32_t from = 0; from < x_ * y_; ++from)
            for (std::uint32_t to = 0; to < x_ * y_; ++to) {
                const std::uint32_t column = from % x_, row = from / x_;
                if (!works_[from] || !works_[to] || row == to / x_ || column == to % x_) continue;
                if (by_row_[row * x_ * y_ + to] == kNone && by_column_[column * x_ * y_ + to] == kNone)
                    throw std::invalid_argument("boards " + std::to_string(from) + " and " + std::to_string(to) +
                                                " are more than three lines apart");
            }
    }

    [[nodiscard]] Choice choice_at(const RouteQuery &q) const {
        const Place here = places_[q.router];
        Place there = places_[q.dst];
        const bool same_x = here.bx == there.bx, same_y = here.by == there.by;
        if (same_x || same_y) return choice_of(same_x ? (same_y ? kSameBoard : kSameColumn) : kSameRow, here, there);
        const bool row_works = is_working(there.bx, here.by), column_works = is_working(here.bx, there.by);
        if (row_works && column_works) return choice_of(kElsewhere, here, there);
        // A corner that works first; without one the detour along the row, or that along the column.
        const std::uint16_t column = by_row_[(here.by * y_ + there.by) * x_ + there.bx];
        if (row_works || (!column_works && column != kNone)) {
            there.bx = column;
            return choice_of(kElsewhereByRow, here, there);
        }
        there.by = by_column_[(here.bx * y_ + there.by) * x_ + there.bx];
        return choice_of(kElsewhereByColumn, here, there);
    }

    void at_line(const RouteQuery &q, Candidates &out) const {
        const std::uint32_t line = q.router - first_row_router_;
        const LinePlace place = line_places_[line];
        const Place there = places_[q.dst];
        const auto &towards = place.is_row ? by_row_ : by_column_;
        enter_board(q, place, there, towards[(line_board_[line] * y_ + there.by) * x_ + there.bx], out);
    }

    std::vector<bool> works_;               // [boards]
    std::vector<std::uint16_t> line_board_; // [line routers] board row (column) that the line belongs to
    std::vector<std::uint16_t> by_row_;     // [rows, boards] column to go to along a row for a destination's board
    std::vector<std::uint16_t> by_column_;  // [columns, boards] row to go to along a column
};

} // namespace hxmesh
