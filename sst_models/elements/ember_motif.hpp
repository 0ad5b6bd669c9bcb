// A schedule replayed through the MPI model of Ember and Firefly.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "mpi/embermpigen.h"

#include "rank_replay.hpp"

namespace hxmesh::sst {

/// Posts what may start with isend and irecv, computes one computation at a time, and waits with waitany.
class EmberReplay final : public SST::Ember::EmberMessagePassingGenerator {
  public:
    SST_ELI_REGISTER_SUBCOMPONENT(EmberReplay, "hxmesh", "ReplayMotif", SST_ELI_ELEMENT_VERSION(1, 0, 0),
                                  "Replays a schedule file through MPI; rank r of the job plays rank r of the file",
                                  SST::Ember::EmberGenerator)
    SST_ELI_DOCUMENT_PARAMS({"arg.schedule", "Path of the schedule file (required)."},
                            {"arg.records", "Directory of the completion records; must exist.", "."})

    EmberReplay(SST::ComponentId_t id, SST::Params &params);
    /// Ember asks for the next events whenever those of the last time are over; true: there are none.
    bool generate(std::queue<SST::Ember::EmberEvent *> &events) override;

  private:
    using Events = std::queue<SST::Ember::EmberEvent *>;
    enum class Awaited { kNothing, kAny, kAll, kComputation };

    [[noreturn]] void fail(const std::string &sentence) const;
    void begin();
    void collect();
    void complete(std::uint32_t op);
    /// Posts everything that can start; stops at a computation, which keeps the rank busy.
    void post(Events &events);
    void post_message(std::uint32_t op, Events &events);
    void finish();
    [[nodiscard]] TimePs now() const;

    std::string path_, records_;
    RankSchedule schedule_;
    std::unique_ptr<Dependencies> dependencies_; // from the first call of generate on
    RankRecord record_;
    std::deque<std::uint32_t> ready_;
    // Firefly keeps addresses of requests, so their vector never grows.
    std::vector<MessageRequest> requests_;
    std::vector<std::uint32_t> request_op_; // of each of the `posted_` open requests
    std::size_t posted_ = 0;
    std::size_t left_ = 0, left_to_post_ = 0; // operations; sends, receives and computations
    Awaited awaited_ = Awaited::kNothing;
    int any_ = 0;
    std::uint32_t computation_ = kNone;
};

} // namespace hxmesh::sst
