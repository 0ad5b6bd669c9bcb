// The packet engine: routers with input and output queues, virtual cut-through, credits, a crossbar, and NICs.
//
// A packet is one object until it is delivered: its head crosses a router and a link in a constant time, its length
// only occupies the link (as in merlin.hr_router: sst-elements, merlin/interfaces/portControl.cc). A hop costs two
// events: the head's arrival, and the end of its transmission.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "events.hpp"
#include "hxmesh/route.hpp"
#include "network.hpp"
#include "packets.hpp"
#include "workload.hpp"

namespace hxmesh::engine {

struct Progress {
    std::uint64_t packets_delivered, packet_hops;
    TimePs simulated_time_ps;
    std::size_t bytes; // of the engine's own data
};

enum class Status { kComplete, kDeadlock, kStopped };

struct Outcome {
    Status status = Status::kComplete;
    std::string message;
    TimePs simulated_time_ps = 0;
    std::uint64_t packets = 0, packet_hops = 0, messages = 0, events = 0;
    std::int64_t bytes_delivered = 0;
    std::size_t engine_bytes = 0;
    std::vector<RankRecord> ranks;
    std::vector<std::uint64_t> port_packets, port_flits; // [router ports, then NIC ports by endpoint]
};

/// What does not depend on the routing function: lets the binding hold one pointer.
class AnySimulator {
  public:
    virtual ~AnySimulator() = default;
    /// Runs to the end; `tick` is called now and then, and stops the run by returning false.
    virtual Outcome run(const std::function<bool(const Progress &)> &tick) = 0;
};

template <class Routing> class Simulator final : public AnySimulator, private Services {
  public:
    /// Throws std::invalid_argument for parameters the model cannot run with.
    Simulator(Routing routing, const Wiring &wiring, const Parameters &parameters, std::unique_ptr<Workload> workload,
              std::vector<std::uint32_t> placement)
        : routing_(std::move(routing)),
          p_(parameters),
          workload_(std::move(workload)),
          endpoint_of_(std::move(placement)),
          num_ports_(static_cast<std::uint32_t>(wiring.port_peer.size())),
          num_endpoints_(static_cast<std::uint32_t>(wiring.endpoint_router.size())) {
        if (num_endpoints_ >= Packet::kMaxEndpoints)
            throw std::invalid_argument("at most " + std::to_string(Packet::kMaxEndpoints - 1) + " endpoints");
        max_flits_ = flits(p_.packet_bytes);
        if (max_flits_ > static_cast<std::int32_t>(Packet::kMaxFlits))
            throw std::invalid_argument("a packet has at most " + std::to_string(Packet::kMaxFlits) + " flits");
        input_flits_ =
            static_cast<std::int32_t>(std::min<std::int64_t>(p_.input_buffer_bytes / p_.flit_bytes, kPlenty));
        output_flits_ =
            static_cast<std::int32_t>(std::min<std::int64_t>(p_.output_buffer_bytes / p_.flit_bytes, kPlenty));
        if (input_flits_ < max_flits_ || output_flits_ < max_flits_)
            throw std::invalid_argument("every buffer must hold a packet");
        for (std::size_t r = 0; r + 1 < wiring.port_offset.size(); ++r)
            if ((wiring.port_offset[r + 1] - wiring.port_offset[r]) * kVcs >= 0xffff)
                throw std::invalid_argument("a router has at most " + std::to_string(0xfffe / kVcs) + " ports");
        build(wiring);
    }

    Outcome run(const std::function<bool(const Progress &)> &tick) override {
        workload_->start(*this);
        bool go_on = true;
        std::uint64_t next_tick = kTickEvents;
        Event event{};
        while (queue_.pop(event)) {
            now_ = event.time;
            ++events_;
            switch (event.kind) {
            case EventKind::kArrive:
                prefetch();
                arrive(event);
                break;
            case EventKind::kPortFree:
                prefetch();
                port_free(event);
                break;
            case EventKind::kCredit:
                credit(event);
                break;
            case EventKind::kCrossbarIn:
                crossbar_in(event);
                break;
            case EventKind::kCrossbarOut:
                crossbar_out(event);
                break;
            case EventKind::kTimer:
                workload_->on_timer(event.target, event.message, *this);
                break;
            }
            if (events_ == next_tick) {
                next_tick += kTickEvents;
                go_on = tick({delivered_, count_hops(), now_, bytes()});
                if (!go_on) break;
            }
        }
        return finish(go_on);
    }

  private:
    static constexpr std::uint32_t kVcs = Routing::kVcs;
    static constexpr std::uint64_t kTickEvents = 1u << 20;
    static constexpr std::int32_t kPlenty = 1 << 29;
    // Events of a lane are known before they are due. What one names is fetched into cache kFar events ahead, what that
    // leads to kNear events ahead; a packet with one way to go is routed then, so that its output port can be fetched.
    static constexpr std::uint32_t kFar = 12, kNear = 6;

    struct OutputQueue {
        PacketQueue queue;
        std::int32_t credits;      // flits of room in the input buffer at the other end
        std::int32_t used;         // flits queued here
        std::uint32_t last_waiter; // of the input queues whose head wants to come here: a circular list
    };
    // The size of these two decides the speed: a hop reads an input port and an output port, most often from outside
    // the cache. With one virtual channel an output port is one cache line, with two or three it is two.
    struct alignas(64) OutputPort {
        TimePs busy_until;
        TimePs crossbar_free;
        std::uint64_t flits;
        std::uint32_t packets;
        std::uint32_t peer;    // port at the other end
        std::uint8_t link;     // index into links_
        bool free_pending;     // an event will come when the port is free
        bool crossbar_pending; // an event will come when the crossbar serves the port again
        bool often_waited_for; // the last packets found the port busy: worth the event before anything is queued
        std::uint8_t last_vc : 4;
        std::uint8_t filled : 4; // bit per virtual channel with queued packets
        OutputQueue queues[kVcs];
    };
    enum class InputState : std::uint8_t { kFlowing, kWaitsForOutput, kWaitsForCrossbar };
    struct InputQueue {
        PacketQueue queue;
        std::uint32_t output; // output queue its head goes to
        std::uint32_t next_waiter;
        std::int32_t owed; // flits freed that the sender has not been told of
        InputState state;
        bool prompt; // the sender is short of credits: tell it of each
    };
    struct InputPort {
        TimePs crossbar_free;
        std::uint32_t router;
        std::uint32_t peer; // the output port that sends here
        std::uint16_t local;
        InputQueue queues[kVcs];
    };
    struct Serialisation {
        TimePs ps;
        EventQueue::LaneId lane = EventQueue::kHeap;
        bool known = false; // whether a lane was asked for: only lengths that occur get one
    };
    struct Link {
        TimePs latency;
        std::int64_t bps;
        EventQueue::LaneId lane;                  // of what travels along it
        std::int32_t safe_credits;                // with so many left, a credit's travel time cannot matter
        std::vector<Serialisation> serialisation; // [flits]
    };
    struct Message {
        std::uint32_t src_rank, dst_rank;
        std::uint32_t src_endpoint, dst_endpoint;
        std::uint32_t to_inject, to_deliver;
        std::uint32_t last_flits;
        std::uint32_t open_ends; // injection and delivery not yet reported
        std::int64_t bytes;
        std::uint32_t tag_a, tag_b;
        std::uint32_t next; // in a NIC's list of pending messages, or of free slots
    };
    struct alignas(32) Nic {
        std::uint32_t first_pending = kNone, last_pending = kNone;
        std::uint32_t active = 0; // messages being sent
        std::uint32_t turn = 0;
        std::uint32_t rank = kNone;
        bool asking = false;
    };

    // ---- construction ------------------------------------------------------------------------------------------

    [[nodiscard]] std::int32_t flits(std::int64_t bytes) const {
        return static_cast<std::int32_t>(std::max<std::int64_t>(1, (bytes + p_.flit_bytes - 1) / p_.flit_bytes));
    }

    void build(const Wiring &w) {
        offset_.assign(w.port_offset.begin(), w.port_offset.end());
        const std::uint32_t all = num_ports_ + num_endpoints_;
        ports_.resize(all);
        inputs_.resize(num_ports_);
        for (std::uint32_t r = 0; r + 1 < offset_.size(); ++r) {
            for (std::uint32_t g = offset_[r]; g < offset_[r + 1]; ++g) {
                inputs_[g].router = r;
                inputs_[g].local = static_cast<std::uint16_t>(g - offset_[r]);
                inputs_[g].peer = kNone;
            }
        }
        for (OutputPort &port : ports_) {
            port.peer = kNone;
            for (OutputQueue &q : port.queues) {
                q.credits = input_flits_;
                q.last_waiter = kNone;
            }
        }
        for (std::uint32_t g = 0; g < num_ports_; ++g) {
            if (w.port_peer[g] < 0) continue;
            ports_[g].peer = static_cast<std::uint32_t>(w.port_peer[g]);
            ports_[g].link = link(w.port_kind[g], p_.router_input_latency_ps + p_.router_output_latency_ps);
        }
        for (std::uint32_t e = 0; e < num_endpoints_; ++e) {
            const std::uint32_t host = offset_[static_cast<std::uint32_t>(w.endpoint_router[e])] +
                                       static_cast<std::uint32_t>(w.endpoint_port[e]);
            const std::uint32_t nic = num_ports_ + e;
            ports_[nic].peer = host;
            ports_[nic].link = link(w.port_kind[host], p_.router_input_latency_ps);
            ports_[host].peer = nic;
            ports_[host].link = link(w.port_kind[host], p_.router_output_latency_ps);
            // A NIC takes what comes: its link's bandwidth is the limit.
            for (OutputQueue &q : ports_[host].queues)
                q.credits = kPlenty;
        }
        for (std::uint32_t g = 0; g < num_ports_; ++g) {
            InputPort &in = inputs_[g];
            in.peer = ports_[g].peer;
            // Small buffers are always short of credits.
            for (InputQueue &q : in.queues)
                q.prompt = in.peer == kNone || input_flits_ < 4 * safe_credits(in.peer);
        }
        if (p_.crossbar_bps > 0) {
            crossbar_ps_.resize(static_cast<std::size_t>(max_flits_) + 1);
            for (std::int32_t f = 0; f <= max_flits_; ++f)
                crossbar_ps_[static_cast<std::size_t>(f)] = transfer_ps(f, p_.crossbar_bps);
        }
        nics_.resize(num_endpoints_);
        machines_.resize(std::size_t{num_endpoints_} * static_cast<std::size_t>(p_.send_machines));
        for (std::uint32_t r = 0; r < endpoint_of_.size(); ++r)
            nics_[endpoint_of_[r]].rank = r;
    }

    [[nodiscard]] TimePs transfer_ps(std::int32_t n, std::int64_t bps) const {
        // Rounded to the nearest picosecond per packet, so that no drift builds up flit by flit.
        return static_cast<TimePs>((static_cast<__int128>(n) * p_.flit_bytes * 8 * 1'000'000'000'000 + bps / 2) / bps);
    }

    std::uint8_t link(std::uint8_t kind, TimePs router_latency) {
        const std::int64_t bps = p_.bandwidth_bps.at(kind);
        const TimePs latency = p_.latency_ps.at(kind) + router_latency;
        for (std::size_t i = 0; i < links_.size(); ++i)
            if (links_[i].latency == latency && links_[i].bps == bps) return static_cast<std::uint8_t>(i);
        Link made;
        made.latency = latency;
        made.bps = bps;
        made.lane = queue_.lane(latency);
        const TimePs flit = std::max<TimePs>(1, transfer_ps(1, bps));
        made.safe_credits = static_cast<std::int32_t>(
            std::min<TimePs>(kPlenty, latency / flit + 2 * static_cast<TimePs>(max_flits_) + 1));
        const auto n = static_cast<std::size_t>(max_flits_) + 1;
        for (std::size_t f = 0; f < n; ++f)
            made.serialisation.push_back({transfer_ps(static_cast<std::int32_t>(f), bps)});
        links_.push_back(std::move(made));
        if (links_.size() > 255) throw std::invalid_argument("more than 255 kinds of link");
        return static_cast<std::uint8_t>(links_.size() - 1);
    }

    // ---- events ------------------------------------------------------------------------------------------------

    template <class T> HXMESH_INLINE static void fetch(const T &record) {
        for (std::size_t line = 0; line < sizeof(T); line += 64)
            __builtin_prefetch(reinterpret_cast<const char *>(&record) + line, 1);
    }

    HXMESH_INLINE void prefetch() {
        if (const Event *e = queue_.peek(kFar)) {
            if (e->kind == EventKind::kPortFree)
                fetch(ports_[e->target]);
            else if (e->target < num_ports_)
                fetch(inputs_[e->target]);
            else
                fetch(messages_[e->message]);
        }
        Event *e = queue_.peek(kNear);
        if (e == nullptr || e->target >= num_ports_) return;
        if (e->kind == EventKind::kArrive) {
            const InputPort &in = inputs_[e->target];
            RouteQuery query{in.router, in.local, e->vc, 0, Packet{e->message, e->header}.dst()};
            if constexpr (Routing::kNeedsSource) query.src = messages_[e->message].src_endpoint;
            Hop hop;
            if (!routing_.only_hop(query, hop)) return;
            e->hop = static_cast<std::uint16_t>(1 + hop.port * kVcs + hop.vc);
            fetch(ports_[offset_[in.router] + hop.port]);
        } else if (e->kind == EventKind::kPortFree) {
            const OutputPort &port = ports_[e->target];
            for (std::uint32_t v = 0; v < kVcs; ++v)
                if (port.filled >> v & 1u) port.queues[v].queue.prefetch_front(pool_);
        }
    }

    HXMESH_INLINE void arrive(const Event &event) {
        const Packet packet{event.message, event.header};
        if (event.target >= num_ports_) {
            deliver(event.message);
            return;
        }
        InputQueue &in = inputs_[event.target].queues[event.vc];
        if (in.state == InputState::kFlowing && in.queue.empty()) {
            const std::uint32_t out = event.hop != 0 ? offset_[inputs_[event.target].router] * kVcs + event.hop - 1u
                                                     : route(event.target, event.vc, packet);
            if (may_cross(event.target, out, packet)) {
                cross(event.target, out, packet);
                return_credit(event.target, event.vc, packet.flits());
                return;
            }
            in.output = out;
            in.queue.push(pool_, packet);
            wait(event.target, event.vc, packet);
            return;
        }
        in.queue.push(pool_, packet);
    }

    [[nodiscard]] HXMESH_INLINE std::uint32_t route(std::uint32_t in_port, std::uint32_t in_vc, Packet packet) const {
        const InputPort &in = inputs_[in_port];
        RouteQuery query{in.router, in.local, in_vc, 0, packet.dst()};
        if constexpr (Routing::kNeedsSource) query.src = messages_[packet.message].src_endpoint;
        const std::uint32_t base = offset_[in.router];
        const Hop hop = routing_.route(query, RoomLeft{*this, base});
        return (base + hop.port) * kVcs + hop.vc;
    }

    /// Free flits of the output queues of one router: all that adaptive routing sees.
    struct RoomLeft {
        const Simulator &sim;
        std::uint32_t base;
        [[nodiscard]] std::int32_t operator()(std::uint32_t port, std::uint32_t vc) const {
            return sim.output_flits_ - sim.ports_[base + port].queues[vc].used;
        }
        [[nodiscard]] std::int32_t capacity() const { return sim.output_flits_; }
    };

    [[nodiscard]] HXMESH_INLINE OutputQueue &output(std::uint32_t out) { return ports_[out / kVcs].queues[out % kVcs]; }
    [[nodiscard]] HXMESH_INLINE InputQueue &input(std::uint32_t in) { return inputs_[in / kVcs].queues[in % kVcs]; }

    [[nodiscard]] HXMESH_INLINE bool may_cross(std::uint32_t in_port, std::uint32_t out, Packet packet) const {
        const OutputPort &port = ports_[out / kVcs];
        const OutputQueue &q = port.queues[out % kVcs];
        if (q.last_waiter != kNone || q.used + packet.flits() > output_flits_) return false;
        return p_.crossbar_bps == 0 || (inputs_[in_port].crossbar_free <= now_ && port.crossbar_free <= now_);
    }

    /// The head of an input queue, already in it, waits for what it lacks.
    void wait(std::uint32_t in_port, std::uint32_t in_vc, Packet packet) {
        InputPort &port = inputs_[in_port];
        InputQueue &in = port.queues[in_vc];
        if (p_.crossbar_bps != 0 && port.crossbar_free > now_) {
            in.state = InputState::kWaitsForCrossbar;
            queue_.push_any(
                {port.crossbar_free, in_port, 0, 0, static_cast<std::uint8_t>(in_vc), EventKind::kCrossbarIn});
            return;
        }
        in.state = InputState::kWaitsForOutput;
        const std::uint32_t at = in_port * kVcs + in_vc;
        OutputQueue &q = output(in.output);
        if (q.last_waiter == kNone) {
            in.next_waiter = at;
        } else {
            InputQueue &last = input(q.last_waiter);
            in.next_waiter = last.next_waiter;
            last.next_waiter = at;
        }
        q.last_waiter = at;
        if (p_.crossbar_bps != 0 && q.used + packet.flits() <= output_flits_) wake_at_crossbar(in.output / kVcs);
    }

    void wake_at_crossbar(std::uint32_t out_port) {
        OutputPort &port = ports_[out_port];
        if (port.crossbar_pending || port.crossbar_free <= now_) return;
        port.crossbar_pending = true;
        queue_.push_any({port.crossbar_free, out_port, 0, 0, 0, EventKind::kCrossbarOut});
    }

    /// Takes the first waiter off the list of an output queue.
    void pop_waiter(OutputQueue &q, std::uint32_t first) {
        if (first == q.last_waiter)
            q.last_waiter = kNone;
        else
            input(q.last_waiter).next_waiter = input(first).next_waiter;
    }

    /// Moves a packet through the crossbar: onto the link if that is free, else into the output queue.
    HXMESH_INLINE void cross(std::uint32_t in_port, std::uint32_t out, Packet packet) {
        const std::uint32_t out_port = out / kVcs, vc = out % kVcs;
        OutputPort &port = ports_[out_port];
        OutputQueue &q = port.queues[vc];
        if (p_.crossbar_bps != 0) {
            const TimePs busy = now_ + crossbar_ps_[static_cast<std::size_t>(packet.flits())];
            inputs_[in_port].crossbar_free = busy;
            port.crossbar_free = busy;
        }
        const bool idle = is_idle(port);
        if (idle && q.queue.empty() && q.credits >= packet.flits()) {
            transmit(out_port, port, q, vc, packet);
            return;
        }
        q.used += packet.flits();
        q.queue.push(pool_, packet);
        port.filled = static_cast<std::uint8_t>((port.filled | 1u << vc) & 15u);
        if (!idle && !port.free_pending) {
            port.free_pending = true;
            port.often_waited_for = true;
            queue_.push_any({port.busy_until, out_port, 0, 0, 0, EventKind::kPortFree});
        }
    }

    /// A port that is seldom waited for gets no event when it is free: it is asked for its time instead.
    [[nodiscard]] HXMESH_INLINE bool is_idle(const OutputPort &port) const {
        return !port.free_pending && port.busy_until <= now_;
    }

    HXMESH_INLINE void transmit(std::uint32_t out_port, OutputPort &port, OutputQueue &q, std::uint32_t vc,
                                Packet packet) {
        const TimePs busy = launch(port, q, vc, packet).ps;
        port.busy_until = now_ + busy;
        if (port.filled == 0 && !port.often_waited_for) return;
        port.free_pending = true;
        const Serialisation &time = links_[port.link].serialisation[static_cast<std::size_t>(packet.flits())];
        queue_.push(time.lane, {now_ + busy, out_port, 0, 0, 0, EventKind::kPortFree});
    }

    /// Sends the head of a packet on its way; returns how long its length occupies the port.
    HXMESH_INLINE const Serialisation &launch(OutputPort &port, OutputQueue &q, std::uint32_t vc, Packet packet) {
        const auto n = static_cast<std::size_t>(packet.flits());
        q.credits -= packet.flits();
        if (q.credits < 2 * links_[port.link].safe_credits) [[unlikely]]
            collect(port, q, vc);
        port.last_vc = static_cast<std::uint8_t>(vc & 15u);
        ++port.packets;
        port.flits += n;
        Link &l = links_[port.link];
        // Of the packets of a message only the last to reach the NIC has consequences; the rest need no event.
        if (port.peer < num_ports_ || is_last_delivery(packet.message))
            queue_.push(l.lane, {now_ + l.latency, port.peer, packet.message, packet.header,
                                 static_cast<std::uint8_t>(vc), EventKind::kArrive});
        Serialisation &time = l.serialisation[n];
        if (!time.known) [[unlikely]] {
            time.known = true;
            time.lane = queue_.lane(time.ps);
        }
        return time;
    }

    HXMESH_INLINE void port_free(const Event &event) {
        ports_[event.target].free_pending = false;
        if (event.target < num_ports_) {
            send_next(event.target);
            return;
        }
        if (event.message != 0) report_injected(event.message - 1);
        feed(event.target - num_ports_);
    }

    /// Puts the next packet of a router's output port on its link: round robin over channels with credits.
    HXMESH_INLINE void send_next(std::uint32_t out_port) {
        OutputPort &port = ports_[out_port];
        if (port.filled == 0) {
            port.often_waited_for = false;
            return;
        }
        std::uint32_t vc = port.last_vc;
        for (std::uint32_t tried = 0; tried < kVcs; ++tried) {
            vc = vc + 1 == kVcs ? 0 : vc + 1;
            if (!(port.filled >> vc & 1u)) continue;
            OutputQueue &q = port.queues[vc];
            const Packet packet = q.queue.front(pool_);
            if (q.credits < packet.flits()) continue;
            q.queue.pop(pool_);
            q.used -= packet.flits();
            if (q.queue.empty()) port.filled = static_cast<std::uint8_t>(port.filled & ~(1u << vc) & 15u);
            transmit(out_port, port, q, vc, packet);
            if (q.last_waiter != kNone) admit(out_port, vc);
            return;
        }
    }

    /// Lets inputs that wait for this output queue in, longest waiting first, while there is room.
    void admit(std::uint32_t out_port, std::uint32_t vc) {
        OutputPort &port = ports_[out_port];
        OutputQueue &q = port.queues[vc];
        while (q.last_waiter != kNone) {
            const std::uint32_t at = input(q.last_waiter).next_waiter;
            InputQueue &in = input(at);
            const std::uint32_t in_port = at / kVcs, in_vc = at % kVcs;
            const Packet packet = in.queue.front(pool_);
            if (q.used + packet.flits() > output_flits_) return;
            if (p_.crossbar_bps != 0) {
                if (port.crossbar_free > now_) {
                    wake_at_crossbar(out_port);
                    return;
                }
                if (inputs_[in_port].crossbar_free > now_) {
                    pop_waiter(q, at);
                    wait(in_port, in_vc, packet);
                    continue;
                }
            }
            pop_waiter(q, at);
            in.state = InputState::kFlowing;
            cross(in_port, out_port * kVcs + vc, packet);
            in.queue.pop(pool_);
            return_credit(in_port, in_vc, packet.flits());
            drain(in_port, in_vc);
        }
    }

    /// Moves on what can move from an input queue whose head has just left.
    void drain(std::uint32_t in_port, std::uint32_t in_vc) {
        InputQueue &in = inputs_[in_port].queues[in_vc];
        while (!in.queue.empty()) {
            const Packet packet = in.queue.front(pool_);
            in.output = route(in_port, in_vc, packet);
            if (!may_cross(in_port, in.output, packet)) {
                wait(in_port, in_vc, packet);
                return;
            }
            cross(in_port, in.output, packet);
            in.queue.pop(pool_);
            return_credit(in_port, in_vc, packet.flits());
        }
        in.state = InputState::kFlowing;
    }

    [[nodiscard]] std::int32_t safe_credits(std::uint32_t port) const { return links_[ports_[port].link].safe_credits; }

    /// Room in an input buffer goes back to the sender, the link's latency later.
    ///
    /// While the sender has so many credits that it cannot use them up within the latency, it makes no difference when
    /// it learns of more: they are noted here, and it collects them when it runs low (`collect`). This saves a visit to
    /// the sender for every packet.
    HXMESH_INLINE void return_credit(std::uint32_t in_port, std::uint32_t in_vc, std::int32_t n) {
        InputPort &port = inputs_[in_port];
        InputQueue &in = port.queues[in_vc];
        if (!in.prompt) {
            in.owed += n;
            return;
        }
        const Link &l = links_[ports_[port.peer].link];
        queue_.push(l.lane, {now_ + l.latency, port.peer, static_cast<std::uint32_t>(n), 0,
                             static_cast<std::uint8_t>(in_vc), EventKind::kCredit});
    }

    /// A sender that runs low takes what it is owed; if that does not help, it asks to be told of each credit.
    void collect(OutputPort &port, OutputQueue &q, std::uint32_t vc) {
        if (port.peer >= num_ports_) {
            q.credits = kPlenty; // a NIC
            return;
        }
        InputQueue &in = inputs_[port.peer].queues[vc];
        if (in.prompt) return;
        q.credits += in.owed;
        in.owed = 0;
        in.prompt = q.credits < 2 * links_[port.link].safe_credits;
    }

    void credit(const Event &event) {
        OutputPort &port = ports_[event.target];
        OutputQueue &q = port.queues[event.vc];
        q.credits += static_cast<std::int32_t>(event.message);
        const std::int32_t plenty = 4 * links_[port.link].safe_credits;
        if (q.credits >= plenty && input_flits_ >= plenty) inputs_[port.peer].queues[event.vc].prompt = false;
        if (!is_idle(port)) return;
        if (event.target >= num_ports_)
            feed(event.target - num_ports_);
        else
            send_next(event.target);
    }

    void crossbar_in(const Event &event) {
        InputQueue &in = inputs_[event.target].queues[event.vc];
        if (in.state != InputState::kWaitsForCrossbar) return;
        in.state = InputState::kFlowing;
        const Packet packet = in.queue.front(pool_);
        if (!may_cross(event.target, in.output, packet)) {
            wait(event.target, event.vc, packet);
            return;
        }
        cross(event.target, in.output, packet);
        in.queue.pop(pool_);
        return_credit(event.target, event.vc, packet.flits());
        drain(event.target, event.vc);
    }

    void crossbar_out(const Event &event) {
        OutputPort &port = ports_[event.target];
        port.crossbar_pending = false;
        for (std::uint32_t v = 0; v < kVcs; ++v)
            if (port.queues[v].last_waiter != kNone) admit(event.target, v);
    }

    // ---- endpoints ---------------------------------------------------------------------------------------------

    void feed(std::uint32_t endpoint) {
        Nic &nic = nics_[endpoint];
        const std::uint32_t port_id = num_ports_ + endpoint;
        OutputPort &port = ports_[port_id];
        if (!is_idle(port)) return;
        fill_machines(endpoint, nic);
        if (nic.active == 0) return;
        std::uint32_t *machines = &machines_[std::size_t{endpoint} * static_cast<std::size_t>(p_.send_machines)];
        if (nic.turn >= nic.active) nic.turn = 0;
        const std::uint32_t id = machines[nic.turn];
        Message &m = messages_[id];
        const auto n = m.to_inject == 1 ? m.last_flits : static_cast<std::uint32_t>(max_flits_);
        OutputQueue &q = port.queues[0];
        if (q.credits < static_cast<std::int32_t>(n)) return;
        std::uint32_t ended = 0;
        if (--m.to_inject == 0) {
            ended = id + 1;
            // The machines behind move up: they keep their order, and the turn passes to the next one.
            for (std::uint32_t i = nic.turn + 1; i < nic.active; ++i)
                machines[i - 1] = machines[i];
            --nic.active;
        } else {
            ++nic.turn;
        }
        const std::uint32_t header = Packet::pack(m.dst_endpoint, n);
        const Serialisation &time = launch(port, q, 0, {id, header});
        port.free_pending = true;
        queue_.push(time.lane, {now_ + time.ps, port_id, ended, 0, 0, EventKind::kPortFree});
    }

    void fill_machines(std::uint32_t endpoint, Nic &nic) {
        const auto limit = static_cast<std::uint32_t>(p_.send_machines);
        std::uint32_t *machines = &machines_[std::size_t{endpoint} * limit];
        while (nic.active < limit) {
            if (nic.first_pending == kNone) {
                if (nic.rank == kNone || nic.asking) return;
                nic.asking = true;
                workload_->refill(nic.rank, *this);
                nic.asking = false;
                if (nic.first_pending == kNone) return;
            }
            const std::uint32_t id = nic.first_pending;
            nic.first_pending = messages_[id].next;
            machines[nic.active++] = id;
        }
    }

    [[nodiscard]] bool is_last_delivery(std::uint32_t message) {
        ++delivered_;
        return --messages_[message].to_deliver == 0;
    }

    /// The last packet of a message has reached its destination.
    void deliver(std::uint32_t message) {
        const Message &m = messages_[message];
        bytes_delivered_ += m.bytes;
        const MessageInfo info{m.src_rank, m.dst_rank, m.bytes, m.tag_a, m.tag_b};
        close(message);
        workload_->on_delivered(info, *this);
    }

    void report_injected(std::uint32_t id) {
        const Message &m = messages_[id];
        const MessageInfo info{m.src_rank, m.dst_rank, m.bytes, m.tag_a, m.tag_b};
        close(id);
        workload_->on_injected(info, *this);
    }

    void close(std::uint32_t id) {
        if (--messages_[id].open_ends == 0) {
            messages_[id].next = free_message_;
            free_message_ = id;
        }
    }

    // ---- services for the workload -----------------------------------------------------------------------------

    [[nodiscard]] TimePs now() const override { return now_; }

    void send(std::uint32_t src, std::uint32_t dst, std::int64_t bytes, std::uint32_t tag_a,
              std::uint32_t tag_b) override {
        std::uint32_t id = free_message_;
        if (id == kNone) {
            id = static_cast<std::uint32_t>(messages_.size());
            messages_.emplace_back();
        } else {
            free_message_ = messages_[id].next;
        }
        const std::int64_t packets = std::max<std::int64_t>(1, (bytes + p_.packet_bytes - 1) / p_.packet_bytes);
        const auto last = static_cast<std::uint32_t>(flits(bytes - (packets - 1) * p_.packet_bytes));
        const auto count = static_cast<std::uint32_t>(packets);
        messages_[id] = {src,   dst,  endpoint_of_[src], endpoint_of_[dst], count, count, last, 2, bytes, tag_a,
                         tag_b, kNone};
        ++messages_sent_;
        Nic &nic = nics_[endpoint_of_[src]];
        if (nic.first_pending == kNone)
            nic.first_pending = id;
        else
            messages_[nic.last_pending].next = id;
        nic.last_pending = id;
        if (!nic.asking) feed(endpoint_of_[src]);
    }

    void timer(TimePs delay, std::uint32_t target, std::uint32_t value) override {
        queue_.push_any({now_ + delay, target, value, 0, 0, EventKind::kTimer});
    }

    void wake(std::uint32_t rank) override {
        if (!nics_[endpoint_of_[rank]].asking) feed(endpoint_of_[rank]);
    }

    // ---- the end -----------------------------------------------------------------------------------------------

    [[nodiscard]] std::uint64_t count_hops() const {
        std::uint64_t sum = 0;
        for (const OutputPort &port : ports_)
            sum += port.packets;
        return sum;
    }

    [[nodiscard]] std::size_t bytes() const {
        return pool_.bytes() + queue_.bytes() + ports_.size() * sizeof(OutputPort) +
               inputs_.size() * sizeof(InputPort) + nics_.size() * sizeof(Nic) +
               messages_.capacity() * sizeof(Message) + workload_->bytes();
    }

    Outcome finish(bool went_on) {
        Outcome out;
        out.simulated_time_ps = 0;
        for (const RankRecord &r : workload_->records)
            out.simulated_time_ps = std::max(out.simulated_time_ps, r.end_ps);
        out.packets = delivered_;
        out.packet_hops = count_hops();
        out.messages = messages_sent_;
        out.events = events_;
        out.bytes_delivered = bytes_delivered_;
        out.engine_bytes = bytes();
        out.ranks = workload_->records;
        for (const OutputPort &port : ports_) {
            out.port_packets.push_back(port.packets);
            out.port_flits.push_back(port.flits);
        }
        std::uint32_t unfinished = 0;
        std::string first;
        for (std::uint32_t r = 0; r < workload_->records.size(); ++r) {
            if (workload_->done(r)) continue;
            out.ranks[r].end_ps = -1;
            if (unfinished++ < 3)
                first += (first.empty() ? "" : "; ") + std::string("rank ") + std::to_string(r) + " waits for " +
                         workload_->waiting_for(r);
        }
        if (!went_on) {
            out.status = Status::kStopped;
            out.simulated_time_ps = now_;
            return out;
        }
        if (unfinished != 0) {
            out.status = Status::kDeadlock;
            out.simulated_time_ps = now_;
            const std::string cycle = waiting_cycle();
            out.message = std::to_string(unfinished) + " of " + std::to_string(workload_->records.size()) +
                          " ranks never finished: " + first + (unfinished > 3 ? "; ..." : "") +
                          (cycle.empty() ? "; no packet is stuck, so messages are missing from the schedule"
                                         : "; channels that wait for each other: " + cycle);
            return out;
        }
        check_conserved();
        return out;
    }

    /// A finished network is empty and has all its credits: anything else is a defect of the engine.
    void check_conserved() const {
        for (const InputPort &port : inputs_)
            for (const InputQueue &q : port.queues)
                if (!q.queue.empty()) throw std::logic_error("a packet is left in an input queue");
        for (const OutputPort &port : ports_) {
            for (std::uint32_t v = 0; v < kVcs; ++v) {
                const OutputQueue &q = port.queues[v];
                if (!q.queue.empty() || q.used != 0) throw std::logic_error("a packet is left in an output queue");
                if (port.peer >= num_ports_) continue;
                if (q.credits + inputs_[port.peer].queues[v].owed != input_flits_)
                    throw std::logic_error("credits were lost or made up");
            }
        }
    }

    /// Follows heads of queues from one that waits for room to the one it waits for, until one comes again.
    [[nodiscard]] std::string waiting_cycle() {
        std::vector<std::uint8_t> seen(std::size_t{num_ports_} * kVcs, 0);
        for (std::uint32_t start = 0; start < num_ports_ * kVcs; ++start) {
            std::vector<std::uint32_t> path;
            std::uint32_t out = start;
            while (out != kNone && !seen[out] && !output(out).queue.empty()) {
                seen[out] = 1;
                path.push_back(out);
                // This output's head waits for credits: the input queue at the other end is full.
                const std::uint32_t peer = ports_[out / kVcs].peer;
                if (peer >= num_ports_) break;
                const InputQueue &in = inputs_[peer].queues[out % kVcs];
                out = in.queue.empty() ? kNone : in.output;
            }
            const auto again = std::find(path.begin(), path.end(), out);
            if (again == path.end()) continue;
            std::string text;
            for (auto it = again; it != path.end(); ++it) {
                const InputPort &at = inputs_[*it / kVcs];
                if (it - again == 12) {
                    text += " -> ... (" + std::to_string(path.end() - again) + " channels)";
                    break;
                }
                text += (it == again ? "" : " -> ") + std::string("router ") + std::to_string(at.router) + " port " +
                        std::to_string(at.local) + " vc " + std::to_string(*it % kVcs);
            }
            return text;
        }
        return "";
    }

    Routing routing_;
    Parameters p_;
    std::unique_ptr<Workload> workload_;
    std::vector<std::uint32_t> endpoint_of_; // of each rank
    std::uint32_t num_ports_, num_endpoints_;
    std::int32_t max_flits_ = 1, input_flits_ = 0, output_flits_ = 0;
    TimePs now_ = 0;
    std::uint64_t events_ = 0, delivered_ = 0, messages_sent_ = 0;
    std::int64_t bytes_delivered_ = 0;
    EventQueue queue_;
    PacketPool pool_;
    std::vector<std::uint32_t> offset_; // first port of each router
    PageVector<OutputPort> ports_;      // router ports, then one NIC port per endpoint
    PageVector<InputPort> inputs_;      // router ports
    std::vector<Link> links_;
    std::vector<TimePs> crossbar_ps_; // [flits]
    PageVector<Message> messages_;
    std::uint32_t free_message_ = kNone;
    std::vector<Nic> nics_;
    std::vector<std::uint32_t> machines_; // [endpoints * send_machines] messages being sent
};

} // namespace hxmesh::engine
