// Puts the bytes of tokens together to a text.
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

std::string Tokenizer::Decode(const std::vector<int32_t>& ids) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocabulary_size()) AppendBytes(id, &text);
  }
  if (adds_first_space() && !text.empty() && text[0] == ' ') text.erase(0, 1);
  return text;
}

}  // namespace comera::trainer
