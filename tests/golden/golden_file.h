// Reads golden files: tensors by name, metadata as JSON.
#ifndef COMERA_TESTS_GOLDEN_GOLDEN_FILE_H_
#define COMERA_TESTS_GOLDEN_GOLDEN_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/safetensors.h"

namespace comera::golden {

// DataLoss: the key is missing or is not a number.
absl::StatusOr<double> MetadataNumber(const Safetensors& file,
                                      const std::string& key);
// Reads a JSON array of integers.
absl::StatusOr<std::vector<int64_t>> MetadataIntegers(const Safetensors& file,
                                                      const std::string& key);

absl::StatusOr<std::vector<int32_t>> GetInt32(const Safetensors& file,
                                              const std::string& name);

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_GOLDEN_FILE_H_
