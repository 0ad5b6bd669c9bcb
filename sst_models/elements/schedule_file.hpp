// Reads one rank's part of a schedule file (README.md gives the format). Depends on the standard library only.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace hxmesh::sst {

inline constexpr std::uint32_t kNone = 0xffffffff;

enum Kind : std::uint8_t { kSend = 0, kRecv = 1, kCompute = 2, kWait = 3 };

/// One operation, as it stands in the file.
struct Operation {
    std::int64_t value;          // bytes of a message, picoseconds of a computation
    std::uint32_t peer;          // rank
    std::uint32_t peer_endpoint; // where that rank runs
    std::uint32_t match;         // the peer's operation at the other end of the message
    std::uint32_t dependencies;
    std::int32_t tag;
    std::uint8_t kind;
    std::uint8_t zero[3];
};
static_assert(sizeof(Operation) == 32);
static_assert(std::endian::native == std::endian::little, "schedule files are little-endian");

/// What one rank does.
struct RankSchedule {
    std::uint32_t ranks = 0; // of the whole schedule
    std::uint32_t rank = 0;
    std::uint32_t endpoint = 0;
    std::vector<Operation> operations;
    std::vector<std::uint32_t> dependencies; // of each operation in turn: numbers of operations of this rank
};

/// Reads the part of `rank`. Throws std::runtime_error with one sentence for a file that cannot be read, is no
/// schedule of this version, is cut short or damaged, and for a rank that it does not have.
RankSchedule read_rank(const std::string &path, std::uint32_t rank);

} // namespace hxmesh::sst
