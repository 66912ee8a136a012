// Hides tokens of a sample for masked language modelling.
#include "worker/trainer/data/batch/masking.h"

#include <algorithm>
#include <utility>

namespace comera::trainer {
namespace {

// Position of the draw that belongs to the whole sample.
constexpr uint32_t kWholeSample = 0xffffffffu;

}  // namespace

int64_t MaxMaskLabels(int64_t length, double probability) {
  // A sample has at least its first special token.
  const int64_t n = std::max<int64_t>(length - 1, 0);
  return std::min(
      n, static_cast<int64_t>(probability * static_cast<double>(n)) + 1);
}

void MaskTokens(const MaskKey& key, double probability,
                const SpecialTokens& special, int32_t vocabulary_size,
                int32_t row, int32_t* ids, int32_t length,
                std::vector<int32_t>* label_rows,
                std::vector<int32_t>* labels) {
  const auto words = [&key](uint32_t position) {
    return RandomWords(key.seed, key.stream, key.step,
                       key.sample << 32 | position);
  };
  // The tokens with the smallest random numbers are chosen.
  std::vector<std::pair<uint32_t, int32_t>> order;
  order.reserve(length);
  for (int32_t i = 0; i < length; ++i) {
    if (!special.Contains(ids[i])) order.emplace_back(words(i)[0], i);
  }
  if (order.empty()) return;
  const double wanted = probability * static_cast<double>(order.size()) +
                        UnitFloat(words(kWholeSample)[0]);
  const size_t count =
      std::clamp<size_t>(static_cast<size_t>(wanted), 1, order.size());
  std::nth_element(order.begin(), order.begin() + (count - 1), order.end());
  order.resize(count);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const auto& [unused, i] : order) {
    label_rows->push_back(row + i);
    labels->push_back(ids[i]);
    const auto draw = words(i);
    const float action = UnitFloat(draw[1]);
    if (action < kMaskShare) {
      ids[i] = special.mask;
    } else if (action < 0.9f) {
      int32_t token = static_cast<int32_t>(
          BelowN(draw[2], static_cast<uint32_t>(vocabulary_size)));
      // Every vocabulary has ordinary tokens: the label is one.
      while (special.Contains(token)) token = (token + 1) % vocabulary_size;
      ids[i] = token;
    }
  }
}

}  // namespace comera::trainer
