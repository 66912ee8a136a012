#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_CODE_POINT_SET_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_CODE_POINT_SET_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace comera::trainer {

// The characters (code points) of a corpus.
class CodePointSet {
 public:
  CodePointSet();

  // Adds the characters of `text`; bytes that are not UTF-8 are left out.
  void Add(absl::string_view text);

  // In ascending order.
  std::vector<int32_t> CodePoints() const;

 private:
  // Whether each code point was seen.
  std::vector<bool> seen_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_CODE_POINT_SET_H_
