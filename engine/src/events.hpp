// The event queue: a few FIFO lanes of constant delay, and a heap for what fits none.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <queue>
#include <vector>

#if defined(__GNUC__)
#define HXMESH_INLINE [[gnu::always_inline]] inline
#else
#define HXMESH_INLINE inline
#endif

namespace hxmesh::engine {

using TimePs = std::int64_t;
inline constexpr TimePs kNever = std::numeric_limits<TimePs>::max();

enum class EventKind : std::uint8_t {
    kArrive,      // the head of a packet reaches a port: target = port, message, header, vc
    kPortFree,    // a port has put a packet on its link: target = port; message = 1 + message that ended (NIC ports)
    kCredit,      // flits freed downstream: target = port, message = flits, vc
    kCrossbarIn,  // an input port may use the crossbar again: target = port, vc
    kCrossbarOut, // an output port may take from the crossbar again: target = port
    kTimer,       // the workload's own: target, message
};

struct Event {
    TimePs time;
    std::uint32_t target;
    std::uint32_t message;
    std::uint32_t header; // packed destination and flits of a packet
    std::uint8_t vc;
    EventKind kind;
    std::uint16_t hop = 0; // of a packet whose way on is known before it arrives: 1 + output port * channels + channel
};

/// Events that were all scheduled the same delay ahead come out in the order they went in, since simulated time never
/// runs backwards: each delay is a ring buffer, and the next event is the least of a few heads.
/// Equal times are taken in order of lane creation, then in order of scheduling: deterministic.
class EventQueue {
  public:
    using LaneId = std::uint8_t;
    static constexpr LaneId kMaxLanes = 24;
    static constexpr LaneId kHeap = 255;

    EventQueue() { heads_.fill(kNever); }

    /// The lane for events `delay` ahead, made if need be; kHeap once there are too many.
    LaneId lane(TimePs delay) {
        for (std::uint32_t i = 0; i < lanes_used_; ++i)
            if (lanes_[i].delay == delay) return static_cast<LaneId>(i);
        if (lanes_used_ == kMaxLanes) return kHeap;
        Lane &made = lanes_[lanes_used_];
        made.ring.resize(64);
        made.mask = 63;
        made.delay = delay;
        return static_cast<LaneId>(lanes_used_++);
    }

    /// `event.time` must be now + the lane's delay, or anything for kHeap.
    HXMESH_INLINE void push(LaneId id, const Event &event) {
        if (id == kHeap) [[unlikely]] {
            push_any(event);
            return;
        }
        Lane &lane = lanes_[id];
        if (lane.count > lane.mask) [[unlikely]]
            grow(lane);
        lane.ring[(lane.head + lane.count) & lane.mask] = event;
        if (lane.count++ == 0) heads_[id] = event.time;
    }

    void push_any(const Event &event) {
        heap_.push({sequence_++, event});
        heap_head_ = heap_.top().event.time;
    }

    /// Takes the next event; false when there is none.
    HXMESH_INLINE bool pop(Event &event) {
        TimePs best = heap_head_;
        std::uint32_t which = kMaxLanes;
        // Unrolled by four; heads of lanes that are not used stay at kNever.
        for (std::uint32_t i = 0; i < lanes_used_; i += 4) {
            for (std::uint32_t j = i; j < i + 4; ++j) {
                const TimePs head = heads_[j];
                const bool earlier = head < best;
                best = earlier ? head : best;
                which = earlier ? j : which;
            }
        }
        if (which == kMaxLanes) [[unlikely]] {
            if (best == kNever) return false;
            event = heap_.top().event;
            heap_.pop();
            heap_head_ = heap_.empty() ? kNever : heap_.top().event.time;
            return true;
        }
        Lane &lane = lanes_[which];
        event = lane.ring[lane.head & lane.mask];
        ++lane.head;
        --lane.count;
        heads_[which] = lane.count ? lane.ring[lane.head & lane.mask].time : kNever;
        last_ = which;
        return true;
    }

    /// An event that comes `ahead` places later in the lane of the last pop, for prefetching; null if there is none.
    HXMESH_INLINE Event *peek(std::uint32_t ahead) {
        Lane &lane = lanes_[last_];
        return ahead < lane.count ? &lane.ring[(lane.head + ahead) & lane.mask] : nullptr;
    }

    [[nodiscard]] std::size_t bytes() const {
        std::size_t sum = heap_.size() * sizeof(Irregular);
        for (std::uint32_t i = 0; i < lanes_used_; ++i)
            sum += lanes_[i].ring.size() * sizeof(Event);
        return sum;
    }

  private:
    struct Lane {
        std::vector<Event> ring;
        std::uint32_t head = 0;
        std::uint32_t count = 0;
        std::uint32_t mask = 0;
        TimePs delay = 0;
    };
    struct Irregular {
        std::uint64_t sequence;
        Event event;
        bool operator<(const Irregular &other) const {
            return event.time != other.event.time ? event.time > other.event.time : sequence > other.sequence;
        }
    };

    static void grow(Lane &lane) {
        std::vector<Event> bigger(lane.ring.size() * 2);
        for (std::uint32_t i = 0; i < lane.count; ++i)
            bigger[i] = lane.ring[(lane.head + i) & lane.mask];
        lane.ring = std::move(bigger);
        lane.head = 0;
        lane.mask = static_cast<std::uint32_t>(lane.ring.size() - 1);
    }

    std::array<TimePs, kMaxLanes> heads_;
    TimePs heap_head_ = kNever;
    std::uint32_t lanes_used_ = 0;
    std::uint32_t last_ = 0;
    std::array<Lane, kMaxLanes> lanes_;
    std::uint64_t sequence_ = 0;
    std::priority_queue<Irregular> heap_;
};

} // namespace hxmesh::engine
