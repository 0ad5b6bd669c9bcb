#include "records.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

#include <sys/stat.h>
#include <unistd.h>

namespace hxmesh::sst {

namespace {

struct Book {
    std::size_t awaited = 0;
    std::vector<RankRecord> records;
};

std::mutex &books_mutex() {
    static std::mutex mutex;
    return mutex;
}

/// By directory: an SST process may hold ranks of several jobs.
std::map<std::string, Book> &books() {
    static std::map<std::string, Book> all;
    return all;
}

std::string line(const RankRecord &r) {
    return std::to_string(r.rank) + "," + std::to_string(r.bytes_sent) + "," + std::to_string(r.bytes_received) + "," +
           std::to_string(r.start_ps) + "," + std::to_string(r.end_ps) + "," + r.waiting_for + "\n";
}

} // namespace

void check_directory(const std::string &directory) {
    struct stat status{};
    if (stat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || access(directory.c_str(), W_OK) != 0)
        throw std::runtime_error("records is " + directory + " but must be a directory that can be written to.");
}

void write_records(const std::string &directory, const std::string &name, std::vector<RankRecord> records) {
    std::sort(records.begin(), records.end(),
              [](const RankRecord &one, const RankRecord &other) { return one.rank < other.rank; });
    std::string text = "rank,bytes_sent,bytes_received,start_ps,end_ps,waiting_for\n";
    for (const RankRecord &r : records)
        text += line(r);
    const std::string path = directory + "/" + name;
    const std::string partial = directory + "/." + name + ".partial";
    std::FILE *file = std::fopen(partial.c_str(), "wb");
    bool good = file != nullptr;
    if (good) {
        good = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0 &&
               fsync(fileno(file)) == 0;
        int error = errno;
        if (std::fclose(file) != 0 && good) {
            good = false;
            error = errno;
        }
        errno = error;
    }
    if (good && std::rename(partial.c_str(), path.c_str()) == 0) return;
    const std::string why = std::strerror(errno);
    std::remove(partial.c_str());
    throw std::runtime_error("completion records " + path + " cannot be written: " + why + ".");
}

void RecordBook::announce(const std::string &directory) {
    const std::lock_guard lock(books_mutex());
    ++books()[directory].awaited;
}

void RecordBook::report(const std::string &directory, const std::string &name, RankRecord record) {
    std::vector<RankRecord> records;
    {
        const std::lock_guard lock(books_mutex());
        Book &book = books()[directory];
        book.records.push_back(std::move(record));
        if (book.records.size() < book.awaited) return;
        records.swap(book.records);
        book.awaited = 0;
    }
    write_records(directory, name, std::move(records));
}

} // namespace hxmesh::sst
