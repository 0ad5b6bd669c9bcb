// The event queue: a calendar of short windows of simulated time, each put in order when it is opened.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <queue>
#include <stdexcept>
#include <vector>

#if defined(__GNUC__)
#define HXMESH_INLINE [[gnu::always_inline]] inline
#else
#define HXMESH_INLINE inline
#endif

namespace hxmesh::engine {

using TimePs = std::int64_t;

/// Events of the same time come in this order: what ranks do, what arrives, what becomes free. (Ranks in step stay in
/// step that way: with ports first, the rings of an allreduce get into each other's way at the crossbars.)
enum class EventKind : std::uint8_t {
    kTimer,       // the workload's own: target, message
    kCrossbarOut, // an output port may take from the crossbar again: target = port
    kCrossbarIn,  // an input port may use the crossbar again: target = port, channel
    kCredit,      // flits freed downstream: target = port, message = flits, channel
    kArrive,      // the head of a packet reaches a router's port: target = port and way on, message, header, channel
    kDeliver,     // the head of the last packet of a message reaches its NIC: message
    kPortFree,    // a router's port has put a packet on its link: target = port
    kNicFree,     // a NIC has put a packet on its link: target = port, message = 1 + the message that ended, or 0
};

/// 16 bytes, because each is written and read several times.
struct Event {
    static constexpr std::uint32_t kOffsetShift = 7; // below: 3 bits of kind, 4 of channel

    std::uint32_t key; // time from the start of the window, kind, channel
    std::uint32_t target;
    std::uint32_t message;
    std::uint32_t header; // packed destination and flits of a packet

    [[nodiscard]] EventKind kind() const { return static_cast<EventKind>(key >> 4 & 7u); }
    [[nodiscard]] std::uint32_t vc() const { return key & 15u; }
    [[nodiscard]] std::uint32_t offset() const { return key >> kOffsetShift; }
    /// Time and kind: what events are ordered by. Equal ones come in the order they were scheduled.
    [[nodiscard]] std::uint32_t rank() const { return key >> 4; }
    /// What it is about, 0 for all that are not about a port.
    [[nodiscard]] std::uint32_t port() const {
        return kind() == EventKind::kTimer || kind() == EventKind::kDeliver ? 0 : target;
    }
};

/// A window is opened by sorting its events into one array: the next event is the next element, and those behind it
/// are known long enough ahead to be fetched into cache (`ahead`). Deterministic.
class Calendar {
  public:
    static constexpr std::uint32_t kMaxAhead = 64;

    Calendar() { batch_.resize(kMaxAhead); }

    /// Sets the length of a window to 2^shift ps, before the first event.
    void set_window_shift(std::uint32_t shift) { shift_ = std::min(shift, kMaxShift); }

    /// Lets events of the same time and kind come in the order of the ports they are about, instead of that in which
    /// they were scheduled. To be said before the first event.
    void order_by_port() { by_port_ = 1; }

    HXMESH_INLINE void push(TimePs time, EventKind kind, std::uint32_t vc, std::uint32_t target, std::uint32_t message,
                            std::uint32_t header) {
        const std::uint64_t window = static_cast<std::uint64_t>(time) >> shift_;
        const std::uint32_t offset = static_cast<std::uint32_t>(time) & ((1u << shift_) - 1);
        const std::uint32_t key = offset << Event::kOffsetShift | static_cast<std::uint32_t>(kind) << 4 | vc;
        if (window - window_ - 1 >= kSlots - 1) [[unlikely]] {
            push_elsewhere(window, {key, target, message, header});
            return;
        }
        // Field by field: a whole event put together first would be read back before its parts are stored.
        Event &event = place(static_cast<std::uint32_t>(window % kSlots));
        event.key = key;
        event.target = target;
        event.message = message;
        event.header = header;
    }

    /// Takes the next event and its time; null when there is none. It is there until the next one is taken.
    HXMESH_INLINE const Event *pop(TimePs &time) {
        const Event *event = &batch_[at_];
        if (at_ == size_ || soon_rank_ < event->rank() + by_port_) [[unlikely]] {
            event = pop_elsewhere();
            if (event == nullptr) return nullptr;
        } else {
            ++at_;
        }
        time = start_ + event->offset();
        return event;
    }

