// Completion records of ranks, as files that are complete or not there.
#pragma once

#include <string>
#include <vector>

#include "rank_replay.hpp"

namespace hxmesh::sst {

/// Throws std::runtime_error with one sentence unless `directory` exists and can be written to.
void check_directory(const std::string &directory);

/// Writes `records` to `directory`/`name` by way of another name. Throws std::runtime_error with one sentence.
void write_records(const std::string &directory, const std::string &name, std::vector<RankRecord> records);

/// Collects the records of all ranks of this process, whatever thread they run in, and writes them with the last.
class RecordBook {
  public:
    /// One more rank of this process will report to the book of `directory`.
    static void announce(const std::string &directory);
    /// The record of one announced rank. Throws std::runtime_error with one sentence if the file cannot be written.
    static void report(const std::string &directory, const std::string &name, RankRecord record);
};

} // namespace hxmesh::sst
