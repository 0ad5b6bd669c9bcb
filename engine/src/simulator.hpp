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
#include <type_traits>
#include <vector>

#include "calendar.hpp"
#include "checks.hpp"
#include "hxmesh/route.hpp"
#include "network.hpp"
#include "packets.hpp"
#include "repetition.hpp"
#include "state_writer.hpp"
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
    std::uint64_t repeated_packet_hops = 0; // of packet_hops, those that were skipped (repetition.hpp)
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
              std::vector<std::uint32_t> placement, Repetitions repetitions, bool validate)
        : routing_(std::move(routing)),
          p_(parameters),
          workload_(std::move(workload)),
          endpoint_of_(std::move(placement)),
          num_ports_(static_cast<std::uint32_t>(wiring.port_peer.size())),
          num_endpoints_(static_cast<std::uint32_t>(wiring.endpoint_router.size())),
          max_flits_(flits(p_.packet_bytes)),
          layout_(num_endpoints_, max_flits_, state_bits()),
          random_(p_.seed),
          repetitions_(repetitions) {
        if (num_ports_ + num_endpoints_ > kPortMask)
            throw std::invalid_argument("at most " + std::to_string(kPortMask) + " ports");
        input_flits_ =
            static_cast<std::int32_t>(std::min<std::int64_t>(p_.input_buffer_bytes / p_.flit_bytes, kPlenty));
        output_flits_ =
            static_cast<std::int32_t>(std::min<std::int64_t>(p_.output_buffer_bytes / p_.flit_bytes, kPlenty));
        if (input_flits_ < max_flits_ || output_flits_ < max_flits_)
            throw std::invalid_argument("every buffer must hold a packet");
        for (std::size_t r = 0; r + 1 < wiring.port_offset.size(); ++r)
            if ((wiring.port_offset[r + 1] - wiring.port_offset[r]) * kQueues >= 0xffff)
                throw std::invalid_argument("a router has at most " + std::to_string(0xfffe / kQueues) + " ports");
        build(wiring);
        if (validate) checks_ = std::make_unique<Checks>(static_cast<std::uint32_t>(endpoint_of_.size()));
    }

    Outcome run(const std::function<bool(const Progress &)> &tick) override {
        workload_->start(*this);
        bool go_on = true;
        // Counting hops takes a walk over all ports.
        const std::uint64_t between_ticks = std::max<std::uint64_t>(kTickEvents, 32 * ports_.size());
        std::uint64_t next_tick = between_ticks;
        TimePs before = 0;
        while (const Event *next = calendar_.pop(now_)) {
            const Event &event = *next;
            ++events_;
            if (checks_) [[unlikely]] {
                Checks::time(before, now_);
                before = now_;
            }
            prefetch();
            switch (event.kind()) {
            case EventKind::kPortFree:
                ports_[event.target].free_pending = false;
                send_next(event.target);
                break;
            case EventKind::kNicFree:
                ports_[event.target].free_pending = false;
                if (event.message != 0) report_injected(event.message - 1);
                feed(event.target - num_ports_);
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
            case EventKind::kArrive:
                arrive(event);
                break;
            case EventKind::kDeliver:
                deliver(event.message);
                break;
            case EventKind::kTimer:
                if (event.target == kNone)
                    enqueue(event.message);
                else if (event.target == kLook)
                    look_for_repetition();
                else
                    workload_->on_timer(event.target, event.message, *this);
                break;
            }
            if (events_ == next_tick) {
                next_tick += between_ticks;
                go_on = tick({delivered_, count_hops(), now_ + workload_->skipped_ps(), bytes()});
                if (!go_on) break;
            }
        }
        return finish(go_on);
    }

  private:
    friend class StateWriter<Simulator>;

    static constexpr std::uint32_t kVcs = Routing::kVcs;
    // Queues are numbered port * kQueues + channel: a power of two, as they are taken apart again in every hop.
    static constexpr std::uint32_t kQueues = std::bit_ceil(kVcs);
    static constexpr std::uint64_t kTickEvents = 1u << 20;
    static constexpr std::int32_t kPlenty = 1 << 29;
    // Events of the open window are known: what they name is fetched so many ahead.
    static constexpr std::uint32_t kAhead = 48, kAheadOut = 24, kAheadQueue = 8;
    static constexpr std::size_t kLargeBytes = std::size_t{8} << 20; // of ports: several times a core's own cache
    // An arrival's target is its port and, where there was but one way to go when it left, the way on from there in the
    // top bits: kStraight + the distance to the output queue, in queues.
    static constexpr std::uint32_t kWayShift = 23, kPortMask = (1u << kWayShift) - 1, kStraight = 256;
    static constexpr std::uint16_t kNobody = 0xffff;
    static constexpr std::uint32_t kLook = kNone - 1; // target of the timer for look_for_repetition

    // The size of these two decides the speed: a hop reads an input port and an output port, most often from outside
    // the cache. What every packet needs comes first, and fits one line with up to three virtual channels.
    struct alignas(64) OutputPort {
        TimePs busy_until = 0;
        TimePs crossbar_free = 0;
        std::uint32_t packets = 0;
        std::uint32_t peer = kNone;        // port at the other end
        std::uint32_t peer_router = kNone; // and its router
        std::uint16_t peer_local = 0;      // and its number there
        std::uint16_t first_waiter[kVcs];  // first of the router's input queues whose head wants to come here
        std::uint8_t link = 0;             // index into links_
        bool free_pending : 1 = false;     // an event will come when the port is free
        bool crossbar_pending : 1 = false; // an event will come when the crossbar serves the port again
        bool often_waited_for : 1 =
            false; // the last packets found the port busy: worth the event before anything is queued
        std::uint8_t last_vc = 0;
        std::uint8_t filled = 0;    // bit per virtual channel with queued packets
        std::int32_t credits[kVcs]; // flits of room in the input buffer at the other end
        PacketQueue queue[kVcs];
        std::uint16_t last_waiter[kVcs];
        std::uint32_t base = 0;      // first port of the router
        std::uint8_t crossed_vc = 0; // of the last packet that waited for the crossbar
    };
    struct QueueLength {
        std::int32_t flits = 0;
        std::int32_t fresh_flits = 0; // of them, those that came at time fresh_at_
    };
    enum class InputState : std::uint8_t { kFlowing, kWaitsForOutput, kWaitsForCrossbar };
    struct alignas(64) InputPort {
        TimePs crossbar_free = 0;
        std::uint32_t router = 0;
        std::uint32_t peer = kNone;      // the output port that sends here
        std::uint16_t local = 0;         // number in its router
        std::uint16_t output[kVcs];      // local output queue that the head of each input queue goes to
        std::uint16_t next_waiter[kVcs]; // local input queue that waits behind it for the same, or kNobody
        InputState state[kVcs];
        bool prompt[kVcs];       // the sender is short of credits: tell it of each
        std::int32_t owed[kVcs]; // flits freed that the sender has not been told of
        PacketQueue queue[kVcs];
    };
    struct Link {
        TimePs latency;
        std::int64_t bps;
        std::int32_t safe_credits;            // with so many left, a credit's travel time cannot matter
        std::vector<TimePs> serialisation_ps; // [flits]
    };
    struct Message {
        std::uint32_t src_endpoint, dst_endpoint;
        std::uint32_t to_inject, to_deliver;
        std::uint16_t last_flits;
        std::uint16_t open_ends; // injection and delivery not yet reported
        std::uint32_t next;      // in a NIC's list of pending messages, or of free slots
        std::uint32_t turn_left; // packets that are sent before another message has its turn
        std::int64_t bytes;
        std::uint32_t tag_a, tag_b;
    };
    struct alignas(64) Nic {
        std::uint32_t first_pending = kNone, last_pending = kNone;
        std::uint32_t active = 0; // messages being sent
        std::uint32_t turn = 0;
        std::uint32_t rank = kNone;
        bool asking = false;
        SendOrder order;
        std::int64_t asked_bytes = 0; // of messages that the workload sent when asked: posted one after the other
    };

    // ---- construction ------------------------------------------------------------------------------------------

    [[nodiscard]] std::int32_t flits(std::int64_t bytes) const {
        return static_cast<std::int32_t>(std::max<std::int64_t>(1, (bytes + p_.flit_bytes - 1) / p_.flit_bytes));
    }

    [[nodiscard]] HXMESH_INLINE std::int32_t flits(Packet packet) const { return layout_.flits(packet); }

    [[nodiscard]] std::uint32_t state_bits() const {
        if constexpr (Routing::kStateful)
            return routing_.state_bits();
        else
            return 0;
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
                ports_[g].base = offset_[r];
            }
        }
        for (OutputPort &port : ports_) {
            std::fill_n(port.credits, kVcs, input_flits_);
            std::fill_n(port.first_waiter, kVcs, kNobody);
            std::fill_n(port.last_waiter, kVcs, kNobody);
        }
        for (std::uint32_t g = 0; g < num_ports_; ++g) {
            if (w.port_peer[g] < 0) continue;
            connect(ports_[g], static_cast<std::uint32_t>(w.port_peer[g]));
            ports_[g].link = link(w.port_kind[g], p_.router_input_latency_ps + p_.router_output_latency_ps);
        }
        for (std::uint32_t e = 0; e < num_endpoints_; ++e) {
            const std::uint32_t host = offset_[static_cast<std::uint32_t>(w.endpoint_router[e])] +
                                       static_cast<std::uint32_t>(w.endpoint_port[e]);
            const std::uint32_t nic = num_ports_ + e;
            connect(ports_[nic], host);
            ports_[nic].link = link(w.port_kind[host], p_.router_input_latency_ps);
            ports_[host].peer = nic;
            ports_[host].link = link(w.port_kind[host], p_.router_output_latency_ps);
            // A NIC takes what comes: its link's bandwidth is the limit.
            std::fill_n(ports_[host].credits, kVcs, kPlenty);
        }
        for (std::uint32_t g = 0; g < num_ports_; ++g) {
            InputPort &in = inputs_[g];
            in.peer = ports_[g].peer;
            // Small buffers are always short of credits.
            const bool prompt = in.peer == kNone || input_flits_ < 4 * safe_credits(in.peer);
            for (std::uint32_t v = 0; v < kVcs; ++v) {
                in.prompt[v] = prompt;
                in.state[v] = InputState::kFlowing;
                in.output[v] = in.next_waiter[v] = 0;
                in.owed[v] = 0;
            }
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
        missing_flits_.resize(all);
        lengths_.resize(std::size_t{num_ports_} * kQueues);
        is_large_ = ports_.size() * sizeof(OutputPort) + inputs_.size() * sizeof(InputPort) >= kLargeBytes;
        calendar_.set_window_shift(window_shift());
        if (!may_repeat() || !workload_->is_regular()) repetitions_ = Repetitions::kIgnore;
        if (repetitions_ != Repetitions::kIgnore) calendar_.order_by_port();
    }

    /// Routing that adapts to every queue makes of many events at the same time what never comes again.
    [[nodiscard]] static constexpr bool may_repeat() {
        if constexpr (requires { Routing::kMayRepeat; })
            return Routing::kMayRepeat;
        else
            return !Routing::kAdaptive;
    }

    void connect(OutputPort &port, std::uint32_t peer) {
        port.peer = peer;
        port.peer_router = inputs_[peer].router;
        port.peer_local = inputs_[peer].local;
    }

    /// Windows well below the delays that most events have, so that few fall into the window that is open.
    [[nodiscard]] std::uint32_t window_shift() const {
        auto least = static_cast<std::uint64_t>(kPlenty);
        for (const Link &l : links_) {
            const TimePs whole = l.serialisation_ps[static_cast<std::size_t>(max_flits_)];
            for (const TimePs delay : {l.latency, whole})
                if (delay > 0) least = std::min(least, static_cast<std::uint64_t>(delay));
        }
        return static_cast<std::uint32_t>(std::max(4, static_cast<int>(std::bit_width(least)) - 3));
    }

    [[nodiscard]] TimePs transfer_ps(std::int32_t n, std::int64_t bps) const {
        // Rounded to the nearest picosecond per packet, so that no drift builds up flit by flit.
        const __int128 ps = (static_cast<__int128>(n) * p_.flit_bytes * 8 * 1'000'000'000'000 + bps / 2) / bps;
        if (ps > std::int64_t{1} << 62)
            throw std::invalid_argument("a packet of " + std::to_string(n) + " flits is longer than 2^62 ps on a link");
        return static_cast<TimePs>(ps);
    }

    std::uint8_t link(std::uint8_t kind, TimePs router_latency) {
        const std::int64_t bps = p_.bandwidth_bps.at(kind);
        const TimePs latency = p_.latency_ps.at(kind) + router_latency;
        for (std::size_t i = 0; i < links_.size(); ++i)
            if (links_[i].latency == latency && links_[i].bps == bps) return static_cast<std::uint8_t>(i);
        Link made;
        made.latency = latency;
        made.bps = bps;
        const TimePs flit = std::max<TimePs>(1, transfer_ps(1, bps));
        made.safe_credits = static_cast<std::int32_t>(
            std::min<TimePs>(kPlenty, latency / flit + 2 * static_cast<TimePs>(max_flits_) + 1));
        const auto n = static_cast<std::size_t>(max_flits_) + 1;
        for (std::size_t f = 0; f < n; ++f)
            made.serialisation_ps.push_back(transfer_ps(static_cast<std::int32_t>(f), bps));
        links_.push_back(std::move(made));
        if (links_.size() > 255) throw std::invalid_argument("more than 255 kinds of link");
        return static_cast<std::uint8_t>(links_.size() - 1);
    }

    // ---- events ------------------------------------------------------------------------------------------------

    /// Fetches the port that an event kAhead places behind is about. Without branches: kinds of events come in no order
    /// that a processor could predict, and a wrong guess costs more than most misses (benchmarks/README.md).
    HXMESH_INLINE void prefetch() {
        constexpr std::uint32_t at_input = 1u << static_cast<std::uint32_t>(EventKind::kArrive) |
                                           1u << static_cast<std::uint32_t>(EventKind::kCrossbarIn);
        const Event &event = calendar_.ahead(kAhead);
        const bool input = (at_input >> static_cast<std::uint32_t>(event.kind()) & 1u) != 0;
        const char *ports =
            input ? reinterpret_cast<const char *>(inputs_.data()) : reinterpret_cast<const char *>(ports_.data());
        // For events that are about no port this is somewhere in memory, and does no harm.
        fetch(ports + (event.target & kPortMask) * (input ? sizeof(InputPort) : sizeof(OutputPort)));
        if (is_large_) prefetch_more();
    }

    /// Fetches what that leads to: the output port that an arrival goes on to, if that is known, and the ends of
    /// queues. Pays where both are far from a core's own cache.
    HXMESH_INLINE void prefetch_more() {
        const Event &out = calendar_.ahead(kAheadOut);
        if (out.kind() == EventKind::kArrive && out.target > kPortMask)
            fetch(reinterpret_cast<const char *>(&ports_[way_out(out) / kQueues]));
        const Event &queue = calendar_.ahead(kAheadQueue);
        if (queue.kind() == EventKind::kArrive && queue.target > kPortMask) {
            const std::uint32_t to = way_out(queue);
            ports_[to / kQueues].queue[to % kQueues].prefetch(pool_);
        } else if (queue.kind() == EventKind::kPortFree) {
            const OutputPort &port = ports_[queue.target];
            for (std::uint32_t v = 0; v < kVcs; ++v)
                port.queue[v].prefetch(pool_);
        }
    }

    HXMESH_INLINE static void fetch(const char *port) {
        for (std::size_t line = 0; line < sizeof(OutputPort); line += 64)
            __builtin_prefetch(port + line, 1);
    }

    /// The output queue that an arriving packet goes to, if that was known when it left.
    [[nodiscard]] HXMESH_INLINE static std::uint32_t way_out(const Event &event) {
        return (event.target & kPortMask) * kQueues + (event.target >> kWayShift) - kStraight;
    }

    HXMESH_INLINE void arrive(const Event &event) {
        const std::uint32_t in_port = event.target & kPortMask, vc = event.vc();
        Packet packet{event.message, event.header};
        InputPort &in = inputs_[in_port];
        if (in.state[vc] != InputState::kFlowing || !in.queue[vc].empty()) {
            in.queue[vc].push(pool_, packet);
            return;
        }
        const std::uint32_t out = event.target > kPortMask ? way_out(event) : route(in_port, vc, packet);
        if (may_cross(in_port, out, packet)) {
            cross(in_port, out, packet);
            return_credit(in_port, vc, flits(packet));
            return;
        }
        in.queue[vc].push(pool_, packet);
        wait(in_port, vc, out, packet);
    }

    /// The output queue for a packet that has become the head of its input queue; notes the routing's state in it.
    [[nodiscard]] HXMESH_INLINE std::uint32_t route(std::uint32_t in_port, std::uint32_t in_vc, Packet &packet) {
        const InputPort &in = inputs_[in_port];
        RouteQuery query{in.router, in.local, in_vc, 0, layout_.dst(packet)};
        if constexpr (Routing::kNeedsSource) query.src = messages_[packet.message].src_endpoint;
        const std::uint32_t base = offset_[in.router];
        Hop hop;
        if constexpr (Routing::kStateful) {
            std::uint32_t state = layout_.state(packet);
            hop = routing_.route(query, state, RoomLeft{*this, base}, random_);
            layout_.set_state(packet, state);
        } else {
            hop = routing_.route(query, RoomLeft{*this, base});
        }
        return (base + hop.port) * kQueues + hop.vc;
    }

    /// Free and queued flits of the output queues of one router: all that adaptive routing sees.
    ///
    /// What came at this very time is not seen: Merlin routes a packet as it arrives or becomes the head of its queue,
    /// and moves it at the next tick of the crossbar, so that those of one time see the same (portControl.cc).
    struct RoomLeft {
        const Simulator &sim;
        std::uint32_t base;
        [[nodiscard]] std::int32_t operator()(std::uint32_t port, std::uint32_t vc) const {
            return sim.output_flits_ - queued(port, vc);
        }
        [[nodiscard]] std::int32_t queued(std::uint32_t port, std::uint32_t vc) const {
            const QueueLength &queue = sim.lengths_[(base + port) * kQueues + vc];
            // What came at this time may also have left by now.
            return sim.fresh_at_ == sim.now_ ? std::max(0, queue.flits - queue.fresh_flits) : queue.flits;
        }
        [[nodiscard]] std::int32_t capacity() const { return sim.output_flits_; }
    };

    [[nodiscard]] HXMESH_INLINE bool may_cross(std::uint32_t in_port, std::uint32_t out, Packet packet) const {
        const OutputPort &port = ports_[out / kQueues];
        const std::uint32_t vc = out % kQueues;
        if (port.first_waiter[vc] != kNobody || lengths_[out].flits + flits(packet) > output_flits_) return false;
        return p_.crossbar_bps == 0 || (inputs_[in_port].crossbar_free <= now_ && port.crossbar_free <= now_);
    }

    /// The head of an input queue, already in it, waits for what it lacks to go to output queue `out`.
    void wait(std::uint32_t in_port, std::uint32_t in_vc, std::uint32_t out, Packet packet) {
        InputPort &in = inputs_[in_port];
        const std::uint32_t base = offset_[in.router];
        in.output[in_vc] = static_cast<std::uint16_t>(out - base * kQueues);
        if (p_.crossbar_bps != 0 && in.crossbar_free > now_) {
            in.state[in_vc] = InputState::kWaitsForCrossbar;
            calendar_.push(in.crossbar_free, EventKind::kCrossbarIn, in_vc, in_port, 0, 0);
            return;
        }
        in.state[in_vc] = InputState::kWaitsForOutput;
        const auto self = static_cast<std::uint16_t>(in.local * kQueues + in_vc);
        OutputPort &port = ports_[out / kQueues];
        const std::uint32_t out_vc = out % kQueues;
        if (port.first_waiter[out_vc] == kNobody)
            port.first_waiter[out_vc] = self;
        else
            next_waiter(base, port.last_waiter[out_vc]) = self;
        port.last_waiter[out_vc] = self;
        in.next_waiter[in_vc] = kNobody;
        if (p_.crossbar_bps != 0 && lengths_[out].flits + flits(packet) <= output_flits_)
            wake_at_crossbar(out / kQueues);
    }

    /// The waiter behind local input queue `queue` of the router whose first port is `base`.
    [[nodiscard]] std::uint16_t &next_waiter(std::uint32_t base, std::uint32_t queue) {
        return inputs_[base + queue / kQueues].next_waiter[queue % kQueues];
    }

    void wake_at_crossbar(std::uint32_t out_port) {
        OutputPort &port = ports_[out_port];
        if (port.crossbar_pending || port.crossbar_free <= now_) return;
        port.crossbar_pending = true;
        calendar_.push(port.crossbar_free, EventKind::kCrossbarOut, 0, out_port, 0, 0);
    }

    /// Moves a packet through the crossbar: onto the link if that is free, else into the output queue.
    HXMESH_INLINE void cross(std::uint32_t in_port, std::uint32_t out, Packet packet) {
        const std::uint32_t out_port = out / kQueues, vc = out % kQueues;
        OutputPort &port = ports_[out_port];
        if (p_.crossbar_bps != 0) {
            const TimePs busy = now_ + crossbar_ps_[static_cast<std::size_t>(flits(packet))];
            inputs_[in_port].crossbar_free = busy;
            port.crossbar_free = busy;
        }
        const bool idle = is_idle(port);
        if (idle && !(port.filled >> vc & 1u) && port.credits[vc] >= flits(packet)) {
            transmit(out_port, port, vc, packet);
            return;
        }
        lengthen(out, flits(packet));
        port.queue[vc].push(pool_, packet);
        port.filled = static_cast<std::uint8_t>(port.filled | 1u << vc);
        if (!idle && !port.free_pending) {
            port.free_pending = true;
            port.often_waited_for = true;
            calendar_.push(port.busy_until, EventKind::kPortFree, 0, out_port, 0, 0);
        }
    }

    HXMESH_INLINE void lengthen(std::uint32_t out, std::int32_t n) {
        lengths_[out].flits += n;
        if constexpr (Routing::kAdaptive) {
            if (fresh_at_ != now_) {
                fresh_at_ = now_;
                for (const std::uint32_t queue : lengthened_)
                    lengths_[queue].fresh_flits = 0;
                lengthened_.clear();
            }
            lengths_[out].fresh_flits += n;
            lengthened_.push_back(out);
        }
    }

    /// A port that is seldom waited for gets no event when it is free: it is asked for its time instead.
    [[nodiscard]] HXMESH_INLINE bool is_idle(const OutputPort &port) const {
        return !port.free_pending && port.busy_until <= now_;
    }

    HXMESH_INLINE void transmit(std::uint32_t out_port, OutputPort &port, std::uint32_t vc, Packet packet) {
        port.busy_until = now_ + launch(out_port, port, vc, packet);
        if (port.filled == 0 && !port.often_waited_for) return;
        port.free_pending = true;
        calendar_.push(port.busy_until, EventKind::kPortFree, 0, out_port, 0, 0);
    }

    /// Sends the head of a packet on its way; returns how long its length occupies the port.
    HXMESH_INLINE TimePs launch(std::uint32_t out_port, OutputPort &port, std::uint32_t vc, Packet packet) {
        const Link &l = links_[port.link];
        port.credits[vc] -= flits(packet);
        if (checks_) [[unlikely]]
            check_sent(port, vc, packet);
        if (port.credits[vc] < 2 * l.safe_credits) [[unlikely]]
            collect(port, vc);
        port.last_vc = static_cast<std::uint8_t>(vc);
        ++port.packets;
        if (flits(packet) != max_flits_)
            missing_flits_[out_port] += static_cast<std::uint64_t>(max_flits_ - flits(packet));
        if (port.peer < num_ports_) {
            RouteQuery query{port.peer_router, port.peer_local, vc, 0, layout_.dst(packet)};
            if constexpr (Routing::kNeedsSource) query.src = messages_[packet.message].src_endpoint;
            Hop hop;
            std::uint32_t target = port.peer;
            if (routing_.only_hop(query, hop)) {
                const std::uint32_t way = kStraight + (hop.port - port.peer_local) * kQueues + hop.vc;
                if (way - 1 < 2 * kStraight - 1) target |= way << kWayShift;
            }
            calendar_.push(now_ + l.latency, EventKind::kArrive, vc, target, packet.message, packet.header);
        } else if (is_last_delivery(packet.message)) {
            // The other packets of a message have no consequences, and need no event.
            calendar_.push(now_ + l.latency + p_.costs.nic_recv_ps, EventKind::kDeliver, 0, 0, packet.message, 0);
        }
        return l.serialisation_ps[static_cast<std::size_t>(flits(packet))];
    }

    void check_sent(const OutputPort &port, std::uint32_t vc, Packet packet) {
        Checks::spent(port.credits[vc]);
        if (port.peer >= num_ports_)
            checks_->delivers(packet.message, port.peer - num_ports_, static_cast<std::uint64_t>(flits(packet)));
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
            const Packet packet = port.queue[vc].front();
            if (port.credits[vc] < flits(packet)) continue;
            port.queue[vc].pop(pool_);
            lengths_[out_port * kQueues + vc].flits -= flits(packet);
            if (port.queue[vc].empty()) port.filled = static_cast<std::uint8_t>(port.filled & ~(1u << vc));
            transmit(out_port, port, vc, packet);
            if (port.first_waiter[vc] != kNobody) admit(out_port, vc);
            return;
        }
    }

    /// Lets inputs that wait for this output queue in, longest waiting first, while there is room.
    void admit(std::uint32_t out_port, std::uint32_t vc) {
        OutputPort &port = ports_[out_port];
        const std::uint32_t base = port.base;
        while (port.first_waiter[vc] != kNobody) {
            const std::uint16_t first = port.first_waiter[vc];
            const std::uint32_t in_port = base + first / kQueues, in_vc = first % kQueues;
            InputPort &in = inputs_[in_port];
            const Packet packet = in.queue[in_vc].front();
            if (lengths_[out_port * kQueues + vc].flits + flits(packet) > output_flits_) return;
            if (p_.crossbar_bps != 0 && port.crossbar_free > now_) {
                wake_at_crossbar(out_port);
                return;
            }
            port.first_waiter[vc] = in.next_waiter[in_vc];
            if (p_.crossbar_bps != 0 && in.crossbar_free > now_) {
                wait(in_port, in_vc, out_port * kQueues + vc, packet);
                continue;
            }
            in.state[in_vc] = InputState::kFlowing;
            port.crossed_vc = static_cast<std::uint8_t>(vc);
            cross(in_port, out_port * kQueues + vc, packet);
            in.queue[in_vc].pop(pool_);
            return_credit(in_port, in_vc, flits(packet));
            drain(in_port, in_vc);
        }
    }

    /// Moves on what can move from an input queue whose head has just left.
    void drain(std::uint32_t in_port, std::uint32_t in_vc) {
        InputPort &in = inputs_[in_port];
        while (!in.queue[in_vc].empty()) {
            Packet packet = in.queue[in_vc].front();
            const std::uint32_t out = route(in_port, in_vc, packet);
            if (!may_cross(in_port, out, packet)) {
                if constexpr (Routing::kStateful) in.queue[in_vc].replace_front(packet);
                wait(in_port, in_vc, out, packet);
                return;
            }
            cross(in_port, out, packet);
            in.queue[in_vc].pop(pool_);
            return_credit(in_port, in_vc, flits(packet));
        }
        in.state[in_vc] = InputState::kFlowing;
    }

    [[nodiscard]] std::int32_t safe_credits(std::uint32_t port) const { return links_[ports_[port].link].safe_credits; }

    /// Room in an input buffer goes back to the sender, the link's latency later.
    ///
    /// While the sender has so many credits that it cannot use them up within the latency, it makes no difference when
    /// it learns of more: they are noted here, and it collects them when it runs low (`collect`). This saves a visit to
    /// the sender for every packet.
    HXMESH_INLINE void return_credit(std::uint32_t in_port, std::uint32_t in_vc, std::int32_t n) {
        InputPort &in = inputs_[in_port];
        if (!in.prompt[in_vc]) {
            in.owed[in_vc] += n;
            return;
        }
        calendar_.push(now_ + links_[ports_[in.peer].link].latency, EventKind::kCredit, in_vc, in.peer,
                       static_cast<std::uint32_t>(n), 0);
    }

    /// A sender that runs low takes what it is owed; if that does not help, it asks to be told of each credit.
    void collect(OutputPort &port, std::uint32_t vc) {
        if (port.peer >= num_ports_) {
            port.credits[vc] = kPlenty; // a NIC
            return;
        }
        InputPort &in = inputs_[port.peer];
        if (in.prompt[vc]) return;
        port.credits[vc] += in.owed[vc];
        if (checks_) Checks::returned(port.credits[vc], input_flits_);
        in.owed[vc] = 0;
        in.prompt[vc] = port.credits[vc] < 2 * links_[port.link].safe_credits;
    }

    void credit(const Event &event) {
        OutputPort &port = ports_[event.target];
        const std::uint32_t vc = event.vc();
        port.credits[vc] += static_cast<std::int32_t>(event.message);
        if (checks_) Checks::returned(port.credits[vc], input_flits_);
        const std::int32_t plenty = 4 * links_[port.link].safe_credits;
        if (port.credits[vc] >= plenty && input_flits_ >= plenty) inputs_[port.peer].prompt[vc] = false;
        if (!is_idle(port)) return;
        if (event.target >= num_ports_)
            feed(event.target - num_ports_);
        else
            send_next(event.target);
    }

    void crossbar_in(const Event &event) {
        const std::uint32_t in_port = event.target, vc = event.vc();
        InputPort &in = inputs_[in_port];
        if (in.state[vc] != InputState::kWaitsForCrossbar) return;
        in.state[vc] = InputState::kFlowing;
        const Packet packet = in.queue[vc].front();
        const std::uint32_t out = offset_[in.router] * kQueues + in.output[vc];
        if (!may_cross(in_port, out, packet)) {
            wait(in_port, vc, out, packet);
            return;
        }
        cross(in_port, out, packet);
        in.queue[vc].pop(pool_);
        return_credit(in_port, vc, flits(packet));
        drain(in_port, vc);
    }

    void crossbar_out(const Event &event) {
        OutputPort &port = ports_[event.target];
        port.crossbar_pending = false;
        // In turn, so that no channel waits for ever for the others.
        std::uint32_t v = port.crossed_vc;
        for (std::uint32_t tried = 0; tried < kVcs; ++tried) {
            v = v + 1 == kVcs ? 0 : v + 1;
            if (port.first_waiter[v] != kNobody) admit(event.target, v);
        }
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
        if (port.credits[0] < static_cast<std::int32_t>(n)) return;
        std::uint32_t ended = 0;
        if (--m.to_inject == 0) {
            ended = id + 1;
            nic.order.backlog_bytes -= m.bytes + p_.costs.header_bytes;
            // The machines behind move up: they keep their order, and the turn passes to the next one.
            for (std::uint32_t i = nic.turn + 1; i < nic.active; ++i)
                machines[i - 1] = machines[i];
            --nic.active;
        } else if (--m.turn_left == 0) {
            m.turn_left = SendOrder::kTurnPackets;
            ++nic.turn;
        }
        const std::uint32_t header = layout_.pack(m.dst_endpoint, n);
        port.free_pending = true;
        calendar_.push(now_ + launch(port_id, port, 0, {id, header}), EventKind::kNicFree, 0, port_id, ended, 0);
    }

    void fill_machines(std::uint32_t endpoint, Nic &nic) {
        const auto all = static_cast<std::uint32_t>(p_.send_machines);
        std::uint32_t *machines = &machines_[std::size_t{endpoint} * all];
        while (nic.active < all) {
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
        if (checks_) checks_->ends(message, dst_rank(m));
        bytes_delivered_ += m.bytes;
        const MessageInfo info{src_rank(m), dst_rank(m), m.bytes, m.tag_a, m.tag_b};
        close(message);
        workload_->on_delivered(info, *this);
    }

    void report_injected(std::uint32_t id) {
        const Message &m = messages_[id];
        const MessageInfo info{src_rank(m), dst_rank(m), m.bytes, m.tag_a, m.tag_b};
        close(id);
        workload_->on_injected(info, *this);
    }

    [[nodiscard]] std::uint32_t src_rank(const Message &m) const { return nics_[m.src_endpoint].rank; }
    [[nodiscard]] std::uint32_t dst_rank(const Message &m) const { return nics_[m.dst_endpoint].rank; }

    void close(std::uint32_t id) {
        if (--messages_[id].open_ends == 0) {
            messages_[id].next = free_message_;
            free_message_ = id;
        }
    }

    // ---- services for the workload -----------------------------------------------------------------------------

    [[nodiscard]] TimePs now() const override { return now_; }

    void send(std::uint32_t src, std::uint32_t dst, std::int64_t bytes, std::uint32_t tag_a, std::uint32_t tag_b,
              TimePs at) override {
        std::uint32_t id = free_message_;
        if (id == kNone) {
            id = static_cast<std::uint32_t>(messages_.size());
            messages_.emplace_back();
        } else {
            free_message_ = messages_[id].next;
        }
        const std::int64_t whole = bytes + p_.costs.header_bytes;
        const std::int64_t packets = std::max<std::int64_t>(1, (whole + p_.packet_bytes - 1) / p_.packet_bytes);
        const auto last = static_cast<std::uint16_t>(flits(whole - (packets - 1) * p_.packet_bytes));
        const auto count = static_cast<std::uint32_t>(packets);
        messages_[id] = {endpoint_of_[src], endpoint_of_[dst], count, count, last, 2, kNone, 0, bytes, tag_a, tag_b};
        ++messages_sent_;
        if (checks_)
            checks_->begins(id, src, endpoint_of_[dst], bytes, count,
                            (std::uint64_t{count} - 1) * static_cast<std::uint64_t>(max_flits_) + last);
        if (at > now_)
            timer(at - now_, kNone, id);
        else
            enqueue(id);
    }

    [[nodiscard]] static std::uint32_t turn(std::int64_t packets) {
        return static_cast<std::uint32_t>(std::min<std::int64_t>(packets, kNone));
    }

    /// A message has reached its NIC.
    void enqueue(std::uint32_t id) {
        Message &m = messages_[id];
        Nic &nic = nics_[m.src_endpoint];
        const std::int64_t bytes = m.bytes + p_.costs.header_bytes;
        if (nic.asking) {
            // Posted with all others of its kind, before any of them had left.
            m.turn_left = turn(SendOrder{nic.asked_bytes}.first_turn(p_.output_buffer_bytes, p_.packet_bytes));
            nic.asked_bytes += bytes;
        } else {
            if (nic.active == 1 && nic.first_pending == kNone)
                messages_[machines_[std::size_t{m.src_endpoint} * static_cast<std::size_t>(p_.send_machines)]]
                    .turn_left = turn(SendOrder::turn_alone(p_.output_buffer_bytes, p_.packet_bytes));
            m.turn_left = turn(nic.order.first_turn(p_.output_buffer_bytes, p_.packet_bytes));
        }
        nic.order.backlog_bytes += bytes;
        if (nic.first_pending == kNone)
            nic.first_pending = id;
        else
            messages_[nic.last_pending].next = id;
        nic.last_pending = id;
        if (!nic.asking) feed(m.src_endpoint);
    }

    void timer(TimePs delay, std::uint32_t target, std::uint32_t value) override {
        calendar_.push(now_ + delay, EventKind::kTimer, 0, target, value, 0);
    }

    void wake(std::uint32_t rank) override {
        if (!nics_[endpoint_of_[rank]].asking) feed(endpoint_of_[rank]);
    }

    void landmark() override {
        if (repetitions_ != Repetitions::kSkip || looking_ || !repetition_.is_due(events_)) return;
        looking_ = true;
        timer(1, kLook, 0); // when all that happens now is over
    }

    // ---- repetition --------------------------------------------------------------------------------------------

    void look_for_repetition() {
        looking_ = false;
        StateWriter writer(*this, repetition_.begin(events_));
        if (!repetition_.found()) return;
        const Snapshot &before = repetition_.reference();
        const TimePs period_ps = now_ - before.time;
        const std::uint32_t steps = workload_->landmark_steps() - before.steps;
        const std::uint32_t times = workload_->repeats_left(steps, period_ps, before.time);
        if (times == 0) return;
        const std::uint64_t hops = count_hops();
        auto old = before.counters.begin();
        visit_counters([&](auto &counter) {
            const std::int64_t more = static_cast<std::int64_t>(counter) - *old++;
            counter += static_cast<std::remove_reference_t<decltype(counter)>>(more * times);
        });
        repeated_hops_ += count_hops() - hops;
        for (const std::uint32_t id : writer.messages())
            messages_[id].tag_b += steps * times;
        workload_->skip(steps * times, period_ps * times);
        repetition_.forget();
    }

    /// Calls visit(counter) for all that is only counted, whatever its type.
    template <class Visit> void visit_counters(Visit &&visit) {
        for (OutputPort &port : ports_)
            visit(port.packets);
        for (std::uint64_t &flits : missing_flits_)
            visit(flits);
        visit(delivered_);
        visit(messages_sent_);
        visit(bytes_delivered_);
        workload_->visit_counters([&](std::int64_t &counter) { visit(counter); });
    }

    // ---- the end -----------------------------------------------------------------------------------------------

    [[nodiscard]] std::uint64_t count_hops() const {
        std::uint64_t sum = 0;
        for (const OutputPort &port : ports_)
            sum += port.packets;
        return sum;
    }

    [[nodiscard]] std::size_t bytes() const {
        return pool_.bytes() + calendar_.bytes() + ports_.size() * sizeof(OutputPort) +
               inputs_.size() * sizeof(InputPort) + nics_.size() * sizeof(Nic) +
               messages_.capacity() * sizeof(Message) + workload_->bytes() + repetition_.bytes();
    }

    Outcome finish(bool went_on) {
        Outcome out;
        out.simulated_time_ps = 0;
        for (const RankRecord &r : workload_->records)
            out.simulated_time_ps = std::max(out.simulated_time_ps, r.end_ps);
        out.packets = delivered_;
        out.packet_hops = count_hops();
        out.repeated_packet_hops = repeated_hops_;
        out.messages = messages_sent_;
        out.events = events_;
        out.bytes_delivered = bytes_delivered_;
        out.engine_bytes = bytes();
        out.ranks = workload_->records;
        for (std::size_t g = 0; g < ports_.size(); ++g) {
            const std::uint64_t packets = ports_[g].packets;
            out.port_packets.push_back(packets);
            out.port_flits.push_back(packets * static_cast<std::uint64_t>(max_flits_) - missing_flits_[g]);
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
            out.simulated_time_ps = now_ + workload_->skipped_ps();
            return out;
        }
        if (unfinished != 0) {
            out.status = Status::kDeadlock;
            out.simulated_time_ps = now_ + workload_->skipped_ps();
            const std::string cycle = waiting_cycle();
            out.message = std::to_string(unfinished) + " of " + std::to_string(workload_->records.size()) +
                          " ranks never finished: " + first + (unfinished > 3 ? "; ..." : "") +
                          (cycle.empty() ? "; no packet is stuck, so messages are missing from the schedule"
                                         : "; channels that wait for each other: " + cycle);
            return out;
        }
        check_conserved();
        if (checks_) checks_->finished(workload_->records);
        return out;
    }

    /// A finished network is empty and has all its credits: anything else is a defect of the engine.
    void check_conserved() const {
        for (const InputPort &port : inputs_)
            for (const PacketQueue &q : port.queue)
                if (!q.empty()) throw std::logic_error("a packet is left in an input queue");
        if (std::any_of(lengths_.begin(), lengths_.end(), [](const QueueLength &n) { return n.flits != 0; }))
            throw std::logic_error("an output queue's length is not what is in it");
        for (const OutputPort &port : ports_) {
            for (std::uint32_t v = 0; v < kVcs; ++v) {
                if (!port.queue[v].empty()) throw std::logic_error("a packet is left in an output queue");
                if (port.peer >= num_ports_) continue;
                if (port.credits[v] + inputs_[port.peer].owed[v] != input_flits_)
                    throw std::logic_error("credits were lost or made up");
            }
        }
    }

    /// Follows heads of queues from one that waits for room to the one it waits for, until one comes again.
    [[nodiscard]] std::string waiting_cycle() {
        std::vector<std::uint8_t> seen(std::size_t{num_ports_} * kQueues, 0);
        for (std::uint32_t start = 0; start < num_ports_ * kQueues; ++start) {
            if (start % kQueues >= kVcs) continue;
            std::vector<std::uint32_t> path;
            std::uint32_t out = start;
            while (out != kNone && !seen[out] && !ports_[out / kQueues].queue[out % kQueues].empty()) {
                seen[out] = 1;
                path.push_back(out);
                // This output's head waits for credits: the input queue at the other end is full.
                const std::uint32_t peer = ports_[out / kQueues].peer;
                if (peer >= num_ports_) break;
                const InputPort &in = inputs_[peer];
                const std::uint32_t vc = out % kQueues;
                out = in.queue[vc].empty() ? kNone : offset_[in.router] * kQueues + in.output[vc];
            }
            const auto again = std::find(path.begin(), path.end(), out);
            if (again == path.end()) continue;
            std::string text;
            for (auto it = again; it != path.end(); ++it) {
                const InputPort &at = inputs_[*it / kQueues];
                if (it - again == 12) {
                    text += " -> ... (" + std::to_string(path.end() - again) + " channels)";
                    break;
                }
                text += (it == again ? "" : " -> ") + std::string("router ") + std::to_string(at.router) + " port " +
                        std::to_string(at.local) + " vc " + std::to_string(*it % kQueues);
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
    std::int32_t max_flits_;
    std::conditional_t<Routing::kStateful, StatefulLayout, PlainLayout> layout_;
    Random random_;
    std::int32_t input_flits_ = 0, output_flits_ = 0;
    TimePs now_ = 0;
    std::uint64_t events_ = 0, delivered_ = 0, messages_sent_ = 0;
    std::int64_t bytes_delivered_ = 0;
    Calendar calendar_;
    PacketPool pool_;
    std::vector<std::uint32_t> offset_; // first port of each router
    PageVector<OutputPort> ports_;      // router ports, then one NIC port per endpoint
    PageVector<InputPort> inputs_;      // router ports
    bool is_large_ = false;             // the two above
    // [router ports * channels] what adaptive routing compares: apart, so that a router's are in few cache lines.
    PageVector<QueueLength> lengths_;
    TimePs fresh_at_ = -1;                  // what QueueLength::fresh_flits are about
    std::vector<std::uint32_t> lengthened_; // output queues with any
    std::vector<Link> links_;
    std::vector<std::uint64_t> missing_flits_; // [all ports] by which packets were shorter than the largest
    std::vector<TimePs> crossbar_ps_;          // [flits]
    PageVector<Message> messages_;
    std::uint32_t free_message_ = kNone;
    std::vector<Nic> nics_;
    std::vector<std::uint32_t> machines_; // [endpoints * send_machines] messages being sent
    std::unique_ptr<Checks> checks_;      // none unless a run is to be validated
    Repetitions repetitions_;
    bool looking_ = false; // an event for it will come
    Repetition repetition_;
    std::uint64_t repeated_hops_ = 0;
};

} // namespace hxmesh::engine
