// Finds the nearest word by edit distance.

#include "common/suggest.h"

#include <algorithm>

namespace comera {
namespace {

constexpr size_t kLongestWord = 64;

// The Levenshtein distance.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string Nearest(const std::string& word,
                    const std::vector<std::string>& choices) {
  if (word.size() > kLongestWord) return "";
  std::string best;
  // Up to a third of the letters may be wrong.
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& choice : choices) {
    const size_t distance = Distance(word, choice);
    if (distance < best_distance) {
      best_distance = distance;
      best = choice;
    }
  }
  return best;
}

std::string DidYouMean(const std::string& word,
                       const std::vector<std::string>& choices) {
  const std::string nearest = Nearest(word, choices);
  return nearest.empty() ? "" : " (did you mean `" + nearest + "`?)";
}

}  // namespace comera
