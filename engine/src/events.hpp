// The event queue: a few FIFO lanes of constant delay, and a heap for what fits none.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <queue>
#include <vector>

namespace hxmesh::engine {

using TimePs = std::int64_t;
inline constexpr TimePs kNever = std::numeric_limits<TimePs>::max();

enum class EventKind : std::uint8_t {
    kArrive,       // the head of a packet reaches a port: target = port, message, header, vc
    kPortFree,     // a port has put a packet on its link: target = port; message = 1 + message that it ended (NIC ports)
    kCredit,       // flits freed downstream: target = port, message = flits, vc
    kCrossbarIn,   // an input port may use the crossbar again: target = port, vc
    kCrossbarOut,  // an output port may take from the crossbar again: target = port, vc
    kTimer,        // the workload's own: target, message
};

struct Event {
    TimePs time;
    std::uint32_t target;
    std::uint32_t message;
    std::uint32_t header;  // packed destination and flits of a packet
    std::uint32_t vc;
};

/// Events of one kind that were all scheduled the same delay ahead come out in the order they went in: simulated time
/// never runs backwards, so each (kind, delay) is a ring buffer, and the next event is the least of a few heads.
/// Equal times are taken in order of lane creation, then in order of scheduling: deterministic.
class EventQueue {
  public:
    using LaneId = std::uint8_t;
    static constexpr LaneId kMaxLanes = 24;
    static constexpr LaneId kHeap = 255;

    EventQueue() { lanes_.reserve(kMaxLanes); }

    /// The lane for `kind` events `delay` ahead, made if need be; kHeap once there are too many.
    LaneId lane(EventKind kind, TimePs delay) {
        for (std::size_t i = 0; i < lanes_.size(); ++i)
            if (lanes_[i].kind == kind && lanes_[i].delay == delay) return static_cast<LaneId>(i);
        if (lanes_.size() == kMaxLanes) return kHeap;
        lanes_.push_back(Lane{std::vector<Event>(64), 0, 0, 63, kind, delay});
        heads_[lanes_.size() - 1] = kNever;
        return static_cast<LaneId>(lanes_.size() - 1);
    }

    /// `event.time` must be now + the lane's delay.
    void push(LaneId id, const Event &event) {
        Lane &lane = lanes_[id];
        if (lane.count > lane.mask) grow(lane);
        lane.ring[(lane.head + lane.count) & lane.mask] = event;
        if (lane.count++ == 0) heads_[id] = event.time;
    }

    void push_any(EventKind kind, TimePs time, const Event &event) {
        heap_.push({time, sequence_++, kind, event});
        heap_head_ = heap_.top().time;
    }

    [[nodiscard]] bool empty() const {
        if (heap_head_ != kNever) return false;
        for (std::size_t i = 0; i < lanes_.size(); ++i)
            if (heads_[i] != kNever) return false;
        return true;
    }

    /// Takes the next event; false when there is none.
    bool pop(Event &event, EventKind &kind) {
        const std::size_t n = lanes_.size();
        TimePs best = heap_head_;
        std::size_t which = n;
        for (std::size_t i = 0; i < n; ++i) {
            const bool earlier = heads_[i] < best;
            best = earlier ? heads_[i] : best;
            which = earlier ? i : which;
        }
        if (which == n) {
            if (best == kNever) return false;
            event = heap_.top().event;
            event.time = heap_.top().time;
            kind = heap_.top().kind;
            heap_.pop();
            heap_head_ = heap_.empty() ? kNever : heap_.top().time;
            return true;
        }
        Lane &lane = lanes_[which];
        event = lane.ring[lane.head & lane.mask];
        kind = lane.kind;
        ++lane.head;
        --lane.count;
        heads_[which] = lane.count ? lane.ring[lane.head & lane.mask].time : kNever;
        last_ = which;
        return true;
    }

    /// An event that comes `ahead` places later in the lane of the last pop, for prefetching; null if there is none.
    [[nodiscard]] Event *peek(std::uint32_t ahead) {
        Lane &lane = lanes_[last_];
        return ahead < lane.count ? &lane.ring[(lane.head + ahead) & lane.mask] : nullptr;
    }

    [[nodiscard]] std::size_t bytes() const {
        std::size_t sum = heap_.size() * sizeof(Irregular);
        for (const Lane &lane : lanes_) sum += lane.ring.size() * sizeof(Event);
        return sum;
    }

  private:
    struct Lane {
        std::vector<Event> ring;
        std::uint32_t head;
        std::uint32_t count;
        std::uint32_t mask;
        EventKind kind;
        TimePs delay;
    };
    struct Irregular {
        TimePs time;
        std::uint64_t sequence;
        EventKind kind;
        Event event;
        bool operator<(const Irregular &other) const {
            return time != other.time ? time > other.time : sequence > other.sequence;
        }
    };

    static void grow(Lane &lane) {
        std::vector<Event> bigger(lane.ring.size() * 2);
        for (std::uint32_t i = 0; i < lane.count; ++i) bigger[i] = lane.ring[(lane.head + i) & lane.mask];
        lane.ring = std::move(bigger);
        lane.head = 0;
        lane.mask = static_cast<std::uint32_t>(lane.ring.size() - 1);
    }

    TimePs heads_[kMaxLanes] = {};
    TimePs heap_head_ = kNever;
    std::size_t last_ = 0;
    std::uint64_t sequence_ = 0;
    std::vector<Lane> lanes_;
    std::priority_queue<Irregular> heap_;
};

}  // namespace hxmesh::engine
