// What a message costs its endpoints: shared by the packet engine and the endpoint for SST.
//
// After Firefly, the MPI model of the published study (sst-elements 16.0, firefly: virtNic.h, nic.h, ctrlMsgMemory.h,
// ctrlMsgCommReq.h): a processor that does one thing at a time, commands that reach the NIC no faster than a rate,
// constant latencies to and from the NIC, a header on every message.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hxmesh {

/// Parameters of an endpoint; engine.NetworkParams documents them.
struct EndpointCosts {
    std::int64_t send_ps = 0;        // of the processor, to start a send
    std::int64_t recv_ps = 0;        // of the processor, to post a receive
    std::int64_t match_ps = 0;       // of the processor, for each posted receive that a message is compared with
    std::int64_t nic_command_ps = 0; // command number n reaches the NIC no sooner than n times this
    std::int64_t nic_send_ps = 0;    // from the processor to the message's first packet
    std::int64_t nic_recv_ps = 0;    // from the message's last packet to the processor
    std::int64_t header_bytes = 0;   // in front of a message's payload
    std::int64_t eager_bytes = 0;    // the send of a smaller message is complete when the processor is done with it

    /// Whether the processor does everything in no time.
    [[nodiscard]] bool free_processor() const { return send_ps == 0 && recv_ps == 0 && match_ps == 0; }
    [[nodiscard]] bool is_eager(std::int64_t bytes) const { return bytes < eager_bytes; }
};

/// A rank's processor: what it is asked to do waits for what it was asked before.
struct Processor {
    std::int64_t free_ps = 0;
    /// When something that takes `cost_ps` and is asked for at `now_ps` is done.
    std::int64_t work(std::int64_t now_ps, std::int64_t cost_ps) {
        return free_ps = std::max(free_ps, now_ps) + cost_ps;
    }
};

/// Commands of a processor to its NIC. They are counted from the start of the simulation, so that they are held up in
/// a burst and not later on (VirtNic::calcDelay); nobody waits for them.
struct NicCommands {
    // Buffers that Firefly posts at the start (pqs.minPostedShortBuffers).
    std::int64_t count = 5;

    void post_receives(std::int64_t n) { count += n; }
    /// When the NIC has a send that the processor is done with at `ready_ps`.
    std::int64_t send(std::int64_t ready_ps, const EndpointCosts &costs) { return at(count++, ready_ps, costs); }
    /// The same for the command with number `number`.
    static std::int64_t at(std::int64_t number, std::int64_t ready_ps, const EndpointCosts &costs) {
        return std::max(ready_ps, number * costs.nic_command_ps) + costs.nic_send_ps;
    }
};

/// Receives that are posted and have no message yet, in the order in which they were posted.
template <class Id> class PostedReceives {
  public:
    void post(Id id) { open_.push_back(id); }
    /// Takes one out; returns how many a message was compared with before it was found.
    std::int64_t match(Id id) {
        const auto found = std::find(open_.begin(), open_.end(), id);
        const auto looked_at = static_cast<std::int64_t>(found - open_.begin()) + 1;
        open_.erase(found);
        return looked_at;
    }
    /// Calls visit(id) from the first posted to the last.
    template <class Visit> void for_each(Visit &&visit) const {
        for (const Id id : open_)
            visit(id);
    }

  private:
    std::vector<Id> open_;
};

/// Order in which an endpoint's NIC sends. A message is put into the NIC's buffer as soon as it is posted, as far as it
/// fits (firefly, nic.cc, feedTheNetwork), and queued behind it with kTurnPackets packets more (nicSendMachine.cc,
/// InQ). Whenever so many have moved up, it queues as many again behind those of the other messages that are being
/// sent.
struct SendOrder {
    static constexpr std::int64_t kTurnPackets = 100; // maxSendMachineQsize of firefly/pyfirefly.py

    std::int64_t backlog_bytes = 0; // of messages, headers included, whose last packet has not begun to leave

    /// Packets that a message which is posted now may send before others have their turn.
    [[nodiscard]] std::int64_t first_turn(std::int64_t buffer_bytes, std::int64_t packet_bytes) const {
        return std::max<std::int64_t>(0, buffer_bytes - backlog_bytes) / packet_bytes + kTurnPackets;
    }
    /// The same for one that was alone and is no longer: it has filled the buffer.
    [[nodiscard]] static std::int64_t turn_alone(std::int64_t buffer_bytes, std::int64_t packet_bytes) {
        return buffer_bytes / packet_bytes + kTurnPackets;
    }
};

} // namespace hxmesh
