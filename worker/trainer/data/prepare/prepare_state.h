#ifndef COMERA_WORKER_TRAINER_DATA_PREPARE_PREPARE_STATE_H_
#define COMERA_WORKER_TRAINER_DATA_PREPARE_PREPARE_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/data/prepare/document_stream.h"
#include "worker/trainer/data/shards/shard_index.h"

namespace comera::trainer {

// How far a preparation has come: progress.json in the folder of the shards,
// until index.json takes its place.
struct PrepareState {
  struct Shard {
    ShardEntry entry;
    // Behind its last document.
    StreamPosition position;
  };

  // Digest of the settings and the sources' names.
  std::string made_from;
  std::string tokenizer_digest;
  // Digest of the sources' stamps that the tokenizer was trained on; "" for one
  // that was there.
  std::string trained_on;
  // Stamp of each source; "" for standard input.
  std::vector<std::string> stamps;
  std::vector<Shard> shards;
  // What the folder held before is being removed, and this preparation takes
  // its place; tokenizer_digest is that of the tokenizer that was given, "" if
  // one is trained.
  bool clearing = false;
};

inline constexpr char kPrepareStateFile[] = "progress.json";

// Statuses of WriteFileAtomically.
absl::Status SavePrepareState(const PrepareState& state,
                              const std::string& folder);
// NotFound: there is none. DataLoss: malformed.
absl::StatusOr<PrepareState> LoadPrepareState(const std::string& folder);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_PREPARE_PREPARE_STATE_H_