    /// The event `n` <= kMaxAhead places behind the last one taken, or one without meaning and with target 0.
    [[nodiscard]] HXMESH_INLINE const Event &ahead(std::uint32_t n) const { return batch_[at_ + n - 1]; }

    /// Calls visit(time, event) for all events that are still to come, in the order in which they will.
    template <class Visit> void for_each(Visit &&visit) const {
        struct Pending {
            TimePs time;
            Event event;
        };
        std::vector<Pending> all;
        all.reserve(buffered_);
        const auto add = [&](std::uint64_t window, const Event &event) {
            all.push_back({static_cast<TimePs>(window << shift_) + event.offset(), event});
        };
        // Those of the same rank one behind the other as they are to come: the sort is stable.
        for (std::uint32_t i = at_; i < size_; ++i)
            add(window_, batch_[i]);
        std::vector<Late> late;
        for (const Lane &lane : soon_)
            late.insert(late.end(), lane.events.begin() + static_cast<std::ptrdiff_t>(lane.head), lane.events.end());
        for (auto rest = soon_rest_; !rest.empty(); rest.pop())
            late.push_back(rest.top());
        std::sort(late.begin(), late.end(), [](const Late &a, const Late &b) { return b < a; });
        for (const Late &l : late)
            add(l.window, l.event);
        for (std::uint64_t window = window_ + 1; window < window_ + kSlots; ++window) {
            const Slot &slot = slots_[window % kSlots];
            for (std::uint32_t i = 0; i < slot.size; ++i)
                add(window, slot.events[i]);
        }
        for (auto far = far_; !far.empty(); far.pop())
            add(far.top().window, far.top().event);
        const bool by_port = by_port_ != 0;
        std::stable_sort(all.begin(), all.end(), [=](const Pending &a, const Pending &b) {
            if (a.time != b.time) return a.time < b.time;
            if (a.event.kind() != b.event.kind()) return a.event.kind() < b.event.kind();
            return by_port && a.event.port() < b.event.port();
        });
        for (const Pending &p : all)
            visit(p.time, p.event);
    }

    [[nodiscard]] std::size_t bytes() const {
        return (buffered_ + batch_.capacity() + scratch_.capacity()) * sizeof(Event) +
               (soon_rest_.size() + far_.size()) * sizeof(Late);
    }

  private:
    static constexpr std::uint32_t kSlots = 256, kMaxShift = 19, kNoRank = 0xffffffffu;
    static constexpr std::uint32_t kFew = 40; // are sorted by insertion

    /// The events of a window to come, in a buffer of its own.
    struct Slot {
        std::unique_ptr<Event[]> events;
        std::uint32_t size = 0, capacity = 0;
    };
    /// An event outside the slots, with what orders it among its like.
    struct Late {
        std::uint64_t window, sequence;
        std::uint32_t port; // 0 for all, if they come as they were scheduled
        Event event;
        bool operator<(const Late &other) const {
            if (window != other.window) return window > other.window;
            if (event.rank() != other.event.rank()) return event.rank() > other.event.rank();
            return comes_after(other);
        }
        /// Of those of the same rank.
        [[nodiscard]] bool comes_after(const Late &other) const {
            return port != other.port ? port > other.port : sequence > other.sequence;
        }
    };

    /// Events in order, the first `head` of them taken.
    struct Lane {
        std::vector<Late> events;
        std::size_t head = 0;
    };
    HXMESH_INLINE Event &place(std::uint32_t index) {
        Slot &slot = slots_[index];
        if (slot.size == slot.capacity) [[unlikely]]
            enlarge(slot, index);
        return slot.events[slot.size++];
    }

