// Finds stop texts in a text that comes in pieces.
#include "worker/trainer/generate/stop_texts.h"

#include <algorithm>
#include <utility>

namespace comera::trainer {

StopTexts::StopTexts(std::vector<std::string> stops)
    : stops_(std::move(stops)) {}

size_t StopTexts::PossibleBeginning() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t size = std::min(stop.size() - 1, held_.size()); size > longest;
         --size) {
      if (held_.compare(held_.size() - size, size, stop, 0, size) == 0) {
        longest = size;
      }
    }
  }
  return longest;
}

std::string StopTexts::Add(absl::string_view piece) {
  if (found_) return "";
  held_.append(piece.data(), piece.size());
  // The stop that ends first counts, and the longest of those that end there.
  size_t first = std::string::npos, end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    if (at + stop.size() < end || (at + stop.size() == end && at < first)) {
      first = at;
      end = at + stop.size();
    }
  }
  std::string passed;
  if (end != std::string::npos) {
    found_ = true;
    passed = held_.substr(0, first);
    held_.clear();
    return passed;
  }
  const size_t keep = PossibleBeginning();
  passed = held_.substr(0, held_.size() - keep);
  held_.erase(0, passed.size());
  return passed;
}

std::string StopTexts::Finish() { return std::exchange(held_, ""); }

}  // namespace comera::trainer
