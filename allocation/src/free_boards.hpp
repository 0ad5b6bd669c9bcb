// The boards of a machine that are free, as bit sets, and the searches for a place among them.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

namespace hxmesh::allocation {

/// Boards at all crossings of some columns and some rows.
struct Place {
    std::vector<std::uint32_t> columns, rows; // rising, in a torus block from its first one on
};

/// A grid of boards of which some are free. Rows are bit sets over the columns, 64 columns a word.
class FreeBoards {
  public:
    /// All boards are free.
    FreeBoards(std::uint32_t columns, std::uint32_t rows)
        : columns_(columns), rows_(rows), words_((columns + 63) / 64), bits_(std::size_t{words_} * rows) {
        if (columns == 0 || rows == 0) throw std::invalid_argument("a grid of boards needs columns and rows");
        for (std::uint32_t row = 0; row < rows; ++row)
            for (std::uint32_t column = 0; column < columns; ++column)
                bits_[row * words_ + column / 64] |= std::uint64_t{1} << column % 64;
    }

    [[nodiscard]] bool is_free(std::uint32_t column, std::uint32_t row) const {
        return bits_[row * words_ + column / 64] >> column % 64 & 1;
    }

    [[nodiscard]] std::uint32_t free_count() const { return count(bits_.data(), bits_.size()); }

    /// Boards that are free no more; throws where one of them is not free, and then takes none.
    void take(const Place &place) {
        for (const auto row : place.rows)
            for (const auto column : place.columns)
                if (column >= columns_ || row >= rows_ || !is_free(column, row))
                    throw std::invalid_argument("a board of this place is not free");
        for (const auto row : place.rows)
            for (const auto column : place.columns)
                bits_[row * words_ + column / 64] &= ~(std::uint64_t{1} << column % 64);
    }

    /// A virtual sub-HxMesh, greedily: row by row, each one that leaves enough columns common to all rows taken.
    [[nodiscard]] std::optional<Place> find(std::uint32_t columns, std::uint32_t rows) const {
        if (!fits(columns, rows)) return {};
        Place place;
        std::vector<std::uint64_t> common(words_, ~std::uint64_t{0}), next(words_);
        for (std::uint32_t row = 0; row < rows_; ++row) {
            if (intersect(common, row, next) < columns) continue;
            common.swap(next);
            place.rows.push_back(row);
            if (place.rows.size() < rows) continue;
            place.columns = first_of(common, columns);
            return place;
        }
        return {};
    }

    /// A virtual sub-HxMesh wherever there is one: all sets of rows, cut off where too few columns are common. `steps`
    /// limits the work; throws std::runtime_error beyond.
    [[nodiscard]] std::optional<Place> find_complete(std::uint32_t columns, std::uint32_t rows,
                                                     std::uint64_t steps) const {
        if (!fits(columns, rows)) return {};
        Place place;
        std::vector<std::uint64_t> common((rows + 1) * std::size_t{words_}, ~std::uint64_t{0});
        std::vector<std::uint32_t> candidates;
        for (std::uint32_t row = 0; row < rows_; ++row)
            if (count(&bits_[row * words_], words_) >= columns) candidates.push_back(row);
        std::vector<std::size_t> chosen; // places in `candidates`
        std::size_t next = 0;
        while (true) {
            const std::size_t depth = chosen.size();
            if (depth == rows) {
                for (const auto i : chosen)
                    place.rows.push_back(candidates[i]);
                const auto last = common.begin() + static_cast<std::ptrdiff_t>(depth * words_);
                place.columns = first_of({last, last + words_}, columns);
                return place;
            }
            if (candidates.size() - next < rows - depth) {
                if (depth == 0) return {};
                next = chosen.back() + 1;
                chosen.pop_back();
                continue;
            }
            if (steps-- == 0) throw std::runtime_error("the complete search takes too long");
            std::uint32_t left = 0;
            for (std::uint32_t w = 0; w < words_; ++w) {
                const auto both = common[depth * words_ + w] & bits_[candidates[next] * words_ + w];
                common[(depth + 1) * words_ + w] = both;
                left += static_cast<std::uint32_t>(std::popcount(both));
            }
            if (left >= columns) chosen.push_back(next);
            ++next;
        }
    }

