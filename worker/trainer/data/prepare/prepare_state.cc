// Reads and writes how far a preparation has come.
#include "worker/trainer/data/prepare/prepare_state.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr char kFormat[] = "comera-token-shards-progress";
constexpr int kVersion = 1;
constexpr int64_t kMaxFileBytes = 512 << 20;

// The counts of a position and their names.
template <typename Position, typename Visit>
void ForEachCount(Position& position, const Visit& visit) {
  visit("source", position.file);
  visit("documents_of_source", position.in_file);
  visit("skipped_before_source", position.skipped_before_file);
  visit("documents_read", position.documents);
  visit("duplicates", position.duplicates);
}

bool Text(const Json& json, const char* key, std::string* text) {
  const Json value = json.value(key, Json());
  if (!value.is_string()) return false;
  *text = value.get<std::string>();
  return true;
}

absl::StatusOr<PrepareState> Parse(const Json& json) {
  const absl::Status malformed = absl::DataLossError("malformed");
  if (!json.is_object() || json.value("format", Json()) != kFormat ||
      json.value("version", Json()) != kVersion) {
    return absl::DataLossError("not of this version");
  }
  PrepareState state;
  const Json clearing = json.value("clearing", Json(false));
  if (!clearing.is_boolean()) return malformed;
  state.clearing = clearing.get<bool>();
  if (!Text(json, "made_from", &state.made_from) ||
      !Text(json, "tokenizer_sha256", &state.tokenizer_digest) ||
      !Text(json, "trained_on", &state.trained_on)) {
    return malformed;
  }
  const Json stamps = json.value("stamps", Json());
  const Json shards = json.value("shards", Json());
  if (!stamps.is_array() || !shards.is_array()) return malformed;
  for (const Json& stamp : stamps) {
    if (!stamp.is_string()) return malformed;
    state.stamps.push_back(stamp.get<std::string>());
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    PrepareState::Shard shard;
    ASSIGN_OR_RETURN(shard.entry,
                     ParseShardEntry(shards[i], static_cast<int64_t>(i)));
    bool good = true;
    ForEachCount(shard.position, [&](const char* name, int64_t& count) {
      const Json value = shards[i].value(name, Json());
      good = good && value.is_number_unsigned() &&
             value.get<uint64_t>() <= uint64_t{1} << 60;
      if (good) count = static_cast<int64_t>(value.get<uint64_t>());
    });
    if (!good ||
        shard.position.file >= static_cast<int64_t>(state.stamps.size()) ||
        shard.position.in_file > shard.position.documents) {
      return malformed;
    }
    state.shards.push_back(std::move(shard));
  }
  return state;
}

}  // namespace

absl::Status SavePrepareState(const PrepareState& state,
                              const std::string& folder) {
  OrderedJson shards = OrderedJson::array();
  for (size_t i = 0; i < state.shards.size(); ++i) {
    OrderedJson shard = ToJson(state.shards[i].entry, static_cast<int64_t>(i));
    ForEachCount(
        state.shards[i].position,
        [&](const char* name, const int64_t& count) { shard[name] = count; });
    shards.push_back(std::move(shard));
  }
  const OrderedJson json = {{"format", kFormat},
                            {"version", kVersion},
                            {"made_from", state.made_from},
                            {"tokenizer_sha256", state.tokenizer_digest},
                            {"trained_on", state.trained_on},
                            {"stamps", state.stamps},
                            {"shards", shards},
                            {"clearing", state.clearing}};
  return WriteFileAtomically(absl::StrCat(folder, "/", kPrepareStateFile),
                             JsonText(json) + "\n");
}

absl::StatusOr<PrepareState> LoadPrepareState(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kPrepareStateFile);
  ASSIGN_OR_RETURN(const std::string json, ReadLimited(path, kMaxFileBytes));
  absl::StatusOr<PrepareState> state = Parse(ParseJson(json, /*max_depth=*/4));
  if (state.ok()) return state;
  return absl::DataLossError(
      absl::StrCat(PrintablePath(path), ": ", state.status().message()));
}

}  // namespace comera::trainer
