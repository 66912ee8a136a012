// Lays reserved pieces out in one allocation.
#include "kernels/arena.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::kernels {
namespace {

constexpr int64_t kAlignment = 64;
constexpr size_t kNamedInErrors = 3;

}  // namespace

Arena::Arena(Backend* backend) : backend_(backend) {}

Arena::~Arena() { Reset(); }

Arena::Piece Arena::Reserve(std::string name, int64_t bytes) {
  const Piece piece = static_cast<Piece>(entries_.size());
  bytes = std::max<int64_t>(bytes, 0);
  entries_.push_back({std::move(name), bytes_, bytes});
  // Every piece owns at least one line, so that addresses differ.
  const int64_t lines =
      std::max<int64_t>((bytes + kAlignment - 1) / kAlignment, 1);
  bytes_ += lines * kAlignment;
  return piece;
}

absl::Status Arena::Commit() {
  if (memory_ != nullptr) {
    return absl::FailedPreconditionError("arena is already committed");
  }
  if (bytes_ == 0) return absl::OkStatus();
  absl::StatusOr<void*> memory = backend_->Allocate(bytes_);
  if (memory.ok()) {
    memory_ = static_cast<char*>(*memory);
    return absl::OkStatus();
  }
  std::vector<const Entry*> largest;
  for (const Entry& entry : entries_) largest.push_back(&entry);
  std::stable_sort(
      largest.begin(), largest.end(),
      [](const Entry* a, const Entry* b) { return a->bytes > b->bytes; });
  largest.resize(std::min(largest.size(), kNamedInErrors));
  std::string message = absl::StrCat(memory.status().message(), "; largest:");
  for (const Entry* entry : largest) {
    absl::StrAppend(&message, " ", entry->name, "=", entry->bytes);
  }
  return absl::Status(memory.status().code(), message);
}

void Arena::Reset() {
  if (memory_ != nullptr) backend_->Free(memory_);
  memory_ = nullptr;
  bytes_ = 0;
  entries_.clear();
}

void* Arena::Address(Piece piece) const {
  if (memory_ == nullptr || piece < 0 ||
      piece >= static_cast<Piece>(entries_.size())) {
    return nullptr;
  }
  return memory_ + entries_[piece].offset;
}

}  // namespace comera::kernels
