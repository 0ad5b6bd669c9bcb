// Who sends what when: the three forms of a schedule (motifs/schedule.py) as state machines over messages.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "calendar.hpp"
#include "network.hpp"
#include "packets.hpp"
#include "repetition.hpp"

namespace hxmesh::engine {

/// What a workload may ask of the simulation.
class Services {
  public:
    virtual ~Services() = default;
    [[nodiscard]] virtual TimePs now() const = 0;
    /// Queues a message at its source's NIC at time `at`; `tag_a`, `tag_b` come back with it.
    virtual void send(std::uint32_t src_rank, std::uint32_t dst_rank, std::int64_t bytes, std::uint32_t tag_a,
                      std::uint32_t tag_b, TimePs at) = 0;
    /// Calls Workload::on_timer(target, value) `delay` from now.
    virtual void timer(TimePs delay, std::uint32_t target, std::uint32_t value) = 0;
    /// Lets an idle NIC ask for its next message.
    virtual void wake(std::uint32_t rank) = 0;
    /// A regular workload has come a step further: a moment to ask whether all repeats itself (repetition.hpp).
    virtual void landmark() = 0;
};

/// A message as the workload sees it.
struct MessageInfo {
    std::uint32_t src_rank, dst_rank;
    std::int64_t bytes;
    std::uint32_t tag_a, tag_b;
};

/// Per-rank record; times are -1 until something happened.
struct RankRecord {
    std::int64_t bytes_sent = 0, bytes_received = 0;
    TimePs start_ps = -1, end_ps = -1;
};

class Workload {
  public:
    explicit Workload(std::uint32_t ranks) : records(ranks) {}
    virtual ~Workload() = default;
    virtual void start(Services &services) = 0;
    /// The NIC of `rank` has room for another message: send one if there is one (only asked of lazy workloads).
    virtual void refill(std::uint32_t /*rank*/, Services & /*services*/) {}
    /// The last packet of a message has left its source.
    virtual void on_injected(const MessageInfo &message, Services &services) = 0;
    /// The last packet of a message has reached its destination.
    virtual void on_delivered(const MessageInfo &message, Services &services) = 0;
    virtual void on_timer(std::uint32_t target, std::uint32_t value, Services &services) = 0;
    [[nodiscard]] virtual bool done(std::uint32_t rank) const = 0;
    /// What an unfinished rank waits for, as words for a message.
    [[nodiscard]] virtual std::string waiting_for(std::uint32_t rank) const = 0;
    [[nodiscard]] virtual std::size_t bytes() const = 0;

    /// Whether its steps are so much alike that they may repeat; if so, it calls Services::landmark.
    [[nodiscard]] virtual bool is_regular() const { return false; }
    /// Whose a timer is that was set for `target`.
    [[nodiscard]] virtual std::uint32_t rank_of_timer(std::uint32_t /*target*/) const { return 0; }
    /// Steps taken up to this landmark.
    [[nodiscard]] virtual std::uint32_t landmark_steps() const { return 0; }
    /// Writes what decides everything that the workload will do, with times relative to `now` and steps to those of
    /// the landmark.
    virtual void write_state(TimePs /*now*/, StateWords & /*out*/) const {}
    /// Calls visit(counter) for all that is only counted.
    virtual void visit_counters(const std::function<void(std::int64_t &)> &visit) {
        for (RankRecord &r : records) {
            visit(r.bytes_sent);
            visit(r.bytes_received);
        }
    }
    /// How many times more all will repeat what it did since the time `since`, when `period_ps` and `steps` have gone
    /// by and all is again as it was.
    [[nodiscard]] virtual std::uint32_t repeats_left(std::uint32_t /*steps*/, TimePs /*period_ps*/,
                                                     TimePs /*since*/) const {
        return 0;
    }
    /// Goes `steps` on that take `ps`, in a time that stands still.
    virtual void skip(std::uint32_t /*steps*/, TimePs ps) { skipped_ps_ += ps; }
    /// All that was skipped: by so much is time further than Services::now.
    [[nodiscard]] TimePs skipped_ps() const { return skipped_ps_; }

