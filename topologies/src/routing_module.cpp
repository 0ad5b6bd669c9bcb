// Python's view of the routing headers: for tests, for enumeration of channel dependencies, for looking at a route.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <type_traits>

#include "hxmesh/any_routing.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

class Routing {
  public:
    explicit Routing(const hxmesh::RoutingSpec &spec) : routing_(hxmesh::make_routing(spec)) {}

    [[nodiscard]] std::uint32_t num_vcs() const {
        return std::visit([](const auto &r) { return std::decay_t<decltype(r)>::kVcs; }, routing_);
    }

    [[nodiscard]] std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>>
    candidates(std::uint32_t router, std::uint32_t in_port, std::uint32_t in_vc, std::uint32_t src, std::uint32_t dst,
               std::uint32_t state) const {
        const hxmesh::RouteQuery query{router, in_port, in_vc, src, dst};
        std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> out;
        std::visit(
            [&](const auto &routing) {
                if constexpr (std::decay_t<decltype(routing)>::kStateful) {
                    routing.candidates(query, state, [&](hxmesh::Hop hop, std::uint32_t next) {
                        out.emplace_back(hop.port, hop.vc, next);
                    });
                } else {
                    hxmesh::Candidates found;
                    routing.candidates(query, found);
                    found.for_each([&](hxmesh::Hop hop) { out.emplace_back(hop.port, hop.vc, 0); });
                }
            },
            routing_);
        return out;
    }

  private:
    hxmesh::AnyRouting routing_;
};

} // namespace

NB_MODULE(_routing, m) {
    nb::class_<Routing>(m, "Routing")
        .def(
            "__init__",
            [](Routing *self, std::string family, std::map<std::string, std::int64_t> params,
               std::map<std::string, std::vector<std::int32_t>> tables) {
                new (self) Routing(hxmesh::RoutingSpec{std::move(family), std::move(params), std::move(tables)});
            },
            "family"_a, "params"_a, "tables"_a)
        .def_prop_ro("num_vcs", &Routing::num_vcs)
        .def("candidates", &Routing::candidates, "router"_a, "in_port"_a, "in_vc"_a, "src"_a, "dst"_a, "state"_a = 0);
}
