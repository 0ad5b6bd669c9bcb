// Python's way to the searches.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "free_boards.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace hxmesh::allocation;

namespace {

/// (columns, rows) as tuples, or None.
nb::object give(const std::optional<Place> &place) {
    if (!place) return nb::none();
    const auto tuple = [](const std::vector<std::uint32_t> &values) {
        nb::list list;
        for (const auto value : values)
            list.append(value);
        return nb::tuple(list);
    };
    return nb::make_tuple(tuple(place->columns), tuple(place->rows));
}

} // namespace

NB_MODULE(_search, m) {
    nb::class_<FreeBoards>(m, "FreeBoards")
        .def(nb::init<std::uint32_t, std::uint32_t>(), "columns"_a, "rows"_a)
        .def("free_count", &FreeBoards::free_count)
        .def(
            "take",
            [](FreeBoards &self, std::vector<std::uint32_t> columns, std::vector<std::uint32_t> rows) {
                self.take({std::move(columns), std::move(rows)});
            },
            "columns"_a, "rows"_a)
        .def(
            "find",
            [](const FreeBoards &self, std::uint32_t columns, std::uint32_t rows) {
                return give(self.find(columns, rows));
            },
            "columns"_a, "rows"_a)
        .def(
            "find_complete",
            [](const FreeBoards &self, std::uint32_t columns, std::uint32_t rows, std::uint64_t steps) {
                return give(self.find_complete(columns, rows, steps));
            },
            "columns"_a, "rows"_a, "steps"_a)
        .def(
            "find_block",
            [](const FreeBoards &self, std::uint32_t columns, std::uint32_t rows) {
                return give(self.find_block(columns, rows));
            },
            "columns"_a, "rows"_a);
    m.def("crossing_pairs", &crossing_pairs, "places"_a, "boards_per_leaf"_a);
    m.def("crossing_steps", &crossing_steps, "places"_a, "boards_per_leaf"_a);
}