  protected:
    void touch(std::uint32_t rank, TimePs now) {
        if (records[rank].start_ps < 0) records[rank].start_ps = now + skipped_ps_;
    }
    void finish(std::uint32_t rank, TimePs now) {
        records[rank].end_ps = std::max(records[rank].end_ps, now + skipped_ps_);
    }

    TimePs skipped_ps_ = 0; // by which time is further than Services::now

  public:
    std::vector<RankRecord> records;
};

/// Alltoall by shifts: every rank posts its receives, then sends to rank + shift for each shift in turn.
class ShiftWorkload final : public Workload {
  public:
    ShiftWorkload(std::uint32_t ranks, std::int64_t message_bytes, std::vector<std::int32_t> shifts,
                  std::uint32_t window, EndpointCosts costs)
        : Workload(ranks),
          bytes_(message_bytes),
          shifts_(std::move(shifts)),
          window_(window),
          costs_(costs),
          state_(ranks),
          words_((shifts_.size() + 63) / 64) {
        const auto n = static_cast<TimePs>(shifts_.size());
        posted_ = costs_.recv_ps * n;
        for (State &s : state_) {
            s.processor.free_ps = posted_ + (window_ == 0 ? costs_.send_ps * n : 0);
            s.commands.post_receives(n);
        }
        if (costs_.match_ps == 0) return;
        open_.assign(words_ * ranks, ~std::uint64_t{0});
    }

    void start(Services &services) override {
        for (std::uint32_t r = 0; r < state_.size(); ++r) {
            touch(r, 0);
            if (shifts_.empty()) finish(r, 0);
            if (window_ == 0)
                services.wake(r);
            else
                // Eager ones bring on the others.
                for (std::uint32_t i = 0; i < window_ && state_[r].begun < shifts_.size(); ++i)
                    begin(r, services);
        }
    }
    /// Without a window all sends start as soon as the processor gets to them: the NIC asks for them one by one, so
    /// that they need no memory while they wait.
    void refill(std::uint32_t rank, Services &services) override {
        State &s = state_[rank];
        if (window_ != 0 || s.issued == shifts_.size()) return;
        const TimePs processed = posted_ + costs_.send_ps * (static_cast<TimePs>(s.issued) + 1);
        const TimePs ready = NicCommands::at(s.commands.count, processed, costs_);
        if (ready <= services.now()) {
            ++s.commands.count;
            issue(rank, services.now(), services);
        } else if (!s.asleep) {
            s.asleep = true;
            services.timer(ready - services.now(), rank, 0);
        }
    }
    void on_injected(const MessageInfo &m, Services &services) override {
        State &s = state_[m.src_rank];
        ++s.injected;
        records[m.src_rank].bytes_sent += m.bytes;
        if (is_eager()) return;
        finish(m.src_rank, services.now());
        if (window_ != 0 && s.begun < shifts_.size()) begin(m.src_rank, services);
    }
    void on_delivered(const MessageInfo &m, Services &services) override {
        State &s = state_[m.dst_rank];
        ++s.received;
        records[m.dst_rank].bytes_received += m.bytes;
        finish(m.dst_rank, s.processor.work(services.now(), costs_.match_ps * looked_at(m.dst_rank, m.tag_a)));
    }
    void on_timer(std::uint32_t rank, std::uint32_t, Services &services) override {
        if (window_ != 0) {
            hand_over(rank, services);
            return;
        }
        state_[rank].asleep = false;
        services.wake(rank);
    }
    [[nodiscard]] bool done(std::uint32_t r) const override {
        return state_[r].injected == shifts_.size() && state_[r].received == shifts_.size();
    }
    [[nodiscard]] std::string waiting_for(std::uint32_t r) const override {
        const State &s = state_[r];
        return std::to_string(shifts_.size() - s.injected) + " sends and " +
               std::to_string(shifts_.size() - s.received) + " receives of " + std::to_string(shifts_.size());
    }
    [[nodiscard]] std::size_t bytes() const override {
        return state_.size() * (sizeof(State) + sizeof(RankRecord)) + shifts_.size() * sizeof(std::int32_t) +
               open_.size() * sizeof(std::uint64_t);
    }

