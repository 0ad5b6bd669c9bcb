// Packets in queues: 8 bytes each, in 64-byte blocks from one pool.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "calendar.hpp"
#include "pages.hpp"

namespace hxmesh::engine {

inline constexpr std::uint32_t kNone = 0xffffffffu;

/// A queued packet: its message; its destination endpoint, length in flits and routing state, as a layout packs them.
struct Packet {
    std::uint32_t message;
    std::uint32_t header;
};

/// The header's layout where the routing function keeps nothing in packets. Its widths are constants: nothing is read.
class PlainLayout {
  public:
    PlainLayout(std::uint32_t endpoints, std::int32_t largest_flits, std::uint32_t /*state_bits*/) {
        if (endpoints >= kMaxEndpoints)
            throw std::invalid_argument("at most " + std::to_string(kMaxEndpoints - 1) + " endpoints");
        if (largest_flits > static_cast<std::int32_t>(kMaxFlits))
            throw std::invalid_argument("a packet has at most " + std::to_string(kMaxFlits) + " flits");
    }

    [[nodiscard]] static std::uint32_t pack(std::uint32_t dst, std::uint32_t flits) { return dst << kFlitBits | flits; }
    [[nodiscard]] static std::uint32_t dst(Packet p) { return p.header >> kFlitBits; }
    [[nodiscard]] static std::int32_t flits(Packet p) { return static_cast<std::int32_t>(p.header & kMaxFlits); }

  private:
    static constexpr std::uint32_t kFlitBits = 12;
    static constexpr std::uint32_t kMaxFlits = (1u << kFlitBits) - 1;
    static constexpr std::uint32_t kMaxEndpoints = 1u << (32 - kFlitBits);
};

/// The header's layout with routing state: each part is as wide as this network and its largest packet need.
class StatefulLayout {
  public:
    StatefulLayout(std::uint32_t endpoints, std::int32_t largest_flits, std::uint32_t state_bits)
        : flit_bits_(width(static_cast<std::uint32_t>(largest_flits))), dst_shift_(flit_bits_ + state_bits) {
        const std::uint32_t dst_bits = std::max(1u, width(endpoints - 1));
        if (dst_bits + dst_shift_ > 32)
            throw std::invalid_argument(
                "a packet's header has 32 bits but needs " + std::to_string(dst_bits + dst_shift_) + ": " +
                std::to_string(dst_bits) + " for " + std::to_string(endpoints) + " endpoints, " +
                std::to_string(flit_bits_) + " for packets of up to " + std::to_string(largest_flits) + " flits, " +
                std::to_string(state_bits) + " for the routing's state");
        flit_mask_ = (1u << flit_bits_) - 1;
        state_mask_ = (1u << state_bits) - 1;
    }

    [[nodiscard]] std::uint32_t pack(std::uint32_t dst, std::uint32_t flits) const { return dst << dst_shift_ | flits; }
    [[nodiscard]] std::uint32_t dst(Packet p) const { return p.header >> dst_shift_; }
    [[nodiscard]] std::int32_t flits(Packet p) const { return static_cast<std::int32_t>(p.header & flit_mask_); }
    [[nodiscard]] std::uint32_t state(Packet p) const { return p.header >> flit_bits_ & state_mask_; }
    void set_state(Packet &p, std::uint32_t state) const {
        p.header = (p.header & ~(state_mask_ << flit_bits_)) | state << flit_bits_;
    }

  private:
    static std::uint32_t width(std::uint32_t largest) { return static_cast<std::uint32_t>(std::bit_width(largest)); }

    std::uint32_t flit_bits_, dst_shift_; // flits lowest, then the state, the destination on top
    std::uint32_t flit_mask_ = 0, state_mask_ = 0;
};

/// Blocks of queued packets; freed ones are reused last in, first out, so that a network with short queues
/// stays in a small part of memory, and memory follows what is queued and not the buffers' capacity.
class PacketPool {
  public:
    static constexpr std::uint32_t kPerBlock = 7;
    struct alignas(64) Block {
        Packet packets[kPerBlock];
        std::uint32_t next;
    };

    [[nodiscard]] Block &operator[](std::uint32_t i) { return segments_[i >> kShift][i & kMask]; }

    std::uint32_t take() {
        if (free_ != kNone) {
            const std::uint32_t i = free_;
            free_ = (*this)[i].next;
            return i;
        }
        if ((made_ >> kShift) == segments_.size()) segments_.emplace_back(kMask + 1);
        return made_++;
    }
    void give(std::uint32_t i) {
        (*this)[i].next = free_;
        free_ = i;
    }
    [[nodiscard]] std::size_t bytes() const { return segments_.size() * (kMask + 1) * sizeof(Block); }

  private:
    static constexpr std::uint32_t kShift = 15, kMask = (1u << kShift) - 1;
    std::vector<PageVector<Block>> segments_;
    std::uint32_t free_ = kNone;
    std::uint32_t made_ = 0;
};

/// A first-in first-out queue of packets: 20 bytes. The first one is in it, all others are in blocks of the pool, so
/// that a queue of one packet touches no other memory, and looking at the first one never does.
class PacketQueue {
  public:
    [[nodiscard]] bool empty() const { return front_.header == kNoPacket; }

    void push(PacketPool &pool, Packet packet) {
        if (empty()) {
            front_ = packet;
            return;
        }
        if (head_ == kNone) {
            head_ = tail_ = pool.take();
            first_ = last_ = 0;
        } else if (last_ == PacketPool::kPerBlock) {
            const std::uint32_t block = pool.take();
            pool[tail_].next = block;
            tail_ = block;
            last_ = 0;
        }
        pool[tail_].packets[last_++] = packet;
    }
    [[nodiscard]] Packet front() const { return front_; }
    void replace_front(Packet packet) { front_ = packet; }
    void pop(PacketPool &pool) {
        if (head_ == kNone) {
            front_.header = kNoPacket;
            return;
        }
        front_ = pool[head_].packets[first_++];
        if (head_ == tail_) {
            if (first_ != last_) return;
            pool.give(head_);
            head_ = kNone;
        } else if (first_ == PacketPool::kPerBlock) {
            const std::uint32_t done = head_;
            head_ = pool[done].next;
            first_ = 0;
            pool.give(done);
        }
    }
    /// Calls visit(packet) from the front to the back.
    template <class Visit> void for_each(PacketPool &pool, Visit &&visit) const {
        if (empty()) return;
        visit(front_);
        if (head_ == kNone) return;
        std::uint32_t block = head_, place = first_;
        for (;;) {
            visit(pool[block].packets[place++]);
            if (block == tail_ && place == last_) return;
            if (place < PacketPool::kPerBlock) continue;
            block = pool[block].next;
            place = 0;
        }
    }
    /// Fetches into cache what `push` will write and `pop` will read. Inlined: GCC drops calls of functions that do
    /// nothing but prefetch.
    HXMESH_INLINE void prefetch(PacketPool &pool) const {
        if (head_ == kNone) return;
        __builtin_prefetch(&pool[head_], 1);
        __builtin_prefetch(&pool[tail_], 1);
    }

  private:
    static constexpr std::uint32_t kNoPacket = 0; // no header is: a packet has a flit at least

    Packet front_{kNone, kNoPacket};
    std::uint32_t head_ = kNone, tail_ = kNone; // blocks of all others
    std::uint8_t first_ = 0, last_ = 0;         // places in them: of the second packet, and behind the last
};

} // namespace hxmesh::engine
