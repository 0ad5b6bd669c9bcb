#include "schedule_file.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace hxmesh::sst {

namespace {

struct Header {
    char magic[8];
    std::uint32_t version, header_bytes;
    std::uint64_t ranks, operations, dependencies, file_bytes, zero[2];
};
static_assert(sizeof(Header) == 64);

struct IndexEntry {
    std::uint64_t offset, operations, dependencies;
    std::uint32_t endpoint, crc;
};
static_assert(sizeof(IndexEntry) == 32);

constexpr std::uint32_t kVersion = 1;

/// The CRC-32 of zlib (polynomial 0xedb88320, reflected).
std::uint32_t crc32(std::uint32_t crc, const void *data, std::size_t size) {
    static const auto table = [] {
        std::array<std::uint32_t, 256> made{};
        for (std::uint32_t i = 0; i < 256; ++i) {
            std::uint32_t c = i;
            for (int bit = 0; bit < 8; ++bit)
                c = c & 1u ? 0xedb88320u ^ (c >> 1) : c >> 1;
            made[i] = c;
        }
        return made;
    }();
    const auto *bytes = static_cast<const unsigned char *>(data);
    crc = ~crc;
    for (std::size_t i = 0; i < size; ++i)
        crc = table[(crc ^ bytes[i]) & 0xffu] ^ (crc >> 8);
    return ~crc;
}

class Reader {
  public:
    explicit Reader(const std::string &path) : path_(path), file_(std::fopen(path.c_str(), "rb"), &std::fclose) {
        if (!file_) fail("cannot be opened: " + std::string(std::strerror(errno)));
        if (std::fseek(file_.get(), 0, SEEK_END) != 0) fail("cannot be read");
        const long size = std::ftell(file_.get());
        if (size < 0) fail("cannot be read");
        size_ = static_cast<std::uint64_t>(size);
    }

    [[noreturn]] void fail(const std::string &why) const {
        throw std::runtime_error("schedule file " + path_ + " " + why + ".");
    }

    [[nodiscard]] std::uint64_t size() const { return size_; }

    void read(std::uint64_t offset, void *to, std::uint64_t bytes) const {
        if (bytes > size_ || offset > size_ - bytes) fail("is cut short or damaged");
        if (bytes == 0) return;
        if (std::fseek(file_.get(), static_cast<long>(offset), SEEK_SET) != 0 ||
            std::fread(to, 1, bytes, file_.get()) != bytes)
            fail("cannot be read");
    }

  private:
    std::string path_;
    std::unique_ptr<std::FILE, int (*)(std::FILE *)> file_;
    std::uint64_t size_ = 0;
};

/// Whether every number in the rank's part refers to something that is there.
bool is_sound(const RankSchedule &part) {
    const std::size_t operations = part.operations.size();
    std::uint64_t dependencies = 0;
    for (const Operation &op : part.operations) {
        if (op.kind > kWait || op.value < 0) return false;
        const bool message = op.kind <= kRecv;
        if (message && (op.peer >= part.ranks || op.match == kNone)) return false;
        dependencies += op.dependencies;
    }
    if (dependencies != part.dependencies.size()) return false;
    for (const std::uint32_t d : part.dependencies)
        if (d >= operations) return false;
    return true;
}

} // namespace

RankSchedule read_rank(const std::string &path, std::uint32_t rank) {
    const Reader file(path);
    Header header{};
    if (file.size() < sizeof header) file.fail("is not a schedule file");
    file.read(0, &header, sizeof header);
    if (std::memcmp(header.magic, "HXMSCHED", sizeof header.magic) != 0) file.fail("is not a schedule file");
    if (header.version != kVersion)
        file.fail("has version " + std::to_string(header.version) + " but must have " + std::to_string(kVersion));
    if (header.header_bytes != sizeof header || header.file_bytes != file.size() || header.ranks >= kNone ||
        header.ranks > (file.size() - sizeof header) / sizeof(IndexEntry))
        file.fail("is cut short or damaged");
    if (rank >= header.ranks)
        file.fail("has the ranks 0 to " + std::to_string(header.ranks - 1) + " but not rank " + std::to_string(rank));

    IndexEntry entry{};
    file.read(sizeof header + rank * sizeof entry, &entry, sizeof entry);
    if (entry.operations > header.operations || entry.dependencies > header.dependencies ||
        entry.operations > file.size() / sizeof(Operation) || entry.dependencies > file.size() / sizeof(std::uint32_t))
        file.fail("is cut short or damaged");
    RankSchedule part;
    part.ranks = static_cast<std::uint32_t>(header.ranks);
    part.rank = rank;
    part.endpoint = entry.endpoint;
    part.operations.resize(entry.operations);
    part.dependencies.resize(entry.dependencies);
    const std::uint64_t operation_bytes = entry.operations * sizeof(Operation);
    const std::uint64_t dependency_bytes = entry.dependencies * sizeof(std::uint32_t);
    file.read(entry.offset, part.operations.data(), operation_bytes);
    file.read(entry.offset + operation_bytes, part.dependencies.data(), dependency_bytes);
    const std::uint32_t crc =
        crc32(crc32(0, part.operations.data(), operation_bytes), part.dependencies.data(), dependency_bytes);
    if (crc != entry.crc || !is_sound(part)) file.fail("is damaged in the part of rank " + std::to_string(rank));
    return part;
}

} // namespace hxmesh::sst
