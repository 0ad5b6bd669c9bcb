// A simulation's whole state as words, for what looks whether it was there before (repetition.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "calendar.hpp"
#include "packets.hpp"
#include "repetition.hpp"

namespace hxmesh::engine {

/// Writes what decides how a simulation goes on: times relative to now, messages by when they first come up.
template <class Simulator> class StateWriter {
  public:
    /// Fills `shot`, which is empty.
    StateWriter(Simulator &simulator, Snapshot &shot)
        : sim_(simulator), shot_(shot), out_(shot.state), name_of_(simulator.messages_.size(), kNone) {
        write_all();
    }

    /// Slots of the messages under way, in the order in which they came up.
    [[nodiscard]] const std::vector<std::uint32_t> &messages() const { return named_; }

  private:
    using OutputPort = typename Simulator::OutputPort;
    using InputPort = typename Simulator::InputPort;
    using InputState = typename Simulator::InputState;
    using Nic = typename Simulator::Nic;
    using Message = typename Simulator::Message;
    static constexpr std::uint32_t kVcs = Simulator::kVcs;
    static constexpr std::uint16_t kNobody = Simulator::kNobody;

    void write_all() {
        shot_.time = sim_.now_;
        shot_.steps = sim_.workload_->landmark_steps();
        for (OutputPort &port : sim_.ports_)
            write(port);
        for (const InputPort &port : sim_.inputs_)
            write(port);
        if (sim_.fresh_at_ == sim_.now_)
            for (const std::uint32_t queue : sim_.lengthened_)
                out_.put(queue, static_cast<std::uint32_t>(sim_.lengths_[queue].fresh_flits));
        out_.put(kNone, kNone);
        for (std::uint32_t e = 0; e < sim_.num_endpoints_; ++e)
            write(sim_.nics_[e], &sim_.machines_[std::size_t{e} * static_cast<std::size_t>(sim_.p_.send_machines)]);
        write_events();
        for (const std::uint32_t id : named_) {
            const Message &m = sim_.messages_[id];
            out_.put(m.src_endpoint, m.dst_endpoint);
            out_.put(m.to_inject, m.to_deliver);
            out_.put(std::uint32_t{m.last_flits} << 16 | m.open_ends, m.turn_left);
            out_.put(m.tag_a, m.tag_b - shot_.steps);
            out_.put(static_cast<std::uint64_t>(m.bytes));
        }
        out_.put(sim_.random_.state());
        sim_.workload_->write_state(sim_.now_, out_);
        sim_.visit_counters([&](auto &counter) { shot_.counters.push_back(static_cast<std::int64_t>(counter)); });
    }

    /// Slots of messages are used again in any order: a message is known by when it first comes up.
    [[nodiscard]] std::uint32_t name(std::uint32_t message) {
        if (name_of_[message] == kNone) {
            name_of_[message] = static_cast<std::uint32_t>(named_.size());
            named_.push_back(message);
        }
        return name_of_[message];
    }

    void write(const PacketQueue &queue) {
        queue.for_each(sim_.pool_, [&](Packet packet) { out_.put(name(packet.message), packet.header); });
        out_.put(kNone, kNone);
    }

    void write(OutputPort &port) {
        out_.put_time(port.busy_until, sim_.now_);
        out_.put_time(port.crossbar_free, sim_.now_);
        out_.put(std::uint32_t{port.free_pending} | port.crossbar_pending << 1 | port.often_waited_for << 2,
                 std::uint32_t{port.last_vc} << 8 | port.crossed_vc);
        for (std::uint32_t v = 0; v < kVcs; ++v) {
            // When a sender takes what it is owed makes no difference (return_credit).
            if (port.peer < sim_.num_ports_ && !sim_.inputs_[port.peer].prompt[v]) {
                port.credits[v] += sim_.inputs_[port.peer].owed[v];
                sim_.inputs_[port.peer].owed[v] = 0;
            }
            out_.put(static_cast<std::uint32_t>(port.peer < sim_.num_ports_ ? port.credits[v] : 0),
                     std::uint32_t{port.first_waiter[v]} << 16 |
                         (port.first_waiter[v] == kNobody ? kNobody : port.last_waiter[v]));
            write(port.queue[v]);
        }
    }

    void write(const InputPort &port) {
        out_.put_time(port.crossbar_free, sim_.now_);
        for (std::uint32_t v = 0; v < kVcs; ++v) {
            const InputState state = port.state[v];
            out_.put(static_cast<std::uint32_t>(state) << 1 | std::uint32_t{port.prompt[v]},
                     (state == InputState::kFlowing ? 0u : std::uint32_t{port.output[v]} << 16) |
                         (state == InputState::kWaitsForOutput ? port.next_waiter[v] : 0u));
            write(port.queue[v]);
        }
    }

    void write(const Nic &nic, const std::uint32_t *machines) {
        out_.put(nic.active, nic.turn);
        for (std::uint32_t i = 0; i < nic.active; ++i)
            out_.put(name(machines[i]), 0);
        for (std::uint32_t id = nic.first_pending; id != kNone; id = sim_.messages_[id].next)
            out_.put(name(id), 0);
        out_.put(kNone, kNone);
        out_.put(static_cast<std::uint64_t>(nic.order.backlog_bytes));
        out_.put(static_cast<std::uint64_t>(nic.asked_bytes));
    }

    /// Events to come. What ranks do at the same time is theirs alone: their order counts for each of them, and not
    /// from one to another.
    void write_events() {
        struct OfRank {
            TimePs time;
            Event event;
            std::uint32_t rank;
        };
        std::vector<OfRank> of_ranks;
        sim_.calendar_.for_each([&](TimePs time, const Event &event) {
            if (event.kind() == EventKind::kDeliver)
                of_ranks.push_back({time, event, sim_.dst_rank(sim_.messages_[event.message])});
            else if (event.kind() != EventKind::kTimer)
                write(time, event);
            else if (event.target == kNone)
                of_ranks.push_back({time, event, sim_.src_rank(sim_.messages_[event.message])});
            else
                of_ranks.push_back({time, event, sim_.workload_->rank_of_timer(event.target)});
        });
        std::stable_sort(of_ranks.begin(), of_ranks.end(),
                         [](const OfRank &a, const OfRank &b) { return a.rank < b.rank; });
        for (const OfRank &r : of_ranks)
            write(r.time, r.event);
    }

    void write(TimePs time, const Event &event) {
        const EventKind kind = event.kind();
        std::uint32_t message = event.message;
        if (kind == EventKind::kArrive || kind == EventKind::kDeliver ||
            (kind == EventKind::kTimer && event.target == kNone))
            message = name(message);
        else if (kind == EventKind::kNicFree && message != 0)
            message = name(message - 1) + 1;
        out_.put(static_cast<std::uint64_t>(time - sim_.now_));
        out_.put(static_cast<std::uint32_t>(kind) << 4 | event.vc(), event.target);
        out_.put(message, event.header);
    }

    Simulator &sim_;
    Snapshot &shot_;
    StateWords &out_;
    std::vector<std::uint32_t> name_of_; // [slots] kNone for those that have not come up
    std::vector<std::uint32_t> named_;
};

} // namespace hxmesh::engine
