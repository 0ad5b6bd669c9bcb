// One rank of a schedule as a state machine over messages; the same rules as engine/src/workload.hpp. Depends on the
// standard library only.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hxmesh/endpoint.hpp"
#include "schedule_file.hpp"

namespace hxmesh::sst {

using TimePs = std::int64_t;

/// A rank's completion record; times are -1 until something happened.
struct RankRecord {
    std::uint32_t rank = 0;
    std::int64_t bytes_sent = 0, bytes_received = 0;
    TimePs start_ps = -1, end_ps = -1;
    std::string waiting_for; // empty once the rank is done
};

/// Which operations of a rank may start.
class Dependencies {
  public:
    explicit Dependencies(const RankSchedule &schedule)
        : missing_(schedule.operations.size()),
          next_offset_(schedule.operations.size() + 1),
          next_(schedule.dependencies.size()) {
        const std::size_t ops = schedule.operations.size();
        for (const std::uint32_t d : schedule.dependencies)
            ++next_offset_[d + 1];
        for (std::size_t i = 0; i < ops; ++i)
            next_offset_[i + 1] += next_offset_[i];
        std::vector<std::uint32_t> fill(next_offset_.begin(), next_offset_.end() - 1);
        std::size_t at = 0;
        for (std::size_t i = 0; i < ops; ++i) {
            missing_[i] = schedule.operations[i].dependencies;
            for (std::uint32_t k = 0; k < missing_[i]; ++k)
                next_[fill[schedule.dependencies[at++]]++] = static_cast<std::uint32_t>(i);
        }
    }

    [[nodiscard]] bool is_ready(std::size_t op) const { return missing_[op] == 0; }

    /// Calls `start(other)` for every operation that the completion of `op` lets start.
    template <class Start> void completed(std::uint32_t op, Start &&start) {
        for (std::uint32_t i = next_offset_[op]; i < next_offset_[op + 1]; ++i)
            if (--missing_[next_[i]] == 0) start(next_[i]);
    }

  private:
    std::vector<std::uint32_t> missing_;     // [ops] dependencies that are not complete
    std::vector<std::uint32_t> next_offset_; // [ops + 1]
    std::vector<std::uint32_t> next_;        // who waits for each operation
};

class RankReplay {
  public:
    /// What a rank may ask of its surroundings.
    class Services {
      public:
        virtual ~Services() = default;
        [[nodiscard]] virtual TimePs now() const = 0;
        /// The NIC has the message of a send; RankReplay::injected is to follow when its last packet has left.
        virtual void send(std::uint32_t op) = 0;
        /// Calls RankReplay::on_timer(op, what) `delay` from now.
        virtual void timer(TimePs delay, std::uint32_t op, std::uint32_t what) = 0;
    };

    RankReplay(RankSchedule schedule, const EndpointCosts &costs)
        : schedule_(std::move(schedule)),
          costs_(costs),
          dependencies_(schedule_),
          state_(schedule_.operations.size(), kIdle),
          left_(schedule_.operations.size()) {
        record_.rank = schedule_.rank;
    }

    void start(Services &services) {
        record_.start_ps = services.now();
        if (left_ == 0) record_.end_ps = services.now();
        // What a completion at time 0 releases must not be issued twice: only true roots start here.
        for (std::uint32_t op = 0; op < schedule_.operations.size(); ++op)
            if (schedule_.operations[op].dependencies == 0) issue(op, services);
    }
    /// The last packet of the message of a send has left.
    void injected(std::uint32_t op, Services &services) {
        record_.bytes_sent += schedule_.operations[op].value;
        if (!costs_.is_eager(schedule_.operations[op].value)) complete(op, services);
    }
    /// The processor has been told of the message of a receive.
    void delivered(std::uint32_t op, Services &services) {
        record_.bytes_received += schedule_.operations[op].value;
        if (state_[op] == kPosted)
            match(op, services);
        else
            state_[op] = kArrivedEarly;
    }
    void on_timer(std::uint32_t op, std::uint32_t what, Services &services) {
        if (what == kExecute)
            execute(op, services);
        else if (what == kHandOver)
            services.send(op);
        else
            complete(op, services);
    }

