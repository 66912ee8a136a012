#include "worker/trainer/model/plan.h"

#include <algorithm>

namespace comera::trainer {

Workspace::Piece Workspace::Reserve(const std::string& name, int64_t bytes) {
  const auto [found, inserted] =
      index_.emplace(name, static_cast<Piece>(wanted_.size()));
  if (inserted) {
    wanted_.emplace_back(name, bytes);
  } else {
    int64_t& size = wanted_[found->second].second;
    size = std::max(size, bytes);
  }
  return found->second;
}

absl::Status Workspace::Commit() {
  pieces_.clear();
  for (const auto& [name, bytes] : wanted_) {
    pieces_.push_back(arena_.Reserve(name, bytes));
  }
  return arena_.Commit();
}

}  // namespace comera::trainer
