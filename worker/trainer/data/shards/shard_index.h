#ifndef COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_INDEX_H_
#define COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/json.h"
#include "worker/trainer/data/shards/shard_layout.h"

namespace comera::trainer {

// A finished shard.
struct ShardEntry {
  std::string sha256;  // lower-case hexadecimal
  int64_t size_bytes = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t text_bytes = 0;
};

// Member of the JSON of an index.
nlohmann::ordered_json ToJson(const ShardEntry& entry, int64_t number);
// The entry of that number. DataLoss: malformed.
absl::StatusOr<ShardEntry> ParseShardEntry(const nlohmann::json& json,
                                           int64_t number);

// What a folder of token shards holds: index.json. A folder without it is
// unfinished.
struct ShardIndex {
  // Digests of what the shards were made from: all settings, and the contents
  // of the sources as far as their times of change tell.
  std::string made_from;
  std::string sources;
  std::string tokenizer_digest;
  int64_t vocabulary_size = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t text_bytes = 0;
  // Rows and documents of the sources that are not among the documents.
  int64_t skipped_rows = 0;
  int64_t duplicates = 0;
  // How often each token is a label. (vocabulary)
  std::vector<int64_t> label_counts;
  std::vector<ShardEntry> shards;
};

inline constexpr char kShardIndexFile[] = "index.json";
inline constexpr char kShardIndexFormat[] = "comera-token-shards";
inline constexpr int64_t kShardIndexVersion = 1;
inline constexpr char kShardTokenizerFolder[] = "tokenizer";

// Shards of a folder at most: 2^42 tokens in those that are written.
inline constexpr size_t kMaxShards = size_t{1} << 16;
// Bytes of an index at most: what the most shards, the largest vocabulary and
// the members beside them take, with counts of nine digits for each token.
inline constexpr int64_t kMaxShardIndexBytes =
    static_cast<int64_t>(kMaxShards) * 256 + ShardLayout::kMaxVocabulary * 10 +
    4096;

// Name of the file of shard `number`, from 0.
std::string ShardFileName(int64_t number);

// The contents of index.json.
std::string ShardIndexText(const ShardIndex& index);
// Takes memory in proportion to what an index may hold, whatever the text is.
// DataLoss, naming `name`: malformed, of another version, a member twice, or
// counts that contradict each other.
absl::StatusOr<ShardIndex> ParseShardIndex(absl::string_view json,
                                           const std::string& name);
// Reads the file of a folder. NotFound: there is none, so the folder is no
// token shards or unfinished. InvalidArgument: longer than kMaxShardIndexBytes.
absl::StatusOr<ShardIndex> LoadShardIndex(const std::string& folder);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_INDEX_H_