    [[nodiscard]] bool done() const { return left_ == 0; }
    [[nodiscard]] const RankSchedule &schedule() const { return schedule_; }
    [[nodiscard]] const Operation &operation(std::uint32_t op) const { return schedule_.operations[op]; }

    /// The record as it stands; of an unfinished rank it says what the rank waits for.
    [[nodiscard]] RankRecord record() const {
        RankRecord r = record_;
        if (!done()) {
            r.end_ps = -1;
            r.waiting_for = waiting_for();
        }
        return r;
    }

  private:
    static constexpr std::uint32_t kExecute = 0, kElapsed = 1, kHandOver = 2;
    enum State : std::uint8_t { kIdle, kPosted, kArrivedEarly, kMatching, kComplete };

    /// All dependencies are complete: runs the operation, after what it costs the rank's processor.
    void issue(std::uint32_t op, Services &services) {
        const std::uint8_t kind = schedule_.operations[op].kind;
        if (kind > kRecv || costs_.free_processor()) {
            execute(op, services);
            return;
        }
        // Also what costs nothing waits for a processor that is matching.
        const TimePs ready = processor_.work(services.now(), kind == kSend ? costs_.send_ps : costs_.recv_ps);
        services.timer(ready - services.now(), op, kExecute);
    }
    void execute(std::uint32_t op, Services &services) {
        switch (schedule_.operations[op].kind) {
        case kSend:
            state_[op] = kPosted;
            hand_over(op, services);
            break;
        case kRecv:
            commands_.post_receives(1);
            if (costs_.match_ps != 0) open_.post(op);
            if (state_[op] == kArrivedEarly)
                match(op, services);
            else
                state_[op] = kPosted;
            break;
        case kCompute:
            state_[op] = kPosted;
            services.timer(schedule_.operations[op].value, op, kElapsed);
            break;
        default:
            complete(op, services);
        }
    }
    /// The processor is done with a send: its NIC will have it; that of an eager message is complete.
    void hand_over(std::uint32_t op, Services &services) {
        const TimePs delay = commands_.send(services.now(), costs_) - services.now();
        if (delay == 0)
            services.send(op);
        else
            services.timer(delay, op, kHandOver);
        if (costs_.is_eager(schedule_.operations[op].value)) complete(op, services);
    }
    /// An arrived message looks through the open receives, in the order they were posted, for its own.
    void match(std::uint32_t op, Services &services) {
        if (costs_.match_ps == 0) {
            complete(op, services);
            return;
        }
        state_[op] = kMatching;
        const TimePs ready = processor_.work(services.now(), costs_.match_ps * open_.match(op));
        services.timer(ready - services.now(), op, kElapsed);
    }
    /// Marks an operation complete and issues what waited for it; a worklist, since chains of waits can be long.
    void complete(std::uint32_t first, Services &services) {
        worklist_.push_back(first);
        if (completing_) return;
        completing_ = true;
        while (!worklist_.empty()) {
            const std::uint32_t op = worklist_.back();
            worklist_.pop_back();
            state_[op] = kComplete;
            if (--left_ == 0) record_.end_ps = services.now();
            dependencies_.completed(op, [&](std::uint32_t next) { issue(next, services); });
        }
        completing_ = false;
    }

    [[nodiscard]] std::string waiting_for() const {
        static const char *const kNames[] = {"send to rank ", "receive from rank ", "computation", "wait"};
        for (std::size_t op = 0; op < state_.size(); ++op) {
            if (state_[op] == kComplete || !dependencies_.is_ready(op)) continue;
            const Operation &o = schedule_.operations[op];
            std::string what = kNames[o.kind];
            if (o.kind <= kRecv) what += std::to_string(o.peer);
            return what + " (operation " + std::to_string(op) + ")";
        }
        // Every operation waits for another one: a schedule that fails its own check.
        return "a cycle of dependencies";
    }

    RankSchedule schedule_;
    EndpointCosts costs_;
    Dependencies dependencies_;
    std::vector<std::uint8_t> state_; // [ops]
    std::vector<std::uint32_t> worklist_;
    std::size_t left_;
    Processor processor_;
    NicCommands commands_;
    PostedReceives<std::uint32_t> open_; // if matching costs anything
    bool completing_ = false;
    RankRecord record_;
};

} // namespace hxmesh::sst
