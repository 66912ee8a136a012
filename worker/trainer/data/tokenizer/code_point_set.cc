// Collects the characters of texts.
#include "worker/trainer/data/tokenizer/code_point_set.h"

#include <cstddef>

#include "unicode/uchar.h"
#include "unicode/utf8.h"

namespace comera::trainer {

CodePointSet::CodePointSet() : seen_(UCHAR_MAX_VALUE + 1, false) {}

void CodePointSet::Add(absl::string_view text) {
  const int64_t size = static_cast<int64_t>(text.size());
  for (int64_t i = 0; i < size;) {
    UChar32 c = 0;
    U8_NEXT(text.data(), i, size, c);
    if (c >= 0) seen_[static_cast<size_t>(c)] = true;
  }
}

std::vector<int32_t> CodePointSet::CodePoints() const {
  std::vector<int32_t> code_points;
  for (size_t c = 0; c < seen_.size(); ++c) {
    if (seen_[c]) code_points.push_back(static_cast<int32_t>(c));
  }
  return code_points;
}

}  // namespace comera::trainer
