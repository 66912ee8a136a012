#ifndef COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_WRITER_H_
#define COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/sha256.h"
#include "worker/trainer/data/shards/shard_index.h"
#include "worker/trainer/data/shards/shard_layout.h"

namespace comera::trainer {

// Writes the documents of one shard to a temporary file beside `path`, which
// becomes `path` as a whole. In memory are 16 bytes per document, and 8 per
// token of the vocabulary.
//
// Life cycle: Add as often as there are documents, then Finish; without it the
// temporary file is removed. Not thread safe. Errors of ErrnoStatus.
class ShardWriter {
 public:
  // `vocabulary_size`: in [1, ShardLayout::kMaxVocabulary].
  static absl::StatusOr<std::unique_ptr<ShardWriter>> Create(
      const std::string& path, int64_t vocabulary_size);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // `tokens`: at least one, each in [0, vocabulary size). `text_bytes`: the
  // length of the document's text.
  absl::Status Add(absl::Span<const int32_t> tokens, int64_t text_bytes);

  int64_t documents() const { return layout_.documents; }
  int64_t tokens() const { return layout_.tokens; }
  // How often each token is a label so far. (vocabulary)
  const std::vector<int64_t>& label_counts() const { return label_counts_; }

  // Makes the file durable and gives it its name. May be called once.
  absl::StatusOr<ShardEntry> Finish();

 private:
  ShardWriter(std::string path, std::string temporary, int fd,
              int64_t vocabulary_size);
  // Writes what is buffered once it is much, or `all` of it.
  absl::Status Flush(bool all);
  absl::Status FlushNumbers(const std::vector<int64_t>& numbers);

  const std::string path_;
  const std::string temporary_;
  int fd_;
  ShardLayout layout_;
  Sha256Stream sha256_;
  std::string buffer_;
  std::vector<int64_t> token_ends_;
  std::vector<int64_t> text_ends_;
  std::vector<int64_t> label_counts_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_WRITER_H_
