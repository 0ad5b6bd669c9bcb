// Packets in queues: 8 bytes each, in 64-byte blocks from one pool.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "calendar.hpp"
#include "pages.hpp"

namespace hxmesh::engine {

inline constexpr std::uint32_t kNone = 0xffffffffu;

/// A queued packet: its message, and its destination endpoint and length in flits packed together.
struct Packet {
    std::uint32_t message;
    std::uint32_t header;

    static constexpr std::uint32_t kFlitBits = 12;
    static constexpr std::uint32_t kMaxFlits = (1u << kFlitBits) - 1;
    static constexpr std::uint32_t kMaxEndpoints = 1u << (32 - kFlitBits);

    static std::uint32_t pack(std::uint32_t dst, std::uint32_t flits) { return dst << kFlitBits | flits; }
    [[nodiscard]] std::uint32_t dst() const { return header >> kFlitBits; }
    [[nodiscard]] std::int32_t flits() const { return static_cast<std::int32_t>(header & kMaxFlits); }
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

/// A first-in first-out queue of packets in blocks of the pool: 12 bytes.
class PacketQueue {
  public:
    [[nodiscard]] bool empty() const { return head_ == kNone; }

    void push(PacketPool &pool, Packet packet) {
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
    [[nodiscard]] Packet front(PacketPool &pool) const { return pool[head_].packets[first_]; }
    void pop(PacketPool &pool) {
        ++first_;
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
    // Always inlined: GCC drops calls of functions that do nothing but prefetch.
    /// Fetches into cache what `front` will read.
    HXMESH_INLINE void prefetch_front(PacketPool &pool) const { __builtin_prefetch(&pool[head_]); }
    /// Fetches into cache what `push` will write.
    HXMESH_INLINE void prefetch_back(PacketPool &pool) const { __builtin_prefetch(&pool[tail_], 1); }

  private:
    std::uint32_t head_ = kNone, tail_ = kNone; // blocks
    std::uint8_t first_ = 0, last_ = 0;         // places in them: of the front, and behind the back
};

} // namespace hxmesh::engine
