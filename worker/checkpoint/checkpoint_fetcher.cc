// Tries the candidates for a resumed job's checkpoint, newest first and nearest
// first among equals.

#include "worker/checkpoint/checkpoint_fetcher.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/log.h"
#include "common/steady_time.h"
#include "worker/checkpoint/checkpoint_copier.h"
#include "worker/checkpoint/checkpoint_names.h"

namespace comera::worker {
namespace {

// The limit for asking a peer, which may be down.
constexpr absl::Duration kListTimeout = absl::Seconds(2);

struct Candidate {
  CheckpointName name;
  std::string from;
  // Returns the contents; empty if the file is on this disk already.
  std::function<absl::StatusOr<std::string>()> get;
};

}  // namespace

FetchedCheckpoint FetchNewestCheckpoint(const v1::MemberAssignment& assignment,
                                        const std::string& folder,
                                        absl::Duration timeout,
                                        const ReplicaCache& memory,
                                        PeerClient* peers,
                                        ArtifactStore* store) {
  const std::string& job = assignment.job();
  const absl::Time deadline = SteadyNow() + timeout;
  const auto left = [&](absl::Duration most) {
    return std::clamp(deadline - SteadyNow(), absl::Milliseconds(1), most);
  };
  std::vector<Candidate> candidates;
  for (const CheckpointName& name : ListCheckpointFiles(folder)) {
    const std::string path = absl::StrCat(folder, "/", ToFileName(name));
    candidates.push_back(
        {name, "this disk", [path]() -> absl::StatusOr<std::string> {
           absl::StatusOr<std::string> contents = ReadFile(path);
           if (!contents.ok()) return contents.status();
           if (!IsWhole(*contents)) return absl::DataLossError("damaged");
           return std::string();
         }});
  }
  for (const ReplicaCache::Entry& entry : memory.List(job)) {
    const auto contents = memory.Get(job, entry.name.step);
    if (contents == nullptr) continue;
    candidates.push_back(
        {entry.name, "this memory",
         [contents]() -> absl::StatusOr<std::string> { return *contents; }});
  }
  for (const v1::Peer& peer : assignment.sources()) {
    const auto names = peers->List(peer.address(), job, left(kListTimeout));
    if (!names.ok()) {
      LOG(WARNING) << "no checkpoints from worker=" << peer.worker()
                   << " job=" << job << " " << names.status();
      continue;
    }
    for (const CheckpointName& name : *names) {
      candidates.push_back({name, peer.worker(), [&, name, peer] {
                              return peers->Get(peer.address(), job, name.step,
                                                left(timeout));
                            }});
    }
  }
  if (store != nullptr) {
    const auto files = store->List(StoredCheckpointsFolder(job));
    LOG_IF(WARNING, !files.ok()) << "checkpoint store " << files.status();
    for (const std::string& file :
         files.ok() ? *files : std::vector<std::string>()) {
      if (const auto name = ParseCheckpointName(file)) {
        candidates.push_back({*name, "the store", [store, job, file] {
                                return store->Get(absl::StrCat(
                                    StoredCheckpointsFolder(job), "/", file));
                              }});
      }
    }
  }
  // The nearest comes first among equals.
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return a.name.step > b.name.step;
                   });
  for (const Candidate& candidate : candidates) {
    const absl::StatusOr<std::string> contents = candidate.get();
    absl::Status status = contents.status();
    if (status.ok() && !contents->empty()) {
      status = IsWhole(*contents) ? MakeDirectories(folder)
                                  : absl::DataLossError("damaged");
      if (status.ok()) {
        status = WriteFileAtomically(
            absl::StrCat(folder, "/", ToFileName(candidate.name)), *contents);
      }
    }
    if (status.ok()) return {candidate.name.step, candidate.from};
    LOG(WARNING) << "checkpoint passed over job=" << job
                 << " step=" << candidate.name.step << " from=\""
                 << candidate.from << "\" " << status;
  }
  return {};
}

}  // namespace comera::worker
