// Looks for the state that a member starts from, the nearest place first.

#include "worker/checkpoint/checkpoint_fetcher.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "worker/checkpoint/checkpoint_file.h"
#include "worker/checkpoint/checkpoint_names.h"
#include "worker/checkpoint/stored_checkpoints.h"

namespace comera::worker {
namespace {

// The limit for asking a peer, which may be down, what it has.
constexpr absl::Duration kListTimeout = absl::Seconds(2);
constexpr char kDamaged[] = "damaged";

std::string Describe(const StateKey& key) {
  std::string text =
      absl::StrCat("the training state to start from, of step ", key.step);
  if (key.attempt > 0) {
    absl::StrAppend(&text, " saved by attempt ", key.attempt);
  }
  return text;
}

// A state that was found, and where; without a source it is on this disk.
struct Candidate {
  CheckpointName name;
  std::unique_ptr<StateSource> source;
};

}  // namespace

PathBelow CheckpointFetcher::PathOf(const CheckpointName& name) const {
  return folder_.Child(ToFileName(name));
}

absl::Status CheckpointFetcher::CheckOnDisk(
    const CheckpointName& name, const std::atomic<bool>& abandoned) const {
  ASSIGN_OR_RETURN(const CheckpointFile file,
                   CheckpointFile::Open(PathOf(name)));
  int64_t read = 0;
  return file.Verify(nullptr, [&](std::string_view data) {
    read += static_cast<int64_t>(data.size());
    if (on_progress_) on_progress_(read, file.size(), "this disk");
    return abandoned ? absl::AbortedError("abandoned") : absl::OkStatus();
  });
}

absl::StatusOr<FetchedCheckpoint> CheckpointFetcher::FetchStart(
    const v1::MemberAssignment& assignment,
    const std::atomic<bool>& abandoned) const {
  const StateKey key = {assignment.start().attempt(),
                        assignment.start().step()};
  const std::string& job = assignment.job();
  std::string on_disk = "not there";
  for (const CheckpointName& name :
       NamesOf(key, ListCheckpointFiles(folder_))) {
    const absl::Status status = CheckOnDisk(name, abandoned);
    if (status.ok()) return FetchedCheckpoint{key.step, "this disk"};
    if (absl::IsAborted(status)) return status;
    on_disk = absl::IsDataLoss(status) ? kDamaged : "unreadable";
    LOG(WARNING) << "checkpoint passed over job=" << job << " file=\""
                 << PathOf(name).ToString() << "\" " << status;
  }
  std::vector<std::unique_ptr<StateSource>> sources;
  sources.push_back(MemorySource(memory_, job, key));
  for (const v1::Peer& peer : assignment.sources()) {
    sources.push_back(PeerSource(peers_, peer, job, key));
  }
  if (store_ != nullptr) sources.push_back(StoreSource(store_, job, key));
  CheckpointName name;
  name.step = key.step;
  name.attempt = key.attempt;
  absl::StatusOr<std::string> from =
      FetchState(options_, sources, PathOf(name), on_progress_, abandoned);
  const std::string why =
      absl::StrCat(Describe(key), ", cannot be had: this disk: ", on_disk, "; ",
                   from.status().message());
  if (absl::IsDataLoss(from.status()) ||
      (absl::IsNotFound(from.status()) && on_disk == kDamaged)) {
    return absl::DataLossError(why);
  }
  if (absl::IsNotFound(from.status()) ||
      absl::IsDeadlineExceeded(from.status())) {
    return absl::NotFoundError(why);
  }
  RETURN_IF_ERROR(from.status());
  return FetchedCheckpoint{key.step, *std::move(from)};
}

absl::StatusOr<FetchedCheckpoint> CheckpointFetcher::FetchNewest(
    const v1::MemberAssignment& assignment,
    const std::atomic<bool>& abandoned) const {
  const std::string& job = assignment.job();
  std::vector<Candidate> candidates;
  for (const CheckpointName& name : ListCheckpointFiles(folder_)) {
    candidates.push_back({name, nullptr});
  }
  for (const ReplicaCache::Entry& entry : memory_->List(job)) {
    candidates.push_back(
        {entry.name, MemorySource(memory_, job, entry.name.key())});
  }
  for (const v1::Peer& peer : assignment.sources()) {
    const auto names = peers_->List(peer.address(), job, kListTimeout);
    LOG_IF(WARNING, !names.ok())
        << "no checkpoints from worker=" << peer.worker() << " job=" << job
        << " " << names.status();
    if (!names.ok()) continue;
    for (const CheckpointName& name : *names) {
      candidates.push_back({name, PeerSource(peers_, peer, job, name.key())});
    }
  }
  if (store_ != nullptr) {
    const auto names = ListStored(store_, job, abandoned);
    LOG_IF(WARNING, !names.ok()) << "checkpoint store " << names.status();
    for (const CheckpointName& name :
         names.ok() ? *names : std::vector<CheckpointName>()) {
      candidates.push_back({name, StoreSource(store_, job, name.key())});
    }
  }
  // The nearest comes first among equals.
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return b.name.key() < a.name.key();
                   });
  // Another state is better than none, so that nothing is waited for.
  StateFetchOptions options = options_;
  options.start_wait = absl::ZeroDuration();
  for (Candidate& candidate : candidates) {
    absl::StatusOr<std::string> from = "this disk";
    if (candidate.source == nullptr) {
      const absl::Status status = CheckOnDisk(candidate.name, abandoned);
      if (!status.ok()) from = status;
    } else {
      std::vector<std::unique_ptr<StateSource>> sources;
      sources.push_back(std::move(candidate.source));
      from = FetchState(options, sources, PathOf(candidate.name), on_progress_,
                        abandoned);
    }
    if (from.ok()) {
      return FetchedCheckpoint{candidate.name.step, *std::move(from)};
    }
    if (absl::IsAborted(from.status()) ||
        absl::IsResourceExhausted(from.status())) {
      return from.status();
    }
    LOG(WARNING) << "checkpoint passed over job=" << job
                 << " attempt=" << candidate.name.attempt
                 << " step=" << candidate.name.step << " " << from.status();
  }
  return FetchedCheckpoint();
}

}  // namespace comera::worker