  private:
    struct State {
        std::uint32_t begun = 0, issued = 0, injected = 0, received = 0;
        bool asleep = false;
        Processor processor;
        NicCommands commands;
    };

    /// With a window: a send whose turn has come costs the processor first.
    void begin(std::uint32_t rank, Services &services) {
        State &s = state_[rank];
        ++s.begun;
        const TimePs ready = s.processor.work(services.now(), costs_.send_ps);
        if (ready == services.now())
            hand_over(rank, services);
        else
            services.timer(ready - services.now(), rank, 0);
    }
    /// The processor is done with a send. An eager one is complete, and the next one's turn comes.
    void hand_over(std::uint32_t rank, Services &services) {
        State &s = state_[rank];
        issue(rank, s.commands.send(services.now(), costs_), services);
        if (!is_eager()) return;
        finish(rank, services.now());
        if (s.begun < shifts_.size()) begin(rank, services);
    }
    [[nodiscard]] bool is_eager() const { return costs_.is_eager(bytes_); }
    void issue(std::uint32_t rank, TimePs at, Services &services) {
        const auto p = static_cast<std::uint32_t>(state_.size());
        const std::uint32_t which = state_[rank].issued++;
        std::uint32_t dst = rank + static_cast<std::uint32_t>(shifts_[which]);
        if (dst >= p) dst -= p;
        services.send(rank, dst, bytes_, which, 0, at);
    }

    /// Receives that are still open up to the one of shift `which`, which is then closed.
    TimePs looked_at(std::uint32_t rank, std::uint32_t which) {
        if (open_.empty()) return 0;
        std::uint64_t *open = &open_[words_ * rank];
        TimePs count = 0;
        for (std::uint32_t w = 0; w < which / 64; ++w)
            count += std::popcount(open[w]);
        const std::uint64_t bit = std::uint64_t{1} << (which % 64);
        count += std::popcount(open[which / 64] & (bit | (bit - 1)));
        open[which / 64] &= ~bit;
        return count;
    }

    std::int64_t bytes_;
    std::vector<std::int32_t> shifts_;
    std::uint32_t window_;
    EndpointCosts costs_;
    TimePs posted_ = 0;
    std::vector<State> state_;
    std::size_t words_;
    std::vector<std::uint64_t> open_; // [ranks * words] bit per shift whose receive is open
};

/// Ring-like collectives: each rank runs `streams` sequences of send-and-receive steps (motifs.StreamSchedule).
class StreamWorkload final : public Workload {
  public:
    struct Segments { // [ranks * streams * segments]
        std::vector<std::int32_t> send_peer, recv_peer, steps, parts, first_block, reduce_fs_per_byte;
        std::vector<std::int64_t> total_bytes;
    };

    StreamWorkload(std::uint32_t ranks, std::uint32_t streams, std::uint32_t segments, Segments data, bool lockstep,
                   EndpointCosts costs)
        : Workload(ranks),
          streams_(streams),
          segments_(segments),
          d_(std::move(data)),
          lockstep_(lockstep),
          costs_(costs),
          state_(std::size_t{ranks} * streams),
          ranks_(ranks) {
        choose_landmark();
    }

