#ifndef COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_SET_H_
#define COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_SET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/data/batch/documents.h"
#include "worker/trainer/data/shards/shard_file.h"
#include "worker/trainer/data/shards/shard_index.h"
#include "worker/trainer/data/source/cache_file.h"

namespace comera::trainer {

// The token shards of a folder.
//
// Thread safety: const methods may be called from several threads.
class ShardSet {
 public:
  // Opens a folder and checks every file against the index; contents that were
  // checked before, as `cache` remembers, are not read again. NotFound: no
  // token shards, unfinished, or a file is missing; DataLoss, naming the file:
  // damaged. `activity` may be empty.
  static absl::StatusOr<std::shared_ptr<const ShardSet>> Open(
      const std::string& folder, FileCache* cache,
      const std::function<void(const std::string&)>& activity);

  const std::string& folder() const { return folder_; }
  const ShardIndex& index() const { return index_; }
  // The folder with the tokenizer's files.
  std::string tokenizer_folder() const;

  // The shards' files, and the numbers of their first documents and tokens,
  // with those behind the last shard at the end.
  const std::vector<std::unique_ptr<ShardFile>>& files() const {
    return files_;
  }
  const std::vector<int64_t>& first_documents() const {
    return first_documents_;
  }
  const std::vector<int64_t>& first_tokens() const { return first_tokens_; }

 private:
  ShardSet() = default;
  absl::Status Verify(FileCache* cache,
                      const std::function<void(const std::string&)>& activity);
  // Checks that the index tells what the shards' label counts add up to.
  absl::Status VerifyLabelCounts() const;

  std::string folder_;
  ShardIndex index_;
  std::vector<std::unique_ptr<ShardFile>> files_;
  std::vector<int64_t> first_documents_;
  std::vector<int64_t> first_tokens_;
};

// All documents of a set.
std::shared_ptr<const Documents> WholeShards(
    std::shared_ptr<const ShardSet> set);

struct SplitDocuments {
  std::shared_ptr<const Documents> first;
  std::shared_ptr<const Documents> last;
};

// The documents of a set without the last `held_out`, and these; both are at
// least one. Statuses of ShardFile.
absl::StatusOr<SplitDocuments> SplitShards(std::shared_ptr<const ShardSet> set,
                                           int64_t held_out);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_SET_H_
