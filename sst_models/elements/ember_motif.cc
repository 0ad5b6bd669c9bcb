// The configuration of SST comes first in every source (core issue 865).
#include <sst/core/sst_config.h>

#include "ember_motif.hpp"

#include <exception>
#include <limits>
#include <stdexcept>

#include "records.hpp"

namespace hxmesh::sst {

namespace {

// Firefly marks messages of its own with the upper bits of a tag (ctrlMsg.h, TagMask).
constexpr std::uint32_t kMostTags = 0x10000000;

} // namespace

EmberReplay::EmberReplay(SST::ComponentId_t id, SST::Params &params)
    : EmberMessagePassingGenerator(id, params, "Replay"),
      path_(params.find<std::string>("arg.schedule", "")),
      records_(params.find<std::string>("arg.records", ".")) {
    if (path_.empty()) fail("schedule is missing but must be the path of a schedule file.");
}

void EmberReplay::fail(const std::string &sentence) const {
    getSimulationOutput().fatal(CALL_INFO, 1, "hxmesh.Replay: %s\n", sentence.c_str());
    throw std::logic_error(sentence); // not reached: fatal ends the process
}

TimePs EmberReplay::now() const { return static_cast<TimePs>(getCurrentSimTime("1ps")); }

bool EmberReplay::generate(Events &events) {
    if (!dependencies_)
        begin();
    else
        collect();
    post(events);
    if (awaited_ == Awaited::kComputation) return false;
    if (posted_ != 0) {
        // Once there is nothing more to start, one wait for all will do.
        awaited_ = left_to_post_ == 0 ? Awaited::kAll : Awaited::kAny;
        const int count = static_cast<int>(posted_);
        if (awaited_ == Awaited::kAll)
            enQ_waitall(events, count, requests_.data());
        else
            enQ_waitany(events, count, requests_.data(), &any_);
        return false;
    }
    finish();
    return true;
}

void EmberReplay::begin() {
    const auto rank = static_cast<std::uint32_t>(this->rank());
    try {
        check_directory(records_);
        schedule_ = read_rank(path_, rank);
    } catch (const std::exception &error) {
        fail(error.what());
    }
    if (schedule_.ranks != static_cast<std::uint32_t>(size()))
        fail("ranks of the job are " + std::to_string(size()) + " but must be " + std::to_string(schedule_.ranks) +
             ", as in the schedule.");
    if (schedule_.operations.size() >= kMostTags)
        fail("operations of rank " + std::to_string(rank) + " are " + std::to_string(schedule_.operations.size()) +
             " but must be below " + std::to_string(kMostTags) + ".");
    dependencies_ = std::make_unique<Dependencies>(schedule_);
    record_.rank = rank;
    record_.start_ps = now();
    left_ = schedule_.operations.size();
    std::size_t messages = 0;
    for (std::uint32_t op = 0; op < left_; ++op) {
        const std::uint8_t kind = schedule_.operations[op].kind;
        messages += kind <= kRecv;
        left_to_post_ += kind != kWait;
        if (dependencies_->is_ready(op)) ready_.push_back(op);
    }
    requests_.resize(messages);
    request_op_.resize(messages);
}

/// What was waited for is over.
void EmberReplay::collect() {
    switch (awaited_) {
    case Awaited::kComputation:
        complete(computation_);
        break;
    case Awaited::kAny: {
        const auto at = static_cast<std::size_t>(any_);
        const std::uint32_t op = request_op_[at];
        --posted_;
        requests_[at] = requests_[posted_];
        request_op_[at] = request_op_[posted_];
        complete(op);
        break;
    }
    case Awaited::kAll:
        for (std::size_t i = 0; i < posted_; ++i)
            complete(request_op_[i]);
        posted_ = 0;
        break;
    case Awaited::kNothing:
        break;
    }
    awaited_ = Awaited::kNothing;
}

void EmberReplay::complete(std::uint32_t op) {
    const Operation &o = schedule_.operations[op];
    if (o.kind == kSend) record_.bytes_sent += o.value;
    if (o.kind == kRecv) record_.bytes_received += o.value;
    --left_;
    dependencies_->completed(op, [&](std::uint32_t next) { ready_.push_back(next); });
}

void EmberReplay::post(Events &events) {
    while (!ready_.empty()) {
        const std::uint32_t op = ready_.front();
        ready_.pop_front();
        const std::uint8_t kind = schedule_.operations[op].kind;
        if (kind == kWait) {
            complete(op);
            continue;
        }
        --left_to_post_;
        if (kind == kCompute) {
            computation_ = op;
            awaited_ = Awaited::kComputation;
            // Ember's clock ticks in nanoseconds.
            enQ_compute(events, (static_cast<std::uint64_t>(schedule_.operations[op].value) + 500) / 1000);
            return;
        }
        post_message(op, events);
    }
}

void EmberReplay::post_message(std::uint32_t op, Events &events) {
    const Operation &o = schedule_.operations[op];
    if (o.value > std::numeric_limits<std::uint32_t>::max())
        fail("operation " + std::to_string(op) + " of rank " + std::to_string(record_.rank) + " has " +
             std::to_string(o.value) + " bytes but Ember's messages have at most 4294967295.");
    const auto bytes = static_cast<std::uint32_t>(o.value);
    // The receiver's operation as tag: messages match as in the file, whatever the order in which they are posted.
    request_op_[posted_] = op;
    MessageRequest *request = &requests_[posted_++];
    if (o.kind == kSend)
        enQ_isend(events, nullptr, bytes, CHAR, o.peer, o.match, GroupWorld, request);
    else
        enQ_irecv(events, nullptr, bytes, CHAR, o.peer, op, GroupWorld, request);
}

void EmberReplay::finish() {
    if (left_ != 0) fail("rank " + std::to_string(record_.rank) + " waits for a cycle of dependencies.");
    record_.end_ps = now();
    try {
        write_records(records_, "rank-" + std::to_string(record_.rank) + ".csv", {record_});
    } catch (const std::exception &error) {
        fail(error.what());
    }
}

} // namespace hxmesh::sst