    void start(Services &services) override {
        for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
            touch(r, 0);
            for (std::uint32_t k = 0; k < streams_; ++k) {
                skip_empty(index(r, k));
                if (state_[index(r, k)].segment == segments_) ++ranks_[r].finished;
            }
            if (ranks_[r].finished == streams_) finish(r, 0);
            begin_all(r, services);
        }
    }
    void on_injected(const MessageInfo &m, Services &services) override {
        records[m.src_rank].bytes_sent += m.bytes;
        if (costs_.is_eager(m.bytes)) return;
        const std::size_t s = index(m.src_rank, m.tag_a);
        state_[s].sent = true;
        advance(m.src_rank, m.tag_a, services);
    }
    void on_delivered(const MessageInfo &m, Services &services) override {
        records[m.dst_rank].bytes_received += m.bytes;
        Stream &s = state_[index(m.dst_rank, m.tag_a)];
        // Adaptive routing lets messages of one stream overtake each other.
        if (m.tag_b == s.arrived) {
            ++s.arrived;
            bool more = !s.early.empty();
            while (more) {
                more = false;
                for (std::size_t i = 0; i < s.early.size(); ++i) {
                    if (s.early[i] != s.arrived) continue;
                    ++s.arrived;
                    s.early[i] = s.early.back();
                    s.early.pop_back();
                    more = true;
                    break;
                }
            }
        } else {
            s.early.push_back(m.tag_b);
        }
        match(m.dst_rank, m.tag_a, services);
        advance(m.dst_rank, m.tag_a, services);
    }
    void on_timer(std::uint32_t target, std::uint32_t value, Services &services) override {
        const std::uint32_t rank = target / streams_, stream = target % streams_;
        if (value == kPost)
            post(rank, stream, services);
        else if (value == kMatched)
            advance(rank, stream, services);
        else
            step_done(rank, stream, services);
    }
    [[nodiscard]] bool done(std::uint32_t r) const override { return ranks_[r].finished == streams_; }
    [[nodiscard]] std::string waiting_for(std::uint32_t r) const override {
        for (std::uint32_t k = 0; k < streams_; ++k) {
            const Stream &s = state_[index(r, k)];
            if (s.segment == segments_) continue;
            const std::size_t i = index(r, k) * segments_ + s.segment;
            return "step " + std::to_string(s.step) + " of segment " + std::to_string(s.segment) + " of stream " +
                   std::to_string(k) + " (a message from rank " + std::to_string(d_.recv_peer[i]) + ")";
        }
        return "nothing";
    }
    [[nodiscard]] std::size_t bytes() const override {
        return state_.size() * (sizeof(Stream) + segments_ * 32) + ranks_.size() * sizeof(RankRecord);
    }

    [[nodiscard]] bool is_regular() const override { return is_regular_; }
    [[nodiscard]] std::uint32_t rank_of_timer(std::uint32_t target) const override { return target / streams_; }
    [[nodiscard]] std::uint32_t landmark_steps() const override { return state_[landmark_].sequence; }
    void write_state(TimePs now, StateWords &out) const override {
        const std::uint32_t base = landmark_steps();
        for (const Stream &s : state_) {
            out.put(s.segment, std::uint32_t{s.sent} | s.reducing << 1 | s.posted << 2 | s.found << 3);
            if (s.segment == segments_) continue;
            out.put(s.sequence - base, s.arrived - base);
            out.put_time(s.matched, now);
            out.put(static_cast<std::uint32_t>(s.early.size()), 0);
            for (const std::uint32_t sequence : s.early)
                out.put(sequence - base, 0);
        }
        for (const Rank &r : ranks_) {
            out.put(r.finished, r.waiting);
            out.put_time(r.processor.free_ps, now);
            r.open.for_each([&](std::uint16_t stream) { out.put(stream, 0); });
            out.put(kNone, kNone);
        }
    }
    void visit_counters(const std::function<void(std::int64_t &)> &visit) override {
        Workload::visit_counters(visit);
        for (Rank &r : ranks_)
            visit(r.commands.count);
    }
    [[nodiscard]] std::uint32_t repeats_left(std::uint32_t steps, TimePs period_ps, TimePs since) const override {
        // The rate of commands is counted from the start of time: it held nobody up, and must go on so.
        const TimePs commands = TimePs{2} * streams_ * steps;
        if (held_up_ps_ >= since || commands * costs_.nic_command_ps > period_ps) return 0;
        std::uint32_t least = kNone;
        for (std::size_t s = 0; s < state_.size(); ++s) {
            if (state_[s].segment == segments_) continue;
            const auto all = static_cast<std::uint32_t>(d_.steps[s * segments_ + state_[s].segment]);
            least = std::min(least, (all - 1 - state_[s].step) / steps);
        }
        return least == kNone ? 0 : least;
    }
    void skip(std::uint32_t steps, TimePs ps) override {
        Workload::skip(steps, ps);
        for (Stream &s : state_) {
            if (s.segment == segments_) continue;
            s.step += steps;
            s.sequence += steps;
            s.arrived += steps;
            for (std::uint32_t &sequence : s.early)
                sequence += steps;
        }
    }

