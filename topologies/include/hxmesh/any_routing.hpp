// Builds the routing function that a topology's routing specification names.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "hxmesh/dragonfly.hpp"
#include "hxmesh/fattree.hpp"
#include "hxmesh/hammingmesh.hpp"
#include "hxmesh/hammingmesh_failed.hpp"
#include "hxmesh/hyperx.hpp"
#include "hxmesh/torus.hpp"

namespace hxmesh {

using AnyRouting = std::variant<HammingMeshRouting, HammingMeshFailedRouting, TorusRouting, HyperXRouting,
                                DragonflyRouting, DragonflyUgalRouting, FatTreeRouting>;

/// The data of topologies.base.RoutingSpec.
struct RoutingSpec {
    std::string family;
    std::map<std::string, std::int64_t> params;
    std::map<std::string, std::vector<std::int32_t>> tables;

    [[nodiscard]] std::uint32_t param(const std::string &name) const {
        const auto it = params.find(name);
        if (it == params.end()) throw std::invalid_argument("routing " + family + " needs parameter " + name);
        if (it->second < 0) throw std::invalid_argument("routing parameter " + name + " must not be negative");
        return static_cast<std::uint32_t>(it->second);
    }
    [[nodiscard]] const std::vector<std::int32_t> &table(const std::string &name) const {
        const auto it = tables.find(name);
        if (it == tables.end()) throw std::invalid_argument("routing " + family + " needs table " + name);
        return it->second;
    }
};

/// Throws std::invalid_argument for an unknown family or a missing parameter or table.
inline AnyRouting make_routing(const RoutingSpec &spec) {
    if (spec.family == "hxmesh")
        return HammingMeshRouting(spec.param("a"), spec.param("b"), spec.param("x"), spec.param("y"),
                                  spec.param("radix"));
    if (spec.family == "hxmesh-failed")
        return HammingMeshFailedRouting(spec.param("a"), spec.param("b"), spec.param("x"), spec.param("y"),
                                        spec.param("radix"), spec.table("failed"));
    if (spec.family == "torus")
        return TorusRouting(spec.param("size0"), spec.param("size1"), spec.param("balanced") != 0);
    if (spec.family == "hyperx") return HyperXRouting(spec.param("size0"), spec.param("size1"));
    if (spec.family == "dragonfly") {
        DragonflyCables cables(
            spec.param("p"), spec.param("a"), spec.param("g"),
            {spec.table("group_link_offset"), spec.table("group_link_router"), spec.table("group_link_port")});
        if (spec.param("ugal") != 0) return DragonflyUgalRouting(std::move(cables));
        return DragonflyRouting(std::move(cables), spec.param("balanced") != 0);
    }
    if (spec.family == "fattree") {
        FatTreeRouting::Tables t;
        const auto &level = spec.table("level");
        t.level.assign(level.begin(), level.end());
        t.down_ports = spec.table("down_ports");
        t.up_ports = spec.table("up_ports");
        t.first_leaf = spec.table("first_leaf");
        t.last_leaf = spec.table("last_leaf");
        t.child_span = spec.table("child_span");
        t.child_offset = spec.table("child_offset");
        t.child_first_port = spec.table("child_first_port");
        t.child_count = spec.table("child_count");
        t.level_divisor = spec.table("level_divisor");
        t.up_switch_offset = spec.table("up_switch_offset");
        t.up_switch = spec.table("up_switch");
        return FatTreeRouting(spec.param("d0"), spec.param("adaptive") != 0, std::move(t));
    }
    throw std::invalid_argument("unknown routing family " + spec.family);
}

} // namespace hxmesh