    /// A contiguous block, that may go round the ends of rows and columns: the first one by row, then by column.
    [[nodiscard]] std::optional<Place> find_block(std::uint32_t columns, std::uint32_t rows) const {
        if (!fits(columns, rows)) return {};
        std::vector<std::uint32_t> depth(std::size_t{columns_} * rows_); // free boards from each one on southwards
        for (std::uint32_t column = 0; column < columns_; ++column) {
            std::uint32_t below = 0;
            for (std::uint32_t step = 2 * rows_; step-- > 0;) {
                below = is_free(column, step % rows_) ? below + 1 : 0;
                depth[step % rows_ * columns_ + column] = below;
            }
        }
        for (std::uint32_t row = 0; row < rows_; ++row) {
            std::uint32_t wide = 0;
            for (std::uint32_t step = 0; step < columns_ + columns - 1; ++step) {
                wide = depth[row * columns_ + step % columns_] >= rows ? wide + 1 : 0;
                if (wide < columns) continue;
                Place place;
                for (std::uint32_t i = 0; i < columns; ++i)
                    place.columns.push_back((step + 1 - columns + i) % columns_);
                for (std::uint32_t i = 0; i < rows; ++i)
                    place.rows.push_back((row + i) % rows_);
                return place;
            }
        }
        return {};
    }

  private:
    [[nodiscard]] bool fits(std::uint32_t columns, std::uint32_t rows) const {
        return columns >= 1 && rows >= 1 && columns <= columns_ && rows <= rows_;
    }

    static std::uint32_t count(const std::uint64_t *words, std::size_t n) {
        std::uint32_t sum = 0;
        for (std::size_t i = 0; i < n; ++i)
            sum += static_cast<std::uint32_t>(std::popcount(words[i]));
        return sum;
    }

    std::uint32_t intersect(const std::vector<std::uint64_t> &common, std::uint32_t row,
                            std::vector<std::uint64_t> &out) const {
        for (std::uint32_t w = 0; w < words_; ++w)
            out[w] = common[w] & bits_[row * words_ + w];
        return count(out.data(), words_);
    }

    [[nodiscard]] static std::vector<std::uint32_t> first_of(const std::vector<std::uint64_t> &set, std::uint32_t n) {
        std::vector<std::uint32_t> found;
        for (std::uint32_t w = 0; found.size() < n; ++w)
            for (auto rest = set[w]; rest != 0 && found.size() < n; rest &= rest - 1)
                found.push_back(64 * w + static_cast<std::uint32_t>(std::countr_zero(rest)));
        return found;
    }

    std::uint32_t columns_, rows_, words_;
    std::vector<std::uint64_t> bits_;
};

/// Share of the ordered pairs of different boards among `places` of a line that are on different leaves.
inline double crossing_pairs(const std::vector<std::uint32_t> &places, std::uint32_t boards_per_leaf) {
    if (places.size() < 2) return 0;
    std::vector<std::uint64_t> on_leaf;
    for (const auto place : places) {
        const std::size_t leaf = place / boards_per_leaf;
        if (leaf >= on_leaf.size()) on_leaf.resize(leaf + 1);
        ++on_leaf[leaf];
    }
    std::uint64_t same = 0;
    for (const auto n : on_leaf)
        same += n * (n - 1);
    const auto pairs = static_cast<double>(places.size()) * static_cast<double>(places.size() - 1);
    return 1 - static_cast<double>(same) / pairs;
}

/// Share of the steps around the ring of `places` of a line that lead to another leaf.
inline double crossing_steps(const std::vector<std::uint32_t> &places, std::uint32_t boards_per_leaf) {
    if (places.size() < 2) return 0;
    std::size_t crossing = 0;
    for (std::size_t i = 0; i < places.size(); ++i)
        crossing += places[i] / boards_per_leaf != places[(i + 1) % places.size()] / boards_per_leaf;
    return static_cast<double>(crossing) / static_cast<double>(places.size());
}

} // namespace hxmesh::allocation