  private:
    static constexpr std::uint32_t kPost = 0, kReduced = 1, kMatched = 2;
    struct Stream {
        std::uint32_t segment = 0, step = 0;
        std::uint32_t sequence = 0; // steps taken over all segments: numbers messages of the stream
        std::uint32_t arrived = 0;  // messages 0..arrived-1 are here
        std::vector<std::uint32_t> early;
        bool sent = false, reducing = false, posted = false, found = false;
        TimePs matched = 0; // when the processor has found the receive of the message that arrived
    };
    struct Rank {
        std::uint32_t finished = 0;
        std::uint32_t waiting = 0; // lockstep: streams still in the current step
        Processor processor;
        NicCommands commands;
        PostedReceives<std::uint16_t> open; // by stream, if matching costs anything
    };

    /// The stream with the most steps, if steps are so much alike that they can repeat.
    void choose_landmark() {
        std::int64_t most = 0;
        bool even = true;
        for (std::size_t s = 0; s < state_.size(); ++s) {
            std::int64_t steps = 0;
            for (std::size_t i = s * segments_; i < (s + 1) * segments_; ++i) {
                steps += d_.steps[i];
                even = even && (d_.steps[i] == 0 || d_.total_bytes[i] % d_.parts[i] == 0);
            }
            if (steps > most) {
                most = steps;
                landmark_ = s;
            }
        }
        is_regular_ = even && most > 0;
    }

    /// The message of the current step, once it is here and its receive posted, is looked for among open receives.
    void match(std::uint32_t rank, std::uint32_t stream, Services &services) {
        Stream &s = state_[index(rank, stream)];
        if (!s.posted || s.found || s.arrived <= s.sequence) return;
        s.found = true;
        s.matched = services.now();
        if (costs_.match_ps == 0) return;
        const TimePs looked_at = ranks_[rank].open.match(static_cast<std::uint16_t>(stream));
        s.matched = ranks_[rank].processor.work(services.now(), costs_.match_ps * looked_at);
        if (s.matched > services.now()) services.timer(s.matched - services.now(), rank * streams_ + stream, kMatched);
    }

    [[nodiscard]] std::size_t index(std::uint32_t rank, std::uint32_t stream) const {
        return std::size_t{rank} * streams_ + stream;
    }
    void skip_empty(std::size_t s) {
        while (state_[s].segment < segments_ && d_.steps[s * segments_ + state_[s].segment] == 0)
            ++state_[s].segment;
    }
    [[nodiscard]] std::int64_t block_bytes(std::size_t i, std::int64_t block) const {
        const std::int64_t parts = d_.parts[i];
        const std::int64_t j = ((block % parts) + parts) % parts;
        return d_.total_bytes[i] / parts + (j < d_.total_bytes[i] % parts ? 1 : 0);
    }