    const Event *pop_elsewhere() {
        if (soon_rank_ == kNoRank) {
            if (at_ == size_ && !open_next()) return nullptr;
            return &batch_[at_++];
        }
        // The first scheduled of the earliest.
        Lane *first = nullptr;
        for (Lane &lane : soon_) {
            if (lane.head == lane.events.size() || lane.events[lane.head].event.rank() != soon_rank_) continue;
            if (first == nullptr || first->events[first->head].comes_after(lane.events[lane.head])) first = &lane;
        }
        const bool rest = !soon_rest_.empty() && soon_rest_.top().event.rank() == soon_rank_ &&
                          (first == nullptr || first->events[first->head].comes_after(soon_rest_.top()));
        if (by_port_ != 0 && at_ != size_ && batch_[at_].rank() == soon_rank_) {
            const Event &soonest = rest ? soon_rest_.top().event : first->events[first->head].event;
            if (batch_[at_].port() <= soonest.port()) return &batch_[at_++];
        }
        if (rest) {
            late_ = soon_rest_.top().event;
            soon_rest_.pop();
        } else {
            late_ = first->events[first->head++].event;
        }
        soon_rank_ = soon_rest_.empty() ? kNoRank : soon_rest_.top().event.rank();
        for (Lane &lane : soon_) {
            if (lane.head < lane.events.size()) {
                soon_rank_ = std::min(soon_rank_, lane.events[lane.head].event.rank());
            } else {
                lane.events.clear();
                lane.head = 0;
            }
        }
        return &late_;
    }

    /// The open window's own events, and those beyond the slots.
    void push_elsewhere(std::uint64_t window, const Event &event) {
        if (window != window_) {
            if (window < window_) throw std::overflow_error("simulated time goes beyond 2^63 ps");
            far_.push({window, sequence_++, 0, event});
            return;
        }
        soon_rank_ = std::min(soon_rank_, event.rank());
        const Late late{window, sequence_++, by_port_ * event.port(), event};
        for (Lane &lane : soon_) {
            if (!lane.events.empty() && lane.events.back() < late) continue;
            lane.events.push_back(late);
            return;
        }
        soon_rest_.push(late);
    }

    void enlarge(Slot &slot, std::uint32_t index) {
        if (slot.capacity == 0) {
            used_[index / 64] |= std::uint64_t{1} << (index % 64);
            if (!spare_.empty()) {
                slot = std::move(spare_.back());
                spare_.pop_back();
                return;
            }
        }
        Slot bigger;
        bigger.size = slot.size;
        bigger.capacity = std::max(32u, 2 * slot.capacity);
        bigger.events = std::make_unique_for_overwrite<Event[]>(bigger.capacity);
        std::copy_n(slot.events.get(), slot.size, bigger.events.get());
        buffered_ += bigger.capacity - slot.capacity;
        slot = std::move(bigger);
    }

    [[nodiscard]] std::uint64_t next_slot_window() const {
        // The open window's slot is empty, so that going round meets the others in the order of time.
        const auto start = static_cast<std::uint32_t>(window_ % kSlots);
        for (std::uint32_t step = 0; step <= kSlots / 64; ++step) {
            const std::uint32_t word = (start / 64 + step) % (kSlots / 64);
            std::uint64_t bits = used_[word];
            if (step == 0) bits &= ~std::uint64_t{0} << (start % 64);
            if (bits == 0) continue;
            const std::uint32_t slot = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
            return window_ + (slot + kSlots - start) % kSlots;
        }
        return std::numeric_limits<std::uint64_t>::max();
    }

    bool open_next() {
        std::uint64_t next = next_slot_window();
        if (!far_.empty()) next = std::min(next, far_.top().window);
        if (next == std::numeric_limits<std::uint64_t>::max()) return false;
        const auto index = static_cast<std::uint32_t>(next % kSlots);
        window_ = next;
        // Before anything else can be scheduled for their windows: what was scheduled first comes first.
        while (!far_.empty() && far_.top().window - next < kSlots) {
            place(static_cast<std::uint32_t>(far_.top().window % kSlots)) = far_.top().event;
            far_.pop();
        }
        start_ = static_cast<TimePs>(next << shift_);
        Slot &slot = slots_[index];
        at_ = 0;
        size_ = slot.size;
        if (batch_.size() < size_ + kMaxAhead) {
            batch_.resize(2 * size_ + kMaxAhead);
            scratch_.resize(batch_.size());
        }
        sort(slot.events.get(), slot.size);
        if (by_port_ != 0) sort_by_port();
        // What lies behind the end may be looked at, not used.
        std::fill_n(batch_.begin() + size_, kMaxAhead, Event{});
        slot.size = 0;
        spare_.push_back(
            std::move(slot)); // last in, first out: the next window gets the buffer that is warmest in cache
        slot = {};
        used_[index / 64] &= ~(std::uint64_t{1} << (index % 64));
        return true;
    }

