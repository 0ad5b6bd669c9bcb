// Fuzz target for the reader of schedule files (sst_models/elements/schedule_file.cc): whatever is in a file, it is
// read, or refused with one sentence. With Clang's libFuzzer (-fsanitize=fuzzer -DHXMESH_LIBFUZZER) or on its own:
//
//   c++ -std=c++20 -g -fsanitize=address,undefined -fno-sanitize-recover=all -I sst_models/elements
//       tests/fuzz/schedule_file_fuzz.cc sst_models/elements/schedule_file.cc -o fuzz
//   ./fuzz FILE RUNS SECONDS SEED   # changes FILE at random, RUNS times or until SECONDS are over
//
// The input is in the file `fuzz-input` of the working directory: one that fails is still there afterwards.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "schedule_file.hpp"

namespace {

[[noreturn]] void refused_badly(const char *message) {
    std::fprintf(stderr, "not one sentence about the file: %s\n", message);
    std::abort();
}

volatile std::uint64_t total; // so that nothing is optimised away

/// Reads each number of a part, as the elements would.
std::uint64_t use(const hxmesh::sst::RankSchedule &part) {
    std::uint64_t sum = part.endpoint;
    std::size_t at = 0;
    for (const auto &op : part.operations) {
        sum += static_cast<std::uint64_t>(op.value) + op.peer + op.match + op.kind;
        for (std::uint32_t i = 0; i < op.dependencies; ++i)
            sum += part.operations.at(part.dependencies.at(at++)).kind;
    }
    return sum;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static const std::string kPath = "fuzz-input";
    // Open all the time: some file systems write a file out when it is emptied or closed.
    static const int kFile = open(kPath.c_str(), O_CREAT | O_WRONLY, 0644);
    if (ftruncate(kFile, static_cast<off_t>(size)) != 0 || pwrite(kFile, data, size, 0) != static_cast<ssize_t>(size)) {
        std::perror(kPath.c_str());
        std::exit(2);
    }
    for (const std::uint32_t rank : {0u, 1u, 3u, 0xfffffffeu}) {
        try {
            total = use(hxmesh::sst::read_rank(kPath, rank));
        } catch (const std::runtime_error &error) {
            const std::string_view said = error.what();
            if (!said.starts_with("schedule file ") || !said.ends_with(".") || said.find('\n') != said.npos)
                refused_badly(error.what());
        } catch (const std::exception &error) {
            refused_badly(error.what());
        }
    }
    return 0;
}

#ifndef HXMESH_LIBFUZZER

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kHeader = 64, kEntry = 32; // sst_models/elements/README.md

std::uint64_t load(const Bytes &bytes, std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    if (at + size <= bytes.size()) std::memcpy(&value, &bytes[at], size);
    return value;
}

void store(Bytes &bytes, std::size_t at, std::uint64_t value, std::size_t size) {
    if (at + size <= bytes.size()) std::memcpy(&bytes[at], &value, size);
}

std::uint32_t crc32(const std::uint8_t *bytes, std::size_t size) {
    std::uint32_t crc = 0xffffffffu;
    for (std::size_t i = 0; i < size; ++i) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; ++bit)
            crc = crc & 1u ? 0xedb88320u ^ (crc >> 1) : crc >> 1;
    }
    return ~crc;
}

/// Makes length and check sums right again, and totals such that they rule nothing out: what is behind is reached.
void repair(Bytes &bytes) {
    store(bytes, 24, ~0ull, 8);
    store(bytes, 32, ~0ull, 8);
    store(bytes, 40, bytes.size(), 8);
    const std::uint64_t ranks = std::min<std::uint64_t>(load(bytes, 16, 8), 8);
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
        const std::size_t entry = kHeader + rank * kEntry;
        const std::uint64_t offset = load(bytes, entry, 8);
        const std::uint64_t size = 32 * load(bytes, entry + 8, 8) + 4 * load(bytes, entry + 16, 8);
        if (offset <= bytes.size() && size <= bytes.size() - offset)
            store(bytes, entry + 28, crc32(bytes.data() + offset, size), 4);
    }
}

Bytes changed(const Bytes &original, std::mt19937_64 &random) {
    const auto below = [&](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random() % n); };
    // What is next to a limit, or becomes small when it is multiplied.
    const std::uint64_t kInteresting[] = {0,          1,          2,          3,          4,
                                          0x7f,       0x80,       0xff,       0x7fff,     0xffff,
                                          0x7fffffff, 1ull << 31, 1ull << 32, 1ull << 58, 1ull << 59,
                                          1ull << 61, 1ull << 62, 1ull << 63, ~0ull,      ~0ull - 31};
    Bytes bytes = original;
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
        // Half of them where the counts and offsets are.
        const std::size_t end = below(2) == 0 ? bytes.size() : std::min(bytes.size(), kHeader + 4 * kEntry);
        const std::size_t at = below(end);
        switch (below(6)) {
        case 0:
            if (at < bytes.size()) bytes[at] ^= static_cast<std::uint8_t>(1u << below(8));
            break;
        case 1:
            if (at < bytes.size()) bytes[at] = static_cast<std::uint8_t>(random());
            break;
        case 2:
            store(bytes, at & ~std::size_t{7}, kInteresting[below(std::size(kInteresting))], 8);
            break;
        case 3:
            store(bytes, at & ~std::size_t{3}, kInteresting[below(std::size(kInteresting))], 4);
            break;
        case 4:
            store(bytes, at & ~std::size_t{7}, load(bytes, at & ~std::size_t{7}, 8) + below(65) - 32, 8);
            break;
        default:
            if (below(2) == 0)
                bytes.resize(at);
            else
                bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), original.begin(),
                             original.begin() + static_cast<std::ptrdiff_t>(below(original.size())));
        }
    }
    if (below(4) != 0) repair(bytes);
    return bytes;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 5) {
        std::fprintf(stderr, "usage: %s FILE RUNS SECONDS SEED\n", argv[0]);
        return 2;
    }
    std::ifstream input(argv[1], std::ios::binary);
    const Bytes original{std::istreambuf_iterator<char>(input), std::istreambuf_iterator<char>()};
    const std::uint64_t runs = std::strtoull(argv[2], nullptr, 10);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(std::strtol(argv[3], nullptr, 10));
    std::mt19937_64 random(std::strtoull(argv[4], nullptr, 10));
    std::uint64_t run = 0;
    LLVMFuzzerTestOneInput(original.data(), original.size());
    for (; run < runs && std::chrono::steady_clock::now() < until; ++run) {
        const Bytes bytes = changed(original, random);
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
    std::remove("fuzz-input");
    std::printf("%llu inputs\n", static_cast<unsigned long long>(run));
    return 0;
}

#endif
