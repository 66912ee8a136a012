// Places pieces with lifetimes so that those alive at one time do not overlap.
#include "kernels/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::kernels {
namespace {

constexpr int64_t kAlignment = 64;
constexpr size_t kNamedInErrors = 3;

int64_t RoundUp(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool LiveTogether(const PieceRequest& a, const PieceRequest& b) {
  for (const PhaseSpan& x : a.spans) {
    for (const PhaseSpan& y : b.spans) {
      if (x.first <= y.last && y.first <= x.last) return true;
    }
  }
  return false;
}

std::vector<int> LargestFirst(const std::vector<PieceRequest>& pieces) {
  std::vector<int> order(pieces.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return pieces[a].bytes > pieces[b].bytes;
  });
  return order;
}

}  // namespace

Placement PlacePieces(const std::vector<PieceRequest>& pieces) {
  Placement placement;
  placement.offsets.assign(pieces.size(), 0);
  std::vector<int> by_offset;  // the pieces placed so far
  for (int piece : LargestFirst(pieces)) {
    const int64_t bytes = RoundUp(pieces[piece].bytes);
    if (bytes == 0) break;
    // The first gap among the pieces in the way that is large enough.
    int64_t offset = 0;
    for (int other : by_offset) {
      if (placement.offsets[other] >= offset + bytes) break;
      if (!LiveTogether(pieces[piece], pieces[other])) continue;
      offset = std::max(
          offset, placement.offsets[other] + RoundUp(pieces[other].bytes));
    }
    placement.offsets[piece] = offset;
    placement.bytes = std::max(placement.bytes, offset + bytes);
    by_offset.insert(
        std::upper_bound(by_offset.begin(), by_offset.end(), offset,
                         [&](int64_t value, int other) {
                           return value < placement.offsets[other];
                         }),
        piece);
  }
  return placement;
}

int64_t MostLiveBytes(const std::vector<PieceRequest>& pieces) {
  std::map<int, int64_t> change;  // at the begin of a phase
  for (const PieceRequest& piece : pieces) {
    for (const PhaseSpan& span : piece.spans) {
      change[span.first] += RoundUp(piece.bytes);
      change[span.last + 1] -= RoundUp(piece.bytes);
    }
  }
  int64_t live = 0, most = 0;
  for (const auto& [phase, bytes] : change) {
    live += bytes;
    most = std::max(most, live);
  }
  return most;
}

MemoryPlan::~MemoryPlan() {
  if (memory_ != nullptr) backend_->Free(memory_);
}

MemoryPlan::Piece MemoryPlan::Reserve(std::string name, int64_t bytes,
                                      std::vector<PhaseSpan> spans) {
  names_.push_back(std::move(name));
  requests_.push_back({std::max<int64_t>(bytes, 0), std::move(spans)});
  return static_cast<Piece>(requests_.size()) - 1;
}

void MemoryPlan::Enlarge(Piece piece, int64_t bytes) {
  requests_[piece].bytes = std::max(requests_[piece].bytes, bytes);
}

void MemoryPlan::FillAtStart(Piece piece, float value) {
  fills_.push_back({piece, value});
}

absl::Status MemoryPlan::Commit() {
  if (committed_) {
    return absl::FailedPreconditionError("the memory plan is committed");
  }
  Placement placement = PlacePieces(requests_);
  // Pieces without bytes have an address, too.
  absl::StatusOr<void*> memory =
      backend_->Allocate(std::max(placement.bytes, kAlignment));
  if (memory.ok()) {
    committed_ = true;
    memory_ = static_cast<char*>(*memory);
    offsets_ = std::move(placement.offsets);
    bytes_ = placement.bytes;
    for (const auto& [piece, value] : fills_) {
      RETURN_IF_ERROR(backend_->Fill(
          {Floats(piece), requests_[piece].bytes / int64_t{sizeof(float)}},
          value));
    }
    return absl::OkStatus();
  }
  std::string message = absl::StrCat(memory.status().message(), "; largest:");
  const std::vector<int> order = LargestFirst(requests_);
  for (size_t i = 0; i < std::min(order.size(), kNamedInErrors); ++i) {
    absl::StrAppend(&message, " ", names_[order[i]], "=",
                    requests_[order[i]].bytes);
  }
  return absl::Status(memory.status().code(), message);
}

int64_t MemoryPlan::most_live_bytes() const { return MostLiveBytes(requests_); }

void* MemoryPlan::Address(Piece piece) const {
  if (memory_ == nullptr || piece < 0 ||
      piece >= static_cast<Piece>(offsets_.size())) {
    return nullptr;
  }
  return memory_ + offsets_[piece];
}

}  // namespace comera::kernels
