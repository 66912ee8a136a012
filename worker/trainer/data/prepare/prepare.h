#ifndef COMERA_WORKER_TRAINER_DATA_PREPARE_PREPARE_H_
#define COMERA_WORKER_TRAINER_DATA_PREPARE_PREPARE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/prepare/document_stream.h"
#include "worker/trainer/data/shards/shard_set_writer.h"

namespace comera::trainer {

struct PrepareProgress {
  std::string what;  // e.g. "tokenising"
  // Bytes of the sources, packed as they are; a total of 0 is unknown.
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t skipped_rows = 0;
  int64_t duplicates = 0;
};

// What is about to be made durable.
enum class PrepareStage {
  kClear,
  kTokenizer,
  kShard,
  kState,
  kIndex,
  kCleanUp
};

struct PrepareOptions {
  // Files, patterns of them, or "-" alone for standard input.
  std::vector<std::string> sources;
  DocumentStream::Options reading;
  // The folder of the shards.
  std::string to;
  // A folder or file with a tokenizer; "": one is trained as `train` says,
  // which is BYTE_BPE with train_vocabulary_size, or CHARACTERS.
  std::string tokenizer;
  v1::TokenizerSpec train;
  // Leave out documents whose text was there before.
  bool deduplicate = false;
  // Replace what the folder holds, if it was made from something else.
  bool force = false;
  // Threads that tokenise; one more reads.
  int threads = 1;

  // Text that a vocabulary is trained on, about.
  int64_t max_training_bytes = int64_t{256} << 20;
  int64_t shard_tokens = ShardSetWriter::kShardTokens;
  // Called now and then, from the calling thread; may be empty.
  std::function<void(const PrepareProgress&)> on_progress;
  // Asked now and then whether to go on, and before each durable change
  // (`stage`); an error ends the preparation there and then. May be empty.
  std::function<absl::Status()> keep_going;
  std::function<absl::Status(PrepareStage)> before;
};

struct PrepareResult {
  // What the folder holds.
  ShardIndex index;
  // The folder was complete before.
  bool already_there = false;
  // Shards that an earlier, interrupted preparation had finished.
  int64_t kept_shards = 0;
  // E.g. "2 malformed rows skipped, the first: FILE:7: not UTF-8"; "" without
  // any, or if the folder was complete.
  std::string skipped;
};

// Tokenises text into a folder of token shards. The result is a function of the
// sources and the settings, not of the number of threads or of interruptions:
// an interrupted preparation that is started again keeps the shards that were
// finished, as long as their sources have not changed. (Standard input begins
// anew.) Once a preparation with `force` has begun to replace a folder, it goes
// on without, but that of standard input only when the old index is gone; a
// tokenizer that lies in the folder is never lost on the way. One process at a
// time may work on a folder.
//
// InvalidArgument: the options; NotFound, DataLoss: the sources or the
// tokenizer; AlreadyExists: the folder holds something else;
// FailedPrecondition: another process works on it, or a source changed
// meanwhile; errors of ErrnoStatus.
absl::StatusOr<PrepareResult> PrepareShards(const PrepareOptions& options);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_PREPARE_PREPARE_H_
