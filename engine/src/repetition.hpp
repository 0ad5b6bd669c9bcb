// Skipping what repeats itself: a simulation that is again as it was before will do again what it did since.
//
// The steps of a ring are the same but for their number. Where the whole state of the simulation (packets in their
// queues, events to come, credits, endpoints, ranks), taken relative to the time and the step, is word for word what it
// was some steps ago, the time between has become a period, and all whole periods that fit are taken at once: counters
// grow by as much as in the last one, and times and steps by whole periods. Nothing is approximated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "calendar.hpp"

namespace hxmesh::engine {

/// What to do with steps that may repeat themselves.
enum class Repetitions : std::uint8_t {
    kIgnore,   // nothing
    kSimulate, // let events of the same time come in an order that does not depend on the past
    kSkip,     // that, and skip periods
};

/// The state of a simulation as words that are equal when what follows is. Lists have their length in front or an end
/// behind them, so that no two states have the same words.
class StateWords {
  public:
    void put(std::uint64_t word) { words_.push_back(word); }
    void put(std::uint32_t high, std::uint32_t low) { put(std::uint64_t{high} << 32 | low); }
    /// A time that matters only while it is to come.
    void put_time(TimePs time, TimePs now) { put(time > now ? static_cast<std::uint64_t>(time - now) : 0); }
    [[nodiscard]] std::size_t size() const { return words_.size(); }
    void clear() { words_.clear(); }
    bool operator==(const StateWords &) const = default;

  private:
    std::vector<std::uint64_t> words_;
};

/// A simulation at one moment.
struct Snapshot {
    StateWords state;
    std::vector<std::int64_t> counters;
    TimePs time = 0;
    std::uint32_t steps = 0;
    std::size_t bytes() const { return (state.size() + counters.size()) * sizeof(std::uint64_t); }
};

/// Looks for a state that was there before, by Brent's rule: each snapshot is compared with a single one, which is
/// replaced after 1, 2, 4, ... others.
class Repetition {
  public:
    /// Whether so much has happened since the last look that another costs little beside it.
    [[nodiscard]] bool is_due(std::uint64_t events) const { return events - looked_at_ >= current_.state.size(); }

    /// The snapshot to fill, empty.
    Snapshot &begin(std::uint64_t events) {
        looked_at_ = events;
        current_.state.clear();
        current_.counters.clear();
        return current_;
    }
    /// Whether the filled one is equal to `reference`.
    bool found() {
        if (reference_.state.size() != 0 && reference_.state == current_.state) return true;
        if (++age_ >= lifetime_) {
            std::swap(reference_, current_);
            age_ = 0;
            lifetime_ *= 2;
        }
        return false;
    }
    [[nodiscard]] const Snapshot &reference() const { return reference_; }
    /// Begins anew.
    void forget() {
        reference_.state.clear();
        age_ = 0;
        lifetime_ = 1;
    }
    [[nodiscard]] std::size_t bytes() const { return reference_.bytes() + current_.bytes(); }

  private:
    Snapshot reference_, current_;
    std::uint64_t looked_at_ = 0;
    std::uint64_t age_ = 0, lifetime_ = 1;
};

} // namespace hxmesh::engine
