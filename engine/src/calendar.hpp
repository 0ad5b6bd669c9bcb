// The event queue: a calendar of short windows of simulated time, each put in order when it is opened.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <queue>
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
    kCrossbarIn,  // an input port may use the crossbar again: target = port, channel
    kCrossbarOut, // an output port may take from the crossbar again: target = port
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
};

/// A window is opened by sorting its events into one array: the next event is the next element, and those behind it
/// are known long enough ahead to be fetched into cache (`ahead`). Deterministic.
class Calendar {
  public:
    static constexpr std::uint32_t kMaxAhead = 64;

    Calendar() { batch_.resize(kMaxAhead); }

    /// Sets the length of a window to 2^shift ps, before the first event.
    void set_window_shift(std::uint32_t shift) { shift_ = std::min(shift, kMaxShift); }

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
        if (at_ == size_ || soon_rank_ < event->rank()) [[unlikely]] {
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
        Event event;
        bool operator<(const Late &other) const {
            if (window != other.window) return window > other.window;
            if (event.rank() != other.event.rank()) return event.rank() > other.event.rank();
            return sequence > other.sequence;
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
        if (soon_rank_ == kNoRank) return open_next() ? &batch_[at_++] : nullptr;
        // The first scheduled of the earliest.
        Lane *first = nullptr;
        for (Lane &lane : soon_) {
            if (lane.head == lane.events.size() || lane.events[lane.head].event.rank() != soon_rank_) continue;
            if (first == nullptr || lane.events[lane.head].sequence < first->events[first->head].sequence)
                first = &lane;
        }
        const bool rest = !soon_rest_.empty() && soon_rest_.top().event.rank() == soon_rank_ &&
                          (first == nullptr || soon_rest_.top().sequence < first->events[first->head].sequence);
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
            far_.push({window, sequence_++, event});
            return;
        }
        soon_rank_ = std::min(soon_rank_, event.rank());
        for (Lane &lane : soon_) {
            if (!lane.events.empty() && lane.events.back().event.rank() > event.rank()) continue;
            lane.events.push_back({window, sequence_++, event});
            return;
        }
        soon_rest_.push({window, sequence_++, event});
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
    std::uint64_t window_ = 0; // the open one
    TimePs start_ = 0;         // of it
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