    void begin_all(std::uint32_t rank, Services &services) {
        ranks_[rank].waiting = streams_ - ranks_[rank].finished;
        for (std::uint32_t k = 0; k < streams_; ++k)
            if (state_[index(rank, k)].segment < segments_) begin(rank, k, services);
    }
    /// Posts the receive and the send of a step, after what they cost the rank's processor.
    void begin(std::uint32_t rank, std::uint32_t stream, Services &services) {
        if (costs_.free_processor()) {
            post(rank, stream, services);
            return;
        }
        // Also what costs nothing waits for a processor that is matching.
        const TimePs ready = ranks_[rank].processor.work(services.now(), costs_.recv_ps + costs_.send_ps);
        services.timer(ready - services.now(), rank * streams_ + stream, kPost);
    }
    void post(std::uint32_t rank, std::uint32_t stream, Services &services) {
        Stream &s = state_[index(rank, stream)];
        const std::size_t i = index(rank, stream) * segments_ + s.segment;
        const std::int64_t bytes = block_bytes(i, std::int64_t{d_.first_block[i]} - s.step);
        s.sent = costs_.is_eager(bytes);
        s.posted = true;
        s.found = false;
        Rank &r = ranks_[rank];
        if (costs_.match_ps != 0) r.open.post(static_cast<std::uint16_t>(stream));
        r.commands.post_receives(1);
        match(rank, stream, services);
        const TimePs at = r.commands.send(services.now() + skipped_ps_, costs_) - skipped_ps_;
        if (at > services.now() + costs_.nic_send_ps) held_up_ps_ = services.now();
        services.send(rank, static_cast<std::uint32_t>(d_.send_peer[i]), bytes, stream, s.sequence, at);
        advance(rank, stream, services);
    }
    void advance(std::uint32_t rank, std::uint32_t stream, Services &services) {
        const std::size_t at = index(rank, stream);
        Stream &s = state_[at];
        if (!s.posted || s.reducing || !s.sent || !s.found || s.matched > services.now()) return;
        const std::size_t i = at * segments_ + s.segment;
        const std::int64_t got = block_bytes(i, std::int64_t{d_.first_block[i]} - 1 - s.step);
        const TimePs reduce = (got * d_.reduce_fs_per_byte[i] + 500) / 1000;
        s.reducing = true;
        if (reduce == 0)
            step_done(rank, stream, services);
        else
            services.timer(reduce, rank * streams_ + stream, kReduced);
    }
    void step_done(std::uint32_t rank, std::uint32_t stream, Services &services) {
        const std::size_t at = index(rank, stream);
        Stream &s = state_[at];
        s.reducing = false;
        s.posted = false;
        ++s.sequence;
        if (at == landmark_ && is_regular_) services.landmark();
        if (++s.step == static_cast<std::uint32_t>(d_.steps[at * segments_ + s.segment])) {
            s.step = 0;
            ++s.segment;
            skip_empty(at);
        }
        Rank &r = ranks_[rank];
        if (s.segment == segments_) {
            ++r.finished;
            finish(rank, services.now());
        }
        if (lockstep_) {
            if (--r.waiting == 0) begin_all(rank, services);
        } else if (s.segment < segments_) {
            begin(rank, stream, services);
        }
    }

    std::uint32_t streams_, segments_;
    Segments d_;
    bool lockstep_;
    EndpointCosts costs_;
    std::vector<Stream> state_;
    std::vector<Rank> ranks_;
    std::size_t landmark_ = 0; // stream whose steps are landmarks
    bool is_regular_ = false;
    TimePs held_up_ps_ = -1; // when the rate of commands last made a send wait
};

