// What must hold in every run, looked at as it happens where a run is to be validated.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "calendar.hpp"

namespace hxmesh::engine {

/// Each packet is delivered once and at its destination, no credit is spent that is not there or comes back twice,
/// bytes of messages and ranks are exact, and time does not run backwards. Anything else is a defect of the engine.
///
/// Every function throws std::logic_error with what it found.
class Checks {
  public:
    explicit Checks(std::uint32_t ranks) : sent_bytes_(ranks), received_bytes_(ranks) {}

    static void time(TimePs before, TimePs now) {
        if (now < before)
            fail("an event of " + std::to_string(now) + " ps came after one of " + std::to_string(before) + " ps");
    }

    /// Credits of a channel after some were spent.
    static void spent(std::int64_t credits) {
        if (credits < 0) fail("a packet was sent into a buffer with room for " + std::to_string(credits) + " flits");
    }
    /// Credits of a channel after some came back to it, those that are on their way not counted.
    static void returned(std::int64_t credits, std::int64_t capacity) {
        if (credits > capacity)
            fail("a buffer of " + std::to_string(capacity) + " flits has room for " + std::to_string(credits));
    }

    /// A message of `flits` in `packets` begins, in a slot that no other one is in.
    void begins(std::uint32_t slot, std::uint32_t src_rank, std::uint32_t dst_endpoint, std::int64_t bytes,
                std::uint64_t packets, std::uint64_t flits) {
        if (slot >= messages_.size()) messages_.resize(std::size_t{slot} + 1);
        Message &m = messages_[slot];
        if (m.open) fail("two messages are in slot " + std::to_string(slot));
        m = {true, dst_endpoint, bytes, packets, flits};
        ++open_;
        sent_bytes_.at(src_rank) += bytes;
    }
    /// One of its packets is on its last link, to `endpoint`.
    void delivers(std::uint32_t slot, std::uint32_t endpoint, std::uint64_t flits) {
        if (slot >= messages_.size() || !messages_[slot].open) fail("a packet of no message was delivered");
        Message &m = messages_[slot];
        if (endpoint != m.dst_endpoint)
            fail("a packet for endpoint " + std::to_string(m.dst_endpoint) + " was delivered to " +
                 std::to_string(endpoint));
        if (m.packets == 0) fail("more packets were delivered than a message has");
        if (m.flits < flits) fail("more flits were delivered than a message has");
        --m.packets;
        m.flits -= flits;
    }
    /// All of it has arrived.
    void ends(std::uint32_t slot, std::uint32_t dst_rank) {
        if (slot >= messages_.size() || !messages_[slot].open) fail("a message ended that had not begun");
        Message &m = messages_[slot];
        if (m.packets != 0 || m.flits != 0)
            fail("a message ended with " + std::to_string(m.packets) + " packets and " + std::to_string(m.flits) +
                 " flits to come");
        m.open = false;
        --open_;
        received_bytes_.at(dst_rank) += m.bytes;
    }

    /// The run is complete: `Records` have bytes_sent and bytes_received of each rank.
    template <class Records> void finished(const Records &records) const {
        if (open_ != 0) fail(std::to_string(open_) + " messages never ended");
        for (std::size_t r = 0; r < sent_bytes_.size(); ++r) {
            if (sent_bytes_[r] != records.at(r).bytes_sent || received_bytes_[r] != records.at(r).bytes_received)
                fail("rank " + std::to_string(r) + " sent " + std::to_string(sent_bytes_[r]) + " and received " +
                     std::to_string(received_bytes_[r]) + " bytes, but its record says " +
                     std::to_string(records.at(r).bytes_sent) + " and " + std::to_string(records.at(r).bytes_received));
        }
    }

  private:
    struct Message {
        bool open = false;
        std::uint32_t dst_endpoint = 0;
        std::int64_t bytes = 0;
        std::uint64_t packets = 0, flits = 0; // to be delivered
    };

    [[noreturn]] static void fail(const std::string &what) { throw std::logic_error("the engine is wrong: " + what); }

    std::vector<Message> messages_; // by slot, as the engine numbers them
    std::uint64_t open_ = 0;
    std::vector<std::int64_t> sent_bytes_, received_bytes_; // [ranks]
};

} // namespace hxmesh::engine
