#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_TOKEN_ARRAY_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_TOKEN_ARRAY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace comera::trainer {

// Token ids one after another, two bytes each where the vocabulary allows it.
//
// Not thread safe while tokens are added; const methods are.
class TokenArray {
 public:
  TokenArray() = default;
  explicit TokenArray(int32_t vocabulary_size)
      : vocabulary_size_(vocabulary_size) {}

  // Each in [0, vocabulary_size()).
  void Append(const std::vector<int32_t>& ids);

  int32_t vocabulary_size() const { return vocabulary_size_; }
  int64_t size() const {
    return static_cast<int64_t>(narrow() ? narrow_.size() : wide_.size());
  }
  int32_t operator[](int64_t i) const {
    return narrow() ? narrow_[i] : wide_[i];
  }
  // Writes tokens [first, first + count).
  void Copy(int64_t first, int64_t count, int32_t* ids) const;

  // Bytes for the cache, and back. DataLoss: too short, or a token is outside
  // the vocabulary.
  void Serialize(std::string* bytes) const;
  static absl::StatusOr<TokenArray> Parse(absl::string_view* bytes,
                                          int32_t vocabulary_size);

 private:
  bool narrow() const { return vocabulary_size_ <= 65536; }

  int32_t vocabulary_size_ = 0;
  std::vector<uint16_t> narrow_;  // if narrow()
  std::vector<int32_t> wide_;     // otherwise
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_TOKEN_ARRAY_H_