/// Any directed acyclic graph of sends, receives, computation and waits (motifs.ArraySchedule).
class GraphWorkload final : public Workload {
  public:
    enum Kind : std::uint8_t { kSend = 0, kRecv = 1, kCompute = 2, kWait = 3 };
    struct Graph {
        std::vector<std::int64_t> op_offset;  // [ranks + 1]
        std::vector<std::uint8_t> kind;       // [ops]
        std::vector<std::int32_t> peer;       // [ops]
        std::vector<std::int64_t> value;      // [ops] bytes or picoseconds
        std::vector<std::int64_t> dep_offset; // [ops + 1]
        std::vector<std::int64_t> dep;        // operations that must be complete first
        std::vector<std::int64_t> match;      // [ops] the other end of a send or receive
    };

    GraphWorkload(std::uint32_t ranks, Graph graph, EndpointCosts costs)
        : Workload(ranks),
          g_(std::move(graph)),
          costs_(costs),
          open_(ranks),
          missing_(g_.kind.size()),
          state_(g_.kind.size()),
          left_(ranks),
          processors_(ranks),
          commands_(ranks) {
        const std::size_t ops = g_.kind.size();
        rank_of_.resize(ops);
        for (std::uint32_t r = 0; r < ranks; ++r) {
            left_[r] = g_.op_offset[r + 1] - g_.op_offset[r];
            for (std::int64_t i = g_.op_offset[r]; i < g_.op_offset[r + 1]; ++i)
                rank_of_[static_cast<std::size_t>(i)] = r;
        }
        next_offset_.resize(ops + 1);
        for (const std::int64_t d : g_.dep)
            ++next_offset_[static_cast<std::size_t>(d) + 1];
        for (std::size_t i = 0; i < ops; ++i)
            next_offset_[i + 1] += next_offset_[i];
        next_.resize(g_.dep.size());
        std::vector<std::int64_t> fill(next_offset_.begin(), next_offset_.end() - 1);
        for (std::size_t i = 0; i < ops; ++i) {
            missing_[i] = static_cast<std::uint32_t>(g_.dep_offset[i + 1] - g_.dep_offset[i]);
            for (std::int64_t d = g_.dep_offset[i]; d < g_.dep_offset[i + 1]; ++d) {
                const auto before = static_cast<std::size_t>(g_.dep[static_cast<std::size_t>(d)]);
                next_[static_cast<std::size_t>(fill[before]++)] = static_cast<std::uint32_t>(i);
            }
        }
    }

    void start(Services &services) override {
        for (std::uint32_t r = 0; r < left_.size(); ++r) {
            touch(r, 0);
            if (left_[r] == 0) finish(r, 0);
            // What a completion at time 0 releases must not be issued twice: only true roots start here.
            for (std::int64_t i = g_.op_offset[r]; i < g_.op_offset[r + 1]; ++i) {
                const auto op = static_cast<std::uint32_t>(i);
                if (g_.dep_offset[op + 1] == g_.dep_offset[op]) issue(op, services);
            }
        }
    }
    void on_injected(const MessageInfo &m, Services &services) override {
        records[m.src_rank].bytes_sent += m.bytes;
        if (!costs_.is_eager(m.bytes)) complete(m.tag_b, services);
    }
    void on_delivered(const MessageInfo &m, Services &services) override {
        records[m.dst_rank].bytes_received += m.bytes;
        if (state_[m.tag_a] == kPosted)
            match(m.tag_a, services);
        else
            state_[m.tag_a] = kArrivedEarly;
    }
    void on_timer(std::uint32_t op, std::uint32_t value, Services &services) override {
        if (value == kExecute)
            execute(op, services);
        else
            complete(op, services);
    }
    [[nodiscard]] bool done(std::uint32_t r) const override { return left_[r] == 0; }
    [[nodiscard]] std::string waiting_for(std::uint32_t r) const override {
        static const char *const kNames[] = {"send to rank ", "receive from rank ", "computation", "wait"};
        for (std::int64_t i = g_.op_offset[r]; i < g_.op_offset[r + 1]; ++i) {
            const auto op = static_cast<std::size_t>(i);
            if (state_[op] == kComplete || missing_[op] != 0) continue;
            std::string what = kNames[g_.kind[op]];
            if (g_.kind[op] <= kRecv) what += std::to_string(g_.peer[op]);
            return what + " (operation " + std::to_string(i - g_.op_offset[r]) + ")";
        }
        return "nothing";
    }
    [[nodiscard]] std::size_t bytes() const override { return g_.kind.size() * 70 + g_.dep.size() * 12; }

