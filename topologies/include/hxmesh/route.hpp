// Vocabulary shared by every routing function: what is asked, what may be answered, how one answer is picked.
//
// These headers depend on the standard library only, so that both the packet engine and an SST element can
// include them: a routing function exists once.
//
// A routing function that is `kStateful` keeps a few bits in each packet (`state_bits`): it gets what it noted at the
// router before, and notes what the next one is to know.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace hxmesh {

/// One decision: leave the router through local port `port`, on virtual channel `vc` of that link.
struct Hop {
    std::uint16_t port;
    std::uint8_t vc;
    friend bool operator==(const Hop &, const Hop &) = default;
};

/// Where a packet stands: at `router`, having come in through local port `in_port` on `in_vc`.
struct RouteQuery {
    std::uint32_t router;
    std::uint32_t in_port;
    std::uint32_t in_vc;
    std::uint32_t src; // source endpoint; only read where the routing declares kNeedsSource
    std::uint32_t dst; // destination endpoint
};

/// Ports that a packet may take, as runs of consecutive ports; the order is the order of preference on ties.
class Candidates {
  public:
    struct Run {
        std::uint16_t first;
        std::uint16_t count;
        std::uint8_t vc;
    };

    void clear() { size_ = 0; }
    void add(std::uint32_t port, std::uint32_t vc) { add_run(port, 1, vc); }
    void add_run(std::uint32_t first, std::uint32_t count, std::uint32_t vc) {
        runs_[size_++] = {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(count),
                          static_cast<std::uint8_t>(vc)};
    }
    [[nodiscard]] std::uint32_t size() const { return size_; }
    [[nodiscard]] const Run &operator[](std::uint32_t i) const { return runs_[i]; }

    template <class Visit> void for_each(Visit &&visit) const {
        for (std::uint32_t i = 0; i < size_; ++i)
            for (std::uint32_t p = 0; p < runs_[i].count; ++p)
                visit(Hop{static_cast<std::uint16_t>(runs_[i].first + p), runs_[i].vc});
    }

  private:
    std::array<Run, 8> runs_; // of which `size_` are set
    std::uint32_t size_ = 0;
};

/// Numbers for the choices that a routing function leaves to chance, the same for a seed everywhere (SplitMix64).
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    /// One of 0 to n-1, each as likely as another but for the 32 bits drawn.
    std::uint32_t below(std::uint32_t n) {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return static_cast<std::uint32_t>(((z ^ z >> 31) >> 32) * n >> 32);
    }
    /// What decides the numbers to come.
    [[nodiscard]] std::uint64_t state() const { return state_; }

  private:
    std::uint64_t state_;
};

/// The candidate with the most credits in its own virtual channel; the first one when tied.
template <class Credits> Hop most_credits(const Candidates &candidates, Credits &&credits) {
    Hop best{candidates[0].first, candidates[0].vc};
    if (candidates.size() == 1 && candidates[0].count == 1) return best;
    auto best_credits = credits(best.port, best.vc);
    bool first = true;
    candidates.for_each([&](Hop hop) {
        if (first) {
            first = false;
            return;
        }
        const auto value = credits(hop.port, hop.vc);
        if (value > best_credits) {
            best_credits = value;
            best = hop;
        }
    });
    return best;
}

} // namespace hxmesh
