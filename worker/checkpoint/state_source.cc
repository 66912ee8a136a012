// Reads training states from memory, from other workers and from the store.

#include "worker/checkpoint/state_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/checkpoint/stored_checkpoints.h"

namespace comera::worker {
namespace {

constexpr size_t kPartBytes = size_t{1} << 20;

bool IsAbandoned(const TransferLimits& limits) {
  return limits.abandoned != nullptr && *limits.abandoned;
}

class OwnMemory : public StateSource {
 public:
  OwnMemory(const ReplicaCache* memory, std::string job, const StateKey& key)
      : memory_(memory), job_(std::move(job)), key_(key) {}

  std::string name() const override { return "this memory"; }

  absl::Status Read(int64_t offset, const TransferLimits& limits,
                    const OnPart& part) override {
    const ReplicaCache::Contents copy = memory_->Get(job_, key_);
    if (copy == nullptr) return absl::NotFoundError("not there");
    const auto size = static_cast<int64_t>(copy->size());
    if (offset > size) return absl::OutOfRangeError("it is shorter");
    std::string_view rest = std::string_view(*copy).substr(offset);
    while (!rest.empty()) {
      if (IsAbandoned(limits)) return absl::AbortedError("abandoned");
      RETURN_IF_ERROR(part(size, rest.substr(0, kPartBytes)));
      rest.remove_prefix(std::min(rest.size(), kPartBytes));
    }
    return absl::OkStatus();
  }

 private:
  const ReplicaCache* const memory_;
  const std::string job_;
  const StateKey key_;
};

class OtherWorker : public StateSource {
 public:
  OtherWorker(PeerClient* peers, const v1::Peer& peer, std::string job,
              const StateKey& key)
      : peers_(peers), peer_(peer), job_(std::move(job)), key_(key) {}

  std::string name() const override {
    return absl::StrCat("worker ", peer_.worker());
  }

  absl::Status Read(int64_t offset, const TransferLimits& limits,
                    const OnPart& part) override {
    return peers_->Get(peer_.address(), job_, key_, offset, limits, part);
  }

 private:
  PeerClient* const peers_;
  const v1::Peer peer_;
  const std::string job_;
  const StateKey key_;
};

class Stored : public StateSource {
 public:
  Stored(ArtifactStore* store, std::string job, const StateKey& key)
      : store_(store), job_(std::move(job)), key_(key) {}

  std::string name() const override { return "the store"; }

  absl::Status Read(int64_t offset, const TransferLimits& limits,
                    const OnPart& part) override {
    static const std::atomic<bool> never{false};
    const std::atomic<bool>& abandoned =
        limits.abandoned == nullptr ? never : *limits.abandoned;
    absl::StatusOr<std::vector<CheckpointName>> listed =
        ListStored(store_, job_, abandoned);
    if (absl::IsAborted(listed.status())) return listed.status();
    // A store that does not tell what it has may have it.
    if (!listed.ok()) {
      return absl::UnavailableError(listed.status().message());
    }
    const std::vector<CheckpointName> names = NamesOf(key_, *std::move(listed));
    if (names.empty()) return absl::NotFoundError("not there");
    return store_->Read(StoredCheckpointPath(job_, names.front()), offset,
                        abandoned, part);
  }

 private:
  ArtifactStore* const store_;
  const std::string job_;
  const StateKey key_;
};

}  // namespace

std::unique_ptr<StateSource> MemorySource(const ReplicaCache* memory,
                                          std::string job,
                                          const StateKey& key) {
  return std::make_unique<OwnMemory>(memory, std::move(job), key);
}

std::unique_ptr<StateSource> PeerSource(PeerClient* peers, const v1::Peer& peer,
                                        std::string job, const StateKey& key) {
  return std::make_unique<OtherWorker>(peers, peer, std::move(job), key);
}

std::unique_ptr<StateSource> StoreSource(ArtifactStore* store, std::string job,
                                         const StateKey& key) {
  return std::make_unique<Stored>(store, std::move(job), key);
}

}  // namespace comera::worker
