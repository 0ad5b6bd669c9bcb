// Python's way into the engine.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "hxmesh/any_routing.hpp"
#include "simulator.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace hxmesh::engine;

namespace {

template <class T> using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T> std::vector<T> copy(const Array<T> &a) { return {a.data(), a.data() + a.shape(0)}; }

template <class T> nb::ndarray<nb::numpy, T, nb::ndim<1>> give(std::vector<T> values) {
    auto *held = new std::vector<T>(std::move(values));
    nb::capsule owner(held, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    return {held->data(), {held->size()}, owner};
}

/// One run, prepared: the network, its parameters, a workload.
class Engine {
  public:
    Engine(const hxmesh::RoutingSpec &spec, Wiring wiring, Parameters parameters)
        : spec_(spec), wiring_(std::move(wiring)), parameters_(std::move(parameters)) {}

    void set_shift(std::uint32_t ranks, std::int64_t bytes, const Array<std::int32_t> &shifts, std::uint32_t window) {
        workload_ = std::make_unique<ShiftWorkload>(ranks, bytes, copy(shifts), window, parameters_.costs);
    }

    void set_streams(std::uint32_t ranks, std::uint32_t streams, std::uint32_t segments,
                     const Array<std::int32_t> &send_peer, const Array<std::int32_t> &recv_peer,
                     const Array<std::int32_t> &steps, const Array<std::int64_t> &total_bytes,
                     const Array<std::int32_t> &parts, const Array<std::int32_t> &first_block,
                     const Array<std::int32_t> &reduce_fs_per_byte, bool lockstep) {
        StreamWorkload::Segments d{copy(send_peer),   copy(recv_peer),          copy(steps),      copy(parts),
                                   copy(first_block), copy(reduce_fs_per_byte), copy(total_bytes)};
        workload_ =
            std::make_unique<StreamWorkload>(ranks, streams, segments, std::move(d), lockstep, parameters_.costs);
    }

    void set_graph(std::uint32_t ranks, const Array<std::int64_t> &op_offset, const Array<std::uint8_t> &kind,
                   const Array<std::int32_t> &peer, const Array<std::int64_t> &value,
                   const Array<std::int64_t> &dep_offset, const Array<std::int64_t> &dep,
                   const Array<std::int64_t> &match) {
        GraphWorkload::Graph g{copy(op_offset),  copy(kind), copy(peer), copy(value),
                               copy(dep_offset), copy(dep),  copy(match)};
        workload_ = std::make_unique<GraphWorkload>(ranks, std::move(g), parameters_.costs);
    }

    /// Throws std::invalid_argument for parameters the network cannot run with.
    void prepare(const Array<std::uint32_t> &placement, const std::string &repetitions, bool validate) {
        if (!workload_) throw std::invalid_argument("no workload was set");
        const Repetitions how = repetitions == "skip"       ? Repetitions::kSkip
                                : repetitions == "simulate" ? Repetitions::kSimulate
                                                            : Repetitions::kIgnore;
        simulator_ = std::visit(
            [&](auto routing) -> std::unique_ptr<AnySimulator> {
                return std::make_unique<Simulator<decltype(routing)>>(
                    std::move(routing), wiring_, parameters_, std::move(workload_), copy(placement), how, validate);
            },
            hxmesh::make_routing(spec_));
    }

    /// Runs what was prepared, once; `tick(packets, hops, time_ps, bytes)` is called with the interpreter lock, and
    /// stops the run by raising or by returning false.
    nb::dict run(const nb::callable &tick) {
        if (!simulator_) throw std::invalid_argument("nothing was prepared");
        const std::unique_ptr<AnySimulator> simulator = std::move(simulator_);
        Outcome out;
        {
            nb::gil_scoped_release unlocked;
            out = simulator->run([&](const Progress &p) {
                nb::gil_scoped_acquire locked;
                if (PyErr_CheckSignals() != 0) throw nb::python_error();
                return nb::cast<bool>(tick(p.packets_delivered, p.packet_hops, p.simulated_time_ps, p.bytes));
            });
        }
        return pack(std::move(out));
    }

  private:
    static nb::dict pack(Outcome out) {
        static const char *const kStatus[] = {"complete", "deadlock", "stopped"};
        std::vector<std::int64_t> sent, received, start, end;
        for (const RankRecord &r : out.ranks) {
            sent.push_back(r.bytes_sent);
            received.push_back(r.bytes_received);
            start.push_back(r.start_ps);
            end.push_back(r.end_ps);
        }
        nb::dict d;
        d["status"] = kStatus[static_cast<int>(out.status)];
        d["message"] = out.message;
        d["simulated_time_ps"] = out.simulated_time_ps;
        d["packets"] = out.packets;
        d["packet_hops"] = out.packet_hops;
        d["repeated_packet_hops"] = out.repeated_packet_hops;
        d["messages"] = out.messages;
        d["events"] = out.events;
        d["bytes_delivered"] = out.bytes_delivered;
        d["engine_bytes"] = out.engine_bytes;
        d["rank_bytes_sent"] = give(std::move(sent));
        d["rank_bytes_received"] = give(std::move(received));
        d["rank_start_ps"] = give(std::move(start));
        d["rank_end_ps"] = give(std::move(end));
        d["port_packets"] = give(std::move(out.port_packets));
        d["port_flits"] = give(std::move(out.port_flits));
        return d;
    }

    hxmesh::RoutingSpec spec_;
    Wiring wiring_;
    Parameters parameters_;
    std::unique_ptr<Workload> workload_;
    std::unique_ptr<AnySimulator> simulator_;
};

} // namespace

NB_MODULE(_core, m) {
    nb::class_<Checks>(m, "Checks")
        .def(nb::init<std::uint32_t>(), "ranks"_a)
        .def_static("time", &Checks::time, "before"_a, "now"_a)
        .def_static("spent", &Checks::spent, "credits"_a)
        .def_static("returned", &Checks::returned, "credits"_a, "capacity"_a)
        .def("begins", &Checks::begins, nb::kw_only(), "slot"_a, "src_rank"_a, "dst_endpoint"_a, "bytes"_a, "packets"_a,
             "flits"_a)
        .def("delivers", &Checks::delivers, nb::kw_only(), "slot"_a, "endpoint"_a, "flits"_a)
        .def("ends", &Checks::ends, nb::kw_only(), "slot"_a, "dst_rank"_a)
        .def(
            "finished",
            [](const Checks &self, const Array<std::int64_t> &sent, const Array<std::int64_t> &received) {
                if (sent.shape(0) != received.shape(0)) throw std::invalid_argument("one of each for every rank");
                std::vector<RankRecord> records;
                for (std::size_t r = 0; r < sent.shape(0); ++r)
                    records.push_back({sent.data()[r], received.data()[r]});
                self.finished(records);
            },
            nb::kw_only(), "sent_bytes"_a, "received_bytes"_a);
    nb::class_<Engine>(m, "Engine")
        .def(
            "__init__",
            [](Engine *self, std::string family, std::map<std::string, std::int64_t> routing_params,
               std::map<std::string, std::vector<std::int32_t>> routing_tables, const Array<std::int64_t> &port_offset,
               const Array<std::int32_t> &port_peer, const Array<std::uint8_t> &port_kind,
               const Array<std::int32_t> &endpoint_router, const Array<std::int32_t> &endpoint_port,
               std::int64_t packet_bytes, std::int64_t flit_bytes, std::vector<std::int64_t> bandwidth_bps,
               std::vector<std::int64_t> latency_ps, std::int64_t router_input_latency_ps,
               std::int64_t router_output_latency_ps, std::int64_t crossbar_bps, std::int64_t input_buffer_bytes,
               std::int64_t output_buffer_bytes, std::int32_t send_machines, std::int64_t send_overhead_ps,
               std::int64_t recv_overhead_ps, std::int64_t match_overhead_ps, std::int64_t nic_command_ps,
               std::int64_t nic_send_latency_ps, std::int64_t nic_recv_latency_ps, std::int64_t message_header_bytes,
               std::int64_t eager_limit_bytes, std::uint64_t seed) {
                new (self) Engine(
                    {std::move(family), std::move(routing_params), std::move(routing_tables)},
                    {copy(port_offset), copy(port_peer), copy(port_kind), copy(endpoint_router), copy(endpoint_port)},
                    {packet_bytes,
                     flit_bytes,
                     std::move(bandwidth_bps),
                     std::move(latency_ps),
                     router_input_latency_ps,
                     router_output_latency_ps,
                     crossbar_bps,
                     input_buffer_bytes,
                     output_buffer_bytes,
                     send_machines,
                     {send_overhead_ps, recv_overhead_ps, match_overhead_ps, nic_command_ps, nic_send_latency_ps,
                      nic_recv_latency_ps, message_header_bytes, eager_limit_bytes},
                     seed});
            },
            nb::kw_only(), "family"_a, "routing_params"_a, "routing_tables"_a, "port_offset"_a, "port_peer"_a,
            "port_kind"_a, "endpoint_router"_a, "endpoint_port"_a, "packet_bytes"_a, "flit_bytes"_a, "bandwidth_bps"_a,
            "latency_ps"_a, "router_input_latency_ps"_a, "router_output_latency_ps"_a, "crossbar_bps"_a,
            "input_buffer_bytes"_a, "output_buffer_bytes"_a, "send_machines"_a, "send_overhead_ps"_a,
            "recv_overhead_ps"_a, "match_overhead_ps"_a, "nic_command_ps"_a, "nic_send_latency_ps"_a,
            "nic_recv_latency_ps"_a, "message_header_bytes"_a, "eager_limit_bytes"_a, "seed"_a)
        .def("set_shift", &Engine::set_shift, nb::kw_only(), "ranks"_a, "message_bytes"_a, "shifts"_a, "window"_a)
        .def("set_streams", &Engine::set_streams, nb::kw_only(), "ranks"_a, "streams"_a, "segments"_a, "send_peer"_a,
             "recv_peer"_a, "steps"_a, "total_bytes"_a, "parts"_a, "first_block"_a, "reduce_fs_per_byte"_a,
             "lockstep"_a)
        .def("set_graph", &Engine::set_graph, nb::kw_only(), "ranks"_a, "op_offset"_a, "kind"_a, "peer"_a, "value"_a,
             "dep_offset"_a, "dep"_a, "match"_a)
        .def("prepare", &Engine::prepare, nb::kw_only(), "placement"_a, "repetitions"_a, "validate"_a)
        .def("run", &Engine::run, "tick"_a);
}
