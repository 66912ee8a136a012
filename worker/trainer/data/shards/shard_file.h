#ifndef COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_FILE_H_
#define COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/shards/shard_index.h"
#include "worker/trainer/data/shards/shard_layout.h"

namespace comera::trainer {

// One file of token shards, read where it is asked for: 8 bytes per 256
// documents are in memory. Reading by pread rather than through a mapping keeps
// it so: pages of a mapping count as the process's memory until they are given
// back, which costs more than it saves (tests/bench/text_corpus.sh), and a file
// that shrinks meanwhile would end the process.
//
// Thread safety: const methods may be called from several threads. Errors name
// the file: DataLoss for contents that are not what Open saw, or damaged.
class ShardFile {
 public:
  // Opens `path`, which the index describes as `entry`, and reads where its
  // documents end. `keep_open`: the descriptor is kept, otherwise each read
  // opens the file. NotFound; DataLoss: truncated, or counts that contradict
  // the file's size, the index, or each other.
  static absl::StatusOr<std::unique_ptr<ShardFile>> Open(
      const std::string& path, const ShardEntry& entry, int64_t vocabulary_size,
      bool keep_open);
  ~ShardFile();
  ShardFile(const ShardFile&) = delete;
  ShardFile& operator=(const ShardFile&) = delete;

  const ShardLayout& layout() const { return layout_; }

  // Writes tokens [first, first + count), each in the vocabulary.
  absl::Status ReadTokens(int64_t first, int64_t count, int32_t* ids) const;
  // Appends offset + end for each document that has one of the tokens
  // [first, first + count), of which there is at least one.
  absl::Status AppendEnds(int64_t first, int64_t count, int64_t offset,
                          std::vector<int64_t>* ends) const;
  // Tokens and bytes of text in the first `documents` documents.
  absl::StatusOr<int64_t> TokensBefore(int64_t documents) const;
  absl::StatusOr<int64_t> TextBytesBefore(int64_t documents) const;

  // Adds how often each token is a label, as the file says. (vocabulary)
  absl::Status AddLabelCounts(std::vector<int64_t>* counts) const;
  // The same for the documents from `first_document` on, found by reading them.
  absl::Status AddLabelCountsFrom(int64_t first_document,
                                  std::vector<int64_t>* counts) const;

  // Reads the whole file and checks its SHA-256, each token, that both kinds of
  // ends rise, and that the label counts are those of the tokens. `on_bytes` is
  // called after so many more bytes.
  absl::Status Verify(const std::string& sha256,
                      const std::function<void(int64_t)>& on_bytes) const;

 private:
  ShardFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status Error(absl::string_view what) const;
  // Reads `size` bytes at `offset`, all of them.
  absl::Status ReadAt(int64_t offset, int64_t size, char* bytes) const;
  absl::StatusOr<std::vector<int64_t>> ReadNumbers(int64_t offset,
                                                   int64_t count) const;
  absl::Status ReadLayout(const ShardEntry& entry, int64_t vocabulary_size);
  absl::Status SampleEnds();

  const std::string path_;
  int fd_;  // -1: not kept open
  ShardLayout layout_;
  // Ends of documents kBlock - 1, 2 kBlock - 1, ..., and of the last one.
  std::vector<int64_t> samples_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_FILE_H_
