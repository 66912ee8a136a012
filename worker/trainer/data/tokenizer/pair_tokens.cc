// Cuts two texts' tokens to length and joins them to one sample.
#include "worker/trainer/data/tokenizer/pair_tokens.h"

#include <algorithm>

namespace comera::trainer {

bool CutPair(int32_t max_length, bool has_segments, std::vector<int32_t>* first,
             std::vector<int32_t>* second) {
  const auto room = static_cast<size_t>(max_length - (has_segments ? 3 : 4));
  const bool cuts = first->size() + second->size() > room;
  while (first->size() + second->size() > room) {
    // The first cuts are taken together.
    std::vector<int32_t>& longer =
        first->size() > second->size() ? *first : *second;
    const size_t shorter = std::min(first->size(), second->size());
    const size_t excess = first->size() + second->size() - room;
    const size_t cut = std::clamp<size_t>(longer.size() - shorter, 1, excess);
    longer.resize(longer.size() - cut);
  }
  return cuts;
}

int32_t JoinPair(const SpecialTokens& special, bool has_segments,
                 const std::vector<int32_t>& first,
                 const std::vector<int32_t>& second,
                 std::vector<int32_t>* sample) {
  sample->assign(1, special.cls);
  sample->insert(sample->end(), first.begin(), first.end());
  sample->push_back(special.sep);
  const auto second_start = static_cast<int32_t>(sample->size());
  if (!has_segments) sample->push_back(special.sep);
  sample->insert(sample->end(), second.begin(), second.end());
  sample->push_back(special.sep);
  return second_start;
}

}  // namespace comera::trainer
