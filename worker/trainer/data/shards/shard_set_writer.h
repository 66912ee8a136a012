#ifndef COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_SET_WRITER_H_
#define COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_SET_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/trainer/data/shards/shard_index.h"
#include "worker/trainer/data/shards/shard_writer.h"

namespace comera::trainer {

// Writes documents as the shards of a folder, one file after another. Where a
// file ends is a function of the documents alone, so that shards which are
// there already can be kept.
//
// Life cycle: Add for each document; whenever shard_is_full, and at the end if
// !shard_is_empty, FinishShard; then Finish. Not thread safe. Errors of
// ErrnoStatus.
class ShardSetWriter {
 public:
  // A file is full with so many tokens; its last document may go beyond them.
  static constexpr int64_t kShardTokens = int64_t{1} << 26;

  // `index` has made_from, sources, tokenizer_digest and vocabulary_size.
  ShardSetWriter(std::string folder, ShardIndex index,
                 int64_t shard_tokens = kShardTokens);

  // Goes on behind a shard that is there. Errors of ShardFile::Open and Verify:
  // it is not.
  absl::Status Keep(const ShardEntry& entry);

  // Statuses of ShardWriter::Add.
  absl::Status Add(absl::Span<const int32_t> tokens, int64_t text_bytes);
  bool shard_is_empty() const { return shard_ == nullptr; }
  bool shard_is_full() const {
    return shard_ != nullptr && shard_->tokens() >= shard_tokens_;
  }
  // ResourceExhausted: the folder has kMaxShards.
  absl::Status FinishShard();

  // Documents and tokens so far, those of an unfinished shard too.
  int64_t documents() const;
  int64_t tokens() const;
  // With the finished shards.
  const ShardIndex& index() const { return index_; }

  // Writes index.json, with which the folder is complete. ResourceExhausted: it
  // would be longer than readers take.
  absl::Status Finish(int64_t skipped_rows, int64_t duplicates);

 private:
  std::string PathOf(int64_t shard) const;
  void Count(const ShardEntry& entry);

  const std::string folder_;
  const int64_t shard_tokens_;
  ShardIndex index_;
  std::unique_ptr<ShardWriter> shard_;  // null: no document since the last one
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_SET_WRITER_H_
