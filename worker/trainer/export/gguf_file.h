#ifndef COMERA_WORKER_TRAINER_EXPORT_GGUF_FILE_H_
#define COMERA_WORKER_TRAINER_EXPORT_GGUF_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/export/gguf_numbers.h"

namespace comera::trainer {

// A GGUF file (version 3, little-endian) in the making: first what is known
// about a model, key by key, then its tensors. A key or a name is given once.
//
//   GgufFile file;
//   file.Set("general.architecture", "llama");
//   RETURN_IF_ERROR(file.AddTensor("w", {2, 32}, GgufNumber::kQ8_0, values));
//   RETURN_IF_ERROR(file.WriteAtomically(path));
class GgufFile {
 public:
  // Values of the types that the format's readers expect: numbers that count
  // are uint32.
  void Set(absl::string_view key, const char* value);
  void Set(absl::string_view key, absl::string_view value);
  void Set(absl::string_view key, uint32_t value);
  void Set(absl::string_view key, float value);
  void Set(absl::string_view key, bool value);
  void Set(absl::string_view key, const std::vector<std::string>& values);
  void Set(absl::string_view key, const std::vector<float>& values);
  void Set(absl::string_view key, const std::vector<int32_t>& values);
  // A list of bytes.
  void SetBytes(absl::string_view key, absl::string_view bytes);

  // `shape` is in our order, the last dimension being that of neighbours in
  // memory; for kQ8_0 it is a multiple of kQ8Block. OutOfRange, with the name:
  // a value does not fit.
  absl::Status AddTensor(const std::string& name,
                         const std::vector<int64_t>& shape, GgufNumber type,
                         const std::vector<float>& values);

  std::string Serialize() const;
  // Replaces `path` durably, as WriteFileAtomically does.
  absl::Status WriteAtomically(const std::string& path) const;

 private:
  void StartValue(absl::string_view key, uint32_t type);
  void StartList(absl::string_view key, uint32_t type, size_t count);

  uint64_t values_ = 0;
  uint64_t tensors_ = 0;
  // The three parts of the file behind its header, serialised.
  std::string metadata_;
  std::string directory_;
  std::string data_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_EXPORT_GGUF_FILE_H_
