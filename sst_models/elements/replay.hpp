// An endpoint that replays one rank of a schedule over any network interface.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <sst/core/component.h>
#include <sst/core/event.h>
#include <sst/core/interfaces/simpleNetwork.h>
#include <sst/core/link.h>
#include <sst/core/statapi/statbase.h>
#include <sst/core/timeConverter.h>

#include "compat.hpp"
#include "rank_replay.hpp"

namespace hxmesh::sst {

/// What a packet carries: which of the receiver's operations it belongs to.
class PacketEvent final : public SST::Event {
  public:
    PacketEvent() = default;
    explicit PacketEvent(std::uint32_t recv_op) : recv_op(recv_op) {}
    PacketEvent *clone() override { return new PacketEvent(*this); }
    void serialize_order(SST::Core::Serialization::serializer &ser) override {
        Event::serialize_order(ser);
        SST_SER(recv_op);
    }

    std::uint32_t recv_op = kNone;

    ImplementSerializable(hxmesh::sst::PacketEvent)
};

/// What is to be done after a delay.
class TimerEvent final : public SST::Event {
  public:
    TimerEvent() = default;
    TimerEvent(std::uint32_t op, std::uint32_t what) : op(op), what(what) {}
    void serialize_order(SST::Core::Serialization::serializer &ser) override {
        Event::serialize_order(ser);
        SST_SER(op);
        SST_SER(what);
    }

    std::uint32_t op = kNone, what = 0;

    ImplementSerializable(hxmesh::sst::TimerEvent)
};

class Replay final : public SST::Component, private RankReplay::Services {
  public:
    SST_ELI_REGISTER_COMPONENT(Replay, "hxmesh", "replay", SST_ELI_ELEMENT_VERSION(1, 0, 0),
                               "Endpoint that replays one rank of a schedule file", COMPONENT_CATEGORY_NETWORK)
    SST_ELI_DOCUMENT_PARAMS(
        {"schedule", "Path of the schedule file (required unless rank is -1)."},
        {"rank", "Rank in the schedule; -1: an endpoint that takes no part (required)."},
        {"packet_size", "Largest payload of a packet, in B or b.", "8192B"},
        {"flit_size", "Flit size of the routers, in B or b; packets occupy whole flits.", "256B"},
        {"message_header", "In front of the payload of a message, in B or b.", "45B"},
        {"send_buffer",
         "A message that fits in this, in B or b, with those before it, is sent whole when its turn comes.",
         "32000000B"},
        {"send_machines", "Messages sent at the same time, 100 packets in turn, where they do not fit.", "4"},
        {"send_overhead", "Processor time to start a send.", "1ns"},
        {"recv_overhead", "Processor time to post a receive.", "0ns"},
        {"match_overhead", "Processor time for each posted receive that an arrived message is compared with.", "1ns"},
        {"nic_command", "The NIC gets command number n, a send or a posted receive, no sooner than n times this.",
         "2ns"},
        {"nic_send_latency", "From the processor to the first packet of a message.", "2ns"},
        {"nic_recv_latency", "From the last packet of a message to the processor.", "2ns"},
        {"eager_limit",
         "The send of a message below this, in B or b, is complete when the processor has done it, that of another one "
         "when its last packet has left.",
         "2147483648B"},
        {"records", "Directory of the completion records; must exist.", "."})
    SST_ELI_DOCUMENT_STATISTICS({"messages_sent", "Messages whose last packet has left.", "messages", 1},
                                {"messages_received", "Messages whose last packet has arrived.", "messages", 1},
                                {"bytes_sent", "Bytes of these sent messages.", "bytes", 1},
                                {"bytes_received", "Bytes of these received messages.", "bytes", 1})
    SST_ELI_DOCUMENT_SUBCOMPONENT_SLOTS({"networkIF", "Interface to the network, with one virtual network.",
                                         "SST::Interfaces::SimpleNetwork"})

    Replay(SST::ComponentId_t id, SST::Params &params);

    void init(unsigned int phase) override;
    void setup() override;
    void complete(unsigned int phase) override;
    void finish() override;

  private:
    static constexpr std::uint32_t kStart = 100, kInjected = 101, kPortFree = 102, kTold = 103; // besides RankReplay's

    /// A message that is being sent.
    struct Message {
        std::uint32_t op;
        std::int64_t packets_left;
        std::int64_t turn_left; // packets of it that leave before others have their turn
    };
    /// A packet that the network interface has but has not begun to send.
    struct HandedOver {
        std::uint32_t op;
        bool last;
        TimePs length_ps; // that it will occupy the link
    };

    [[noreturn]] void fail(const std::string &sentence) const;
    [[nodiscard]] std::int64_t find_bytes(const SST::Params &params, const char *name, const char *usual,
                                          std::int64_t least) const;
    [[nodiscard]] TimePs find_time(const SST::Params &params, const char *name, const char *usual) const;

    // RankReplay::Services
    [[nodiscard]] TimePs now() const override;
    void send(std::uint32_t op) override;
    void timer(TimePs delay, std::uint32_t op, std::uint32_t what) override;

    /// What a message has on the network: header and payload.
    [[nodiscard]] std::int64_t size_of(std::uint32_t op) const;
    [[nodiscard]] std::int64_t packets_of(std::uint32_t op) const;
    void feed();
    void arrived(std::uint32_t recv_op);
    void told(std::uint32_t recv_op);
    void finish_if_done();

    bool on_send(int vn);
    bool on_receive(int vn);
    void on_timer(SST::Event *event);

    std::unique_ptr<RankReplay> replay_; // none of an endpoint that takes no part
    std::string records_;
    EndpointCosts costs_;
    std::int64_t packet_bytes_ = 0, flit_bytes_ = 0, send_buffer_bytes_ = 0;
    std::uint32_t send_machines_ = 1;
    TimePs ps_per_flit_ = 0;
    SST::TimeConverter ps_;
    SST::Interfaces::SimpleNetwork *network_ = nullptr;
    SST::Link *timer_link_ = nullptr;

    std::deque<Message> pending_;            // that wait for a send machine
    std::vector<Message> machines_;          // messages being sent, in turn
    std::size_t turn_ = 0;                   // whose packet is next
    SendOrder order_;                        // of both of these
    std::deque<HandedOver> handed_over_;     // in the order in which they will leave
    std::size_t sends_left_ = 0;             // whose last packet has not left
    std::vector<std::int64_t> packets_here_; // [ops] packets of each receive that have arrived
    bool port_free_ = true;                  // or will be before anything else can happen
    bool over_ = false;

    SST::Statistics::Statistic<std::uint64_t> *messages_sent_ = nullptr, *messages_received_ = nullptr;
    SST::Statistics::Statistic<std::uint64_t> *bytes_sent_ = nullptr, *bytes_received_ = nullptr;
};

} // namespace hxmesh::sst
