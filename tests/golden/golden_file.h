// Reads golden files: tensors by name, metadata as JSON, and matrices out of
// them.
#ifndef COMERA_TESTS_GOLDEN_GOLDEN_FILE_H_
#define COMERA_TESTS_GOLDEN_GOLDEN_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/safetensors.h"
#include "nlohmann/json.hpp"

namespace comera::golden {

// DataLoss: the key is missing or is not a number.
absl::StatusOr<double> MetadataNumber(const Safetensors& file,
                                      const std::string& key);
// Reads a JSON array of integers.
absl::StatusOr<std::vector<int64_t>> MetadataIntegers(const Safetensors& file,
                                                      const std::string& key);

// Reads a JSON object.
absl::StatusOr<nlohmann::json> MetadataObject(const Safetensors& file,
                                              const std::string& key);

// The matrix (columns, rows) of one of (rows, columns).
std::vector<float> Transposed(const std::vector<float>& values, int64_t rows,
                              int64_t columns);
// Part `index` of values that are parts of `size` each.
std::vector<float> Part(const std::vector<float>& values, int64_t index,
                        int64_t size);

absl::StatusOr<std::vector<int32_t>> GetInt32(const Safetensors& file,
                                              const std::string& name);

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_GOLDEN_FILE_H_
