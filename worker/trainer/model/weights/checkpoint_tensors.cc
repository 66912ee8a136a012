// Reads tensors from one file, or from the shards of a folder.
#include "worker/trainer/model/weights/checkpoint_tensors.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/read_limited.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::json;

constexpr char kFile[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr int64_t kMaxIndexBytes = 64 << 20;
constexpr size_t kMaxShardName = 255;

// A file directly in the folder, whatever the index may say.
bool IsPlainName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxShardName && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isprint(c) && c != '/' && c != '\\';
         });
}

absl::StatusOr<Safetensors> ReadTensors(const std::string& path,
                                        int64_t max_bytes) {
  ASSIGN_OR_RETURN(const std::string contents, ReadLimited(path, max_bytes));
  absl::StatusOr<Safetensors> file = Safetensors::Parse(contents);
  if (!file.ok()) {
    return absl::Status(file.status().code(),
                        absl::StrCat(path, ": ", file.status().message()));
  }
  return file;
}

}  // namespace

absl::StatusOr<CheckpointTensors> CheckpointTensors::Open(
    const std::string& path, int64_t max_file_bytes) {
  CheckpointTensors tensors;
  tensors.path_ = path;
  tensors.max_file_bytes_ = max_file_bytes;
  std::error_code error;
  std::string file = path;
  if (std::filesystem::is_directory(path, error)) {
    tensors.folder_ = path;
    file = absl::StrCat(path, "/", kFile);
    const std::string index = absl::StrCat(path, "/", kIndex);
    if (!std::filesystem::exists(file, error) &&
        std::filesystem::exists(index, error)) {
      RETURN_IF_ERROR(tensors.ReadIndex(index));
      return tensors;
    }
  } else {
    tensors.folder_ = std::filesystem::path(path).parent_path().string();
  }
  ASSIGN_OR_RETURN(tensors.file_, ReadTensors(file, max_file_bytes));
  for (const auto& [name, tensor] : tensors.file_.tensors()) {
    tensors.names_.insert(name);
  }
  return tensors;
}

absl::Status CheckpointTensors::ReadIndex(const std::string& index) {
  ASSIGN_OR_RETURN(const std::string text, ReadLimited(index, kMaxIndexBytes));
  const Json json = ParseJson(text);
  const Json map = json.is_object() ? json.value("weight_map", Json()) : Json();
  if (!map.is_object()) {
    return absl::DataLossError(
        absl::StrCat(index, ": expected an object weight_map"));
  }
  for (const auto& [name, value] : map.items()) {
    const std::string shard = value.is_string() ? value.get<std::string>() : "";
    if (!IsPlainName(shard)) {
      return absl::DataLossError(absl::StrCat(
          index, ": weight_map: expected names of files in the same folder"));
    }
    names_.insert(name);
    shards_[name] = shard;
  }
  return absl::OkStatus();
}

absl::Status CheckpointTensors::Load(const std::string& name) {
  if (names_.count(name) == 0) {
    return absl::NotFoundError(absl::StrCat(path_, ": no tensor ", name));
  }
  if (shards_.empty()) return absl::OkStatus();
  const std::string& shard = shards_.at(name);
  const std::string shard_path = absl::StrCat(folder_, "/", shard);
  if (shard != loaded_) {
    loaded_.clear();
    file_ = Safetensors();  // two shards are never in memory
    ASSIGN_OR_RETURN(file_, ReadTensors(shard_path, max_file_bytes_));
    loaded_ = shard;
  }
  if (file_.tensors().count(name) == 0) {
    return absl::DataLossError(absl::StrCat(
        shard_path, ": no tensor ", name, ", which ", kIndex, " says it has"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> CheckpointTensors::GetShape(
    const std::string& name) {
  RETURN_IF_ERROR(Load(name));
  return file_.GetShape(name);
}

absl::StatusOr<std::vector<float>> CheckpointTensors::GetFloat(
    const std::string& name) {
  RETURN_IF_ERROR(Load(name));
  absl::StatusOr<std::vector<float>> values = file_.GetFloat(name);
  if (!values.ok()) {
    return absl::Status(values.status().code(),
                        absl::StrCat(path_, ": ", values.status().message()));
  }
  return values;
}

}  // namespace comera::trainer