    /// Puts events into batch_, stably by rank: by insertion if they are few, else by a radix sort of two digits.
    void sort(const Event *events, std::uint32_t n) {
        const std::uint32_t bits = shift_ + 3, low = bits / 2, high = bits - low;
        Event *out = batch_.data();
        if (n <= kFew) {
            for (std::uint32_t i = 0; i < n; ++i) {
                const Event event = events[i];
                std::uint32_t j = i;
                for (; j > 0 && out[j - 1].rank() > event.rank(); --j)
                    out[j] = out[j - 1];
                out[j] = event;
            }
        } else if (n > 1u << high >> 2) {
            const std::uint32_t low_mask = (1u << low) - 1;
            std::uint32_t *const lows = low_counts_.data(), *const highs = high_counts_.data();
            std::fill_n(lows, 1u << low, 0u);
            std::fill_n(highs, 1u << high, 0u);
            for (std::uint32_t i = 0; i < n; ++i) {
                const std::uint32_t rank = events[i].rank();
                ++lows[rank & low_mask];
                ++highs[rank >> low];
            }
            to_offsets(lows, 1u << low);
            to_offsets(highs, 1u << high);
            Event *const between = scratch_.data();
            for (std::uint32_t i = 0; i < n; ++i)
                between[lows[events[i].rank() & low_mask]++] = events[i];
            for (std::uint32_t i = 0; i < n; ++i)
                out[highs[between[i].rank() >> low]++] = between[i];
        } else {
            std::copy_n(events, n, out);
            std::stable_sort(out, out + n, [](const Event &a, const Event &b) { return a.rank() < b.rank(); });
        }
    }

    /// Puts events of the same rank in batch_ into the order of their ports, stably.
    void sort_by_port() {
        const auto before = [](const Event &a, const Event &b) { return a.port() < b.port(); };
        Event *const events = batch_.data(), *const end = events + size_;
        Event *first = events; // of those of this rank
        for (Event *e = events + 1; e < end; ++e) {
            if (e->rank() != first->rank()) {
                first = e;
            } else if (before(*e, e[-1])) {
                Event *last = e + 1;
                while (last != end && last->rank() == first->rank())
                    ++last;
                if (last - first > kFew) {
                    std::stable_sort(first, last, before);
                } else {
                    for (; e < last; ++e)
                        std::rotate(std::upper_bound(first, e, *e, before), e, e + 1);
                }
                first = e = last;
            }
        }
    }

    /// Counts to the sums of those before them.
    static void to_offsets(std::uint32_t *counts, std::uint32_t n) {
        std::uint32_t sum = 0;
        for (std::uint32_t i = 0; i < n; ++i) {
            const std::uint32_t count = counts[i];
            counts[i] = sum;
            sum += count;
        }
    }

    std::uint32_t shift_ = 12;
    std::uint32_t by_port_ = 0; // 0 or 1
    std::uint64_t window_ = 0;  // the open one
    TimePs start_ = 0;          // of it
    std::uint32_t at_ = 0, size_ = 0;
    std::uint32_t soon_rank_ = kNoRank;
    std::vector<Event> batch_, scratch_;
    Event late_{}; // the last one that came from soon_
    std::array<Slot, kSlots> slots_;
    std::array<std::uint64_t, kSlots / 64> used_{}; // bit per slot with events
    std::vector<Slot> spare_;
    std::size_t buffered_ = 0; // events that there is room for in slots
    std::array<std::uint32_t, 1u << ((kMaxShift + 4) / 2)> low_counts_{}, high_counts_{}; // of the digits of ranks
    std::uint64_t sequence_ = 0;
    // Events of the open window that were scheduled after it was opened. Most come in order, a few delays interleaved.
    std::array<Lane, 4> soon_;
    std::priority_queue<Late> soon_rest_;
    std::priority_queue<Late> far_; // events beyond the slots
};

} // namespace hxmesh::engine
