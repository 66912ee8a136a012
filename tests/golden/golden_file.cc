// Reads metadata and tensors of golden files with checked types.

#include "tests/golden/golden_file.h"

#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::golden {

absl::StatusOr<double> MetadataNumber(const Safetensors& file,
                                      const std::string& key) {
  const auto found = file.metadata().find(key);
  double value = 0;
  if (found == file.metadata().end() ||
      !absl::SimpleAtod(found->second, &value)) {
    return absl::DataLossError(
        absl::StrCat("metadata ", key, ": expected a number"));
  }
  return value;
}

absl::StatusOr<std::vector<int64_t>> MetadataIntegers(const Safetensors& file,
                                                      const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    return absl::DataLossError(absl::StrCat("metadata ", key, ": missing"));
  }
  const auto json = nlohmann::json::parse(found->second, nullptr, false);
  std::vector<int64_t> values;
  if (!json.is_array()) {
    return absl::DataLossError(
        absl::StrCat("metadata ", key, ": expected an array"));
  }
  for (const auto& value : json) {
    if (!value.is_number_integer()) {
      return absl::DataLossError(
          absl::StrCat("metadata ", key, ": expected integers"));
    }
    values.push_back(value.get<int64_t>());
  }
  return values;
}

absl::StatusOr<nlohmann::json> MetadataObject(const Safetensors& file,
                                              const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    return absl::DataLossError(absl::StrCat("metadata ", key, ": missing"));
  }
  nlohmann::json json = nlohmann::json::parse(found->second, nullptr, false);
  if (!json.is_object()) {
    return absl::DataLossError(
        absl::StrCat("metadata ", key, ": expected an object"));
  }
  return json;
}

std::vector<float> Transposed(const std::vector<float>& values, int64_t rows,
                              int64_t columns) {
  std::vector<float> result(values.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      result[j * rows + i] = values[i * columns + j];
    }
  }
  return result;
}

std::vector<float> Part(const std::vector<float>& values, int64_t index,
                        int64_t size) {
  const auto begin = values.begin() + index * size;
  return std::vector<float>(begin, begin + size);
}

absl::StatusOr<std::vector<int32_t>> GetInt32(const Safetensors& file,
                                              const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> wide, file.GetInt64(name));
  std::vector<int32_t> narrow;
  for (int64_t value : wide) {
    if (value < std::numeric_limits<int32_t>::min() ||
        value > std::numeric_limits<int32_t>::max()) {
      return absl::DataLossError(absl::StrCat(name, ": out of range"));
    }
    narrow.push_back(static_cast<int32_t>(value));
  }
  return narrow;
}

}  // namespace comera::golden
