// Reads and writes the index of a folder of token shards.
#include "worker/trainer/data/shards/shard_index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kMaxCount = int64_t{1} << 60;

// A count that is there.
absl::StatusOr<int64_t> Count(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned() ||
      found->get<uint64_t>() > kMaxCount) {
    return absl::DataLossError(absl::StrCat(key, ": expected a count"));
  }
  return static_cast<int64_t>(found->get<uint64_t>());
}

absl::Status ReadDigest(const Json& json, const char* key,
                        std::string* digest) {
  const auto found = json.find(key);
  if (found != json.end() && found->is_string()) {
    *digest = found->get<std::string>();
  }
  if (digest->size() == 64 &&
      std::all_of(digest->begin(), digest->end(), [](char c) {
        return absl::ascii_isxdigit(static_cast<unsigned char>(c));
      })) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(key, ": expected a digest"));
}

}  // namespace

std::string ShardFileName(int64_t number) {
  return absl::StrFormat("shard-%06d.tokens", number);
}

OrderedJson ToJson(const ShardEntry& entry, int64_t number) {
  return {{"file", ShardFileName(number)},  {"sha256", entry.sha256},
          {"size_bytes", entry.size_bytes}, {"documents", entry.documents},
          {"tokens", entry.tokens},         {"text_bytes", entry.text_bytes}};
}

absl::StatusOr<ShardEntry> ParseShardEntry(const Json& json, int64_t number) {
  // A name of another file could lead out of the folder.
  if (!json.is_object() ||
      json.value("file", Json()) != ShardFileName(number)) {
    return absl::DataLossError(
        absl::StrCat("shards: expected ", ShardFileName(number)));
  }
  ShardEntry entry;
  RETURN_IF_ERROR(ReadDigest(json, "sha256", &entry.sha256));
  ASSIGN_OR_RETURN(entry.size_bytes, Count(json, "size_bytes"));
  ASSIGN_OR_RETURN(entry.documents, Count(json, "documents"));
  ASSIGN_OR_RETURN(entry.tokens, Count(json, "tokens"));
  ASSIGN_OR_RETURN(entry.text_bytes, Count(json, "text_bytes"));
  return entry;
}

std::string ShardIndexText(const ShardIndex& index) {
  OrderedJson shards = OrderedJson::array();
  for (size_t i = 0; i < index.shards.size(); ++i) {
    shards.push_back(ToJson(index.shards[i], static_cast<int64_t>(i)));
  }
  const OrderedJson json = {{"format", kShardIndexFormat},
                            {"version", kShardIndexVersion},
                            {"made_from", index.made_from},
                            {"sources", index.sources},
                            {"tokenizer_sha256", index.tokenizer_digest},
                            {"vocabulary_size", index.vocabulary_size},
                            {"documents", index.documents},
                            {"tokens", index.tokens},
                            {"text_bytes", index.text_bytes},
                            {"skipped_rows", index.skipped_rows},
                            {"duplicates", index.duplicates},
                            {"shards", shards},
                            {"label_counts", index.label_counts}};
  return JsonText(json) + "\n";
}

absl::StatusOr<ShardIndex> LoadShardIndex(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kShardIndexFile);
  const absl::StatusOr<std::string> json =
      ReadLimited(path, kMaxShardIndexBytes);
  if (absl::IsNotFound(json.status())) {
    return absl::NotFoundError(absl::StrCat(
        PrintablePath(folder),
        ": no token shards, or unfinished ones: there is no index.json; "
        "`comera data prepare` makes them"));
  }
  RETURN_IF_ERROR(json.status());
  return ParseShardIndex(*json, path);
}

}  // namespace comera::trainer