  private:
    static constexpr std::uint32_t kExecute = 0, kElapsed = 1;
    enum State : std::uint8_t { kIdle = 0, kPosted, kArrivedEarly, kMatching, kComplete };

    /// All dependencies are complete: runs the operation, after what it costs the rank's processor.
    void issue(std::uint32_t op, Services &services) {
        if (g_.kind[op] > kRecv || costs_.free_processor()) {
            execute(op, services);
            return;
        }
        // Also what costs nothing waits for a processor that is matching.
        const TimePs cost = g_.kind[op] == kSend ? costs_.send_ps : costs_.recv_ps;
        services.timer(processors_[rank_of_[op]].work(services.now(), cost) - services.now(), op, kExecute);
    }
    void execute(std::uint32_t op, Services &services) {
        const std::uint32_t rank = rank_of_[op];
        switch (g_.kind[op]) {
        case kSend:
            state_[op] = kPosted;
            services.send(rank, static_cast<std::uint32_t>(g_.peer[op]), g_.value[op],
                          static_cast<std::uint32_t>(g_.match[op]), op, commands_[rank].send(services.now(), costs_));
            if (costs_.is_eager(g_.value[op])) complete(op, services);
            break;
        case kRecv:
            if (costs_.match_ps != 0) open_[rank].post(op);
            commands_[rank].post_receives(1);
            if (state_[op] == kArrivedEarly)
                match(op, services);
            else
                state_[op] = kPosted;
            break;
        case kCompute:
            state_[op] = kPosted;
            services.timer(g_.value[op], op, kElapsed);
            break;
        default:
            complete(op, services);
        }
    }
    /// An arrived message looks through the open receives of its rank, in the order they were posted, for its own.
    void match(std::uint32_t op, Services &services) {
        if (costs_.match_ps == 0) {
            complete(op, services);
            return;
        }
        const std::uint32_t rank = rank_of_[op];
        const TimePs looked_at = open_[rank].match(op);
        state_[op] = kMatching;
        const TimePs ready = processors_[rank].work(services.now(), costs_.match_ps * looked_at);
        services.timer(ready - services.now(), op, kElapsed);
    }
    /// Marks an operation complete and issues what waited for it; a worklist, since chains of waits can be long.
    void complete(std::uint32_t first, Services &services) {
        if (completing_) {
            worklist_.push_back(first);
            return;
        }
        completing_ = true;
        worklist_.push_back(first);
        while (!worklist_.empty()) {
            const std::uint32_t op = worklist_.back();
            worklist_.pop_back();
            state_[op] = kComplete;
            const std::uint32_t rank = rank_of_[op];
            if (--left_[rank] == 0) finish(rank, services.now());
            for (std::int64_t i = next_offset_[op]; i < next_offset_[op + 1]; ++i) {
                const std::uint32_t after = next_[static_cast<std::size_t>(i)];
                if (--missing_[after] == 0) issue(after, services);
            }
        }
        completing_ = false;
    }

    Graph g_;
    EndpointCosts costs_;
    std::vector<PostedReceives<std::uint32_t>> open_; // [ranks] if matching costs anything
    std::vector<std::uint32_t> missing_;
    std::vector<std::uint8_t> state_;
    std::vector<std::int64_t> left_;
    std::vector<Processor> processors_;
    std::vector<NicCommands> commands_;
    std::vector<std::uint32_t> rank_of_;
    std::vector<std::int64_t> next_offset_;
    std::vector<std::uint32_t> next_;
    std::vector<std::uint32_t> worklist_;
    bool completing_ = false;
};

} // namespace hxmesh::engine
