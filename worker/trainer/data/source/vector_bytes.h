// Vectors of numbers as bytes of a cache file, and back.
#ifndef COMERA_WORKER_TRAINER_DATA_SOURCE_VECTOR_BYTES_H_
#define COMERA_WORKER_TRAINER_DATA_SOURCE_VECTOR_BYTES_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace comera::trainer {

template <typename T>
void AppendVector(const std::vector<T>& values, std::string* bytes) {
  const uint64_t count = values.size();
  bytes->append(reinterpret_cast<const char*>(&count), sizeof(count));
  bytes->append(reinterpret_cast<const char*>(values.data()),
                count * sizeof(T));
}

// Removes what AppendVector wrote from the front of `bytes`. DataLoss: too
// short.
template <typename T>
absl::Status ConsumeVector(absl::string_view* bytes, std::vector<T>* values) {
  uint64_t count = 0;
  if (bytes->size() < sizeof(count)) return absl::DataLossError("too short");
  std::memcpy(&count, bytes->data(), sizeof(count));
  bytes->remove_prefix(sizeof(count));
  if (count > bytes->size() / sizeof(T)) {
    return absl::DataLossError("too short");
  }
  values->resize(count);
  if (count > 0) std::memcpy(values->data(), bytes->data(), count * sizeof(T));
  bytes->remove_prefix(count * sizeof(T));
  return absl::OkStatus();
}

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SOURCE_VECTOR_BYTES_H_
