// Stores token ids in as few bytes as the vocabulary allows.
#include "worker/trainer/data/batch/token_array.h"

#include <algorithm>

#include "common/status_macros.h"
#include "worker/trainer/data/source/vector_bytes.h"

namespace comera::trainer {

void TokenArray::Append(const std::vector<int32_t>& ids) {
  if (narrow()) {
    narrow_.insert(narrow_.end(), ids.begin(), ids.end());
  } else {
    wide_.insert(wide_.end(), ids.begin(), ids.end());
  }
}

void TokenArray::Copy(int64_t first, int64_t count, int32_t* ids) const {
  if (narrow()) {
    std::copy_n(narrow_.begin() + first, count, ids);
  } else {
    std::copy_n(wide_.begin() + first, count, ids);
  }
}

void TokenArray::Serialize(std::string* bytes) const {
  AppendVector(narrow_, bytes);
  AppendVector(wide_, bytes);
}

absl::StatusOr<TokenArray> TokenArray::Parse(absl::string_view* bytes,
                                             int32_t vocabulary_size) {
  TokenArray tokens(vocabulary_size);
  RETURN_IF_ERROR(ConsumeVector(bytes, &tokens.narrow_));
  RETURN_IF_ERROR(ConsumeVector(bytes, &tokens.wide_));
  const auto outside = [vocabulary_size](int32_t id) {
    return id < 0 || id >= vocabulary_size;
  };
  if (std::any_of(tokens.narrow_.begin(), tokens.narrow_.end(), outside) ||
      std::any_of(tokens.wide_.begin(), tokens.wide_.end(), outside)) {
    return absl::DataLossError("a token is outside the vocabulary");
  }
  return tokens;
}

}  // namespace comera::trainer
