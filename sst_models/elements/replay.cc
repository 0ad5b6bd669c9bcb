// The configuration of SST comes first in every source (core issue 865).
#include <sst/core/sst_config.h>

#include "replay.hpp"

#include <algorithm>
#include <exception>
#include <stdexcept>

#include <sst/core/unitAlgebra.h>

#include "records.hpp"

namespace hxmesh::sst {

using SST::UnitAlgebra;
using SST::Interfaces::SimpleNetwork;

namespace {

/// UnitAlgebra itself does not say: it compares and rounds without the sign.
bool is_negative(const std::string &quantity) {
    const std::size_t first = quantity.find_first_not_of(' ');
    return first != quantity.npos && quantity[first] == '-';
}

} // namespace

Replay::Replay(SST::ComponentId_t id, SST::Params &params)
    : Component(id), records_(params.find<std::string>("records", ".")) {
    const auto rank = params.find<std::string>("rank", "");
    const bool is_rank = !rank.empty() && rank.size() <= 9 && rank.find_first_not_of("0123456789") == rank.npos;
    if (!is_rank && rank != "-1")
        fail("rank is " + (rank.empty() ? "missing" : rank) + " but must be -1 or a rank of the schedule.");
    packet_bytes_ = find_bytes(params, "packet_size", "8192B", 1);
    flit_bytes_ = find_bytes(params, "flit_size", "256B", 1);
    send_buffer_bytes_ = find_bytes(params, "send_buffer", "32000000B", 1);
    const auto machines = params.find<std::int64_t>("send_machines", 4);
    if (machines < 1 || machines > 65536)
        fail("send_machines is " + std::to_string(machines) + " but must be 1 to 65536.");
    send_machines_ = static_cast<std::uint32_t>(machines);
    costs_ = {.send_ps = find_time(params, "send_overhead", "1ns"),
              .recv_ps = find_time(params, "recv_overhead", "0ns"),
              .match_ps = find_time(params, "match_overhead", "1ns"),
              .nic_command_ps = find_time(params, "nic_command", "2ns"),
              .nic_send_ps = find_time(params, "nic_send_latency", "2ns"),
              .nic_recv_ps = find_time(params, "nic_recv_latency", "2ns"),
              .header_bytes = find_bytes(params, "message_header", "45B", 0),
              .eager_bytes = find_bytes(params, "eager_limit", "2147483648B", 0)};

    network_ = loadUserSubComponent<SimpleNetwork>("networkIF", SST::ComponentInfo::SHARE_NONE, 1);
    if (network_ == nullptr)
        fail("the slot networkIF is empty but must hold a network interface such as merlin.linkcontrol.");
    ps_ = getTimeConverter("1ps");
    messages_sent_ = registerStatistic<std::uint64_t>("messages_sent");
    messages_received_ = registerStatistic<std::uint64_t>("messages_received");
    bytes_sent_ = registerStatistic<std::uint64_t>("bytes_sent");
    bytes_received_ = registerStatistic<std::uint64_t>("bytes_received");
    if (!is_rank) return;

    const auto path = params.find<std::string>("schedule", "");
    if (path.empty()) fail("schedule is missing but must be the path of a schedule file.");
    try {
        check_directory(records_);
        replay_ = std::make_unique<RankReplay>(read_rank(path, static_cast<std::uint32_t>(std::stoul(rank))), costs_);
    } catch (const std::exception &error) {
        fail(error.what());
    }
    const std::vector<Operation> &operations = replay_->schedule().operations;
    packets_here_.resize(operations.size());
    sends_left_ = static_cast<std::size_t>(
        std::count_if(operations.begin(), operations.end(), [](const Operation &op) { return op.kind == kSend; }));
    timer_link_ = configureSelfLink("timer", "1ps", new EventHandler<Replay, &Replay::on_timer>(this));
    network_->setNotifyOnReceive(new NetworkHandler<Replay, &Replay::on_receive>(this));
    network_->setNotifyOnSend(new NetworkHandler<Replay, &Replay::on_send>(this));
    RecordBook::announce(records_);
    registerAsPrimaryComponent();
    primaryComponentDoNotEndSim();
}

void Replay::fail(const std::string &sentence) const {
    SST::Output &output = getSimulationOutput();
    output.fatal(CALL_INFO, 1, "hxmesh.replay: %s\n", sentence.c_str());
    throw std::logic_error(sentence); // not reached: fatal ends the process
}

std::int64_t Replay::find_bytes(const SST::Params &params, const char *name, const char *usual,
                                std::int64_t least) const {
    const auto text = params.find<std::string>(name, usual);
    UnitAlgebra size(text);
    if (size.hasUnits("B")) size *= UnitAlgebra("8b/B");
    const std::int64_t bits = size.hasUnits("b") ? size.getRoundedValue() : -1;
    if (is_negative(text) || bits % 8 != 0 || bits / 8 < least)
        fail(std::string(name) + " is " + text + " but must be whole bytes such as " + usual + ".");
    return bits / 8;
}

TimePs Replay::find_time(const SST::Params &params, const char *name, const char *usual) const {
    const auto text = params.find<std::string>(name, usual);
    const UnitAlgebra time(text);
    if (!time.hasUnits("s") || is_negative(text))
        fail(std::string(name) + " is " + text + " but must be a time such as " + usual + ".");
    return (time / UnitAlgebra("1ps")).getRoundedValue();
}

void Replay::init(unsigned int phase) { network_->init(phase); }

void Replay::setup() {
    network_->setup();
    if (!replay_) return;
    const auto endpoint = network_->getEndpointID();
    if (endpoint != replay_->schedule().endpoint)
        fail("rank " + std::to_string(replay_->schedule().rank) + " is at endpoint " + std::to_string(endpoint) +
             " but the schedule file has it at " + std::to_string(replay_->schedule().endpoint) + ".");
    // Rounded as the interface rounds it, to whole picoseconds a flit.
    UnitAlgebra flit("1b");
    flit *= static_cast<std::int64_t>(flit_bytes_ * 8);
    const SST::TimeConverter flit_time = getTimeConverter(network_->getLinkBW() / flit);
    ps_per_flit_ = static_cast<TimePs>(flit_time.getFactor() / ps_.getFactor());
    timer_link_->send(0, new TimerEvent(kNone, kStart));
}

void Replay::complete(unsigned int phase) { network_->complete(phase); }

void Replay::finish() {
    network_->finish();
    if (!replay_) return;
    const std::string name =
        "ranks-" + std::to_string(getRank().rank) + "-of-" + std::to_string(getNumRanks().rank) + ".csv";
    try {
        RecordBook::report(records_, name, replay_->record());
    } catch (const std::exception &error) {
        fail(error.what());
    }
}

TimePs Replay::now() const { return static_cast<TimePs>(getCurrentSimTime(ps_)); }

std::int64_t Replay::size_of(std::uint32_t op) const { return costs_.header_bytes + replay_->operation(op).value; }

std::int64_t Replay::packets_of(std::uint32_t op) const {
    // A message of no bytes is one packet.
    return std::max<std::int64_t>(1, (size_of(op) + packet_bytes_ - 1) / packet_bytes_);
}

void Replay::send(std::uint32_t op) {
    if (machines_.size() == 1 && pending_.empty())
        machines_[0].turn_left = SendOrder::turn_alone(send_buffer_bytes_, packet_bytes_);
    pending_.push_back({op, packets_of(op), order_.first_turn(send_buffer_bytes_, packet_bytes_)});
    order_.backlog_bytes += size_of(op);
    feed();
}

void Replay::timer(TimePs delay, std::uint32_t op, std::uint32_t what) {
    timer_link_->send(static_cast<SST::SimTime_t>(delay), new TimerEvent(op, what));
}

/// Hands the next packet over. That is decided here and as late as possible, by the rule of SendOrder; but the
/// interface must have it when its link is free, or it would pause for a flit.
void Replay::feed() {
    while (port_free_ && handed_over_.empty()) {
        while (machines_.size() < send_machines_ && !pending_.empty()) {
            machines_.push_back(pending_.front());
            pending_.pop_front();
        }
        if (machines_.empty()) return;
        if (turn_ >= machines_.size()) turn_ = 0;
        Message &message = machines_[turn_];
        const Operation &op = replay_->operation(message.op);
        const bool last = message.packets_left == 1;
        const std::int64_t bytes =
            last ? size_of(message.op) - (packets_of(message.op) - 1) * packet_bytes_ : packet_bytes_;
        // In whole flits, as it occupies links and buffers; an empty one would take no time in Merlin.
        const std::int64_t flits = std::max<std::int64_t>(1, (bytes + flit_bytes_ - 1) / flit_bytes_);
        const auto bits = static_cast<std::size_t>(8 * flits * flit_bytes_);
        if (!network_->spaceToSend(0, static_cast<int>(bits)))
            fail("output_buf_size of the network interface must hold a packet of " +
                 std::to_string(flits * flit_bytes_) + " bytes but does not.");
        auto *request = new SimpleNetwork::Request(op.peer_endpoint, replay_->schedule().endpoint, bits, true, true,
                                                   new PacketEvent(op.match));
        // Before the call: the interface may report at once that it sends the packet.
        handed_over_.push_back({message.op, last, flits * ps_per_flit_});
        if (last) {
            order_.backlog_bytes -= size_of(message.op);
            machines_.erase(machines_.begin() + static_cast<std::ptrdiff_t>(turn_)); // the turn passes to the next one
        } else {
            --message.packets_left;
            if (--message.turn_left == 0) {
                message.turn_left = SendOrder::kTurnPackets;
                ++turn_;
            }
        }
        if (!network_->send(request, 0)) fail("the network interface refused a packet that it had room for.");
    }
}

/// The interface begins to send the packet that it has held longest.
bool Replay::on_send(int) {
    const HandedOver packet = handed_over_.front();
    handed_over_.pop_front();
    port_free_ = false;
    timer(std::max<TimePs>(0, packet.length_ps - 1), packet.op, kPortFree);
    if (packet.last) timer(packet.length_ps, packet.op, kInjected);
    return true;
}

bool Replay::on_receive(int) {
    while (network_->requestToReceive(0)) {
        SimpleNetwork::Request *request = network_->recv(0);
        if (request == nullptr) break;
        std::unique_ptr<SST::Event> payload(request->takePayload());
        delete request;
        const auto *packet = dynamic_cast<const PacketEvent *>(payload.get());
        if (packet == nullptr || packet->recv_op >= packets_here_.size() ||
            replay_->operation(packet->recv_op).kind != kRecv)
            fail("rank " + std::to_string(replay_->schedule().rank) +
                 " got a packet that its schedule does not expect; do all endpoints replay the same file?");
        arrived(packet->recv_op);
    }
    return true;
}

void Replay::arrived(std::uint32_t recv_op) {
    if (++packets_here_[recv_op] != packets_of(recv_op)) return;
    messages_received_->addData(1);
    bytes_received_->addData(static_cast<std::uint64_t>(replay_->operation(recv_op).value));
    if (costs_.nic_recv_ps == 0)
        told(recv_op);
    else
        timer(costs_.nic_recv_ps, recv_op, kTold);
}

/// The processor knows of a message that has arrived.
void Replay::told(std::uint32_t recv_op) {
    replay_->delivered(recv_op, *this);
    finish_if_done();
}

void Replay::on_timer(SST::Event *event) {
    const std::unique_ptr<TimerEvent> timer(static_cast<TimerEvent *>(event));
    if (timer->what == kStart) {
        replay_->start(*this);
    } else if (timer->what == kPortFree) {
        port_free_ = true;
        feed();
    } else if (timer->what == kTold) {
        told(timer->op);
    } else if (timer->what == kInjected) {
        --sends_left_;
        messages_sent_->addData(1);
        bytes_sent_->addData(static_cast<std::uint64_t>(replay_->operation(timer->op).value));
        replay_->injected(timer->op, *this);
    } else {
        replay_->on_timer(timer->op, timer->what, *this);
    }
    finish_if_done();
}

void Replay::finish_if_done() {
    // Also the messages of eager sends are to leave.
    if (over_ || !replay_->done() || sends_left_ != 0) return;
    over_ = true;
    primaryComponentOKToEndSim();
}

} // namespace hxmesh::sst
