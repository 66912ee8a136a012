// One allocation for pieces that live at different times.
#ifndef COMERA_KERNELS_MEMORY_PLAN_H_
#define COMERA_KERNELS_MEMORY_PLAN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace comera::kernels {

// Phases [first, last] of a schedule, both included.
struct PhaseSpan {
  int first = 0;
  int last = 0;
};

// A piece is live in some spans of phases; its contents last through each
// span, not from one to the next.
struct PieceRequest {
  int64_t bytes = 0;
  std::vector<PhaseSpan> spans;
};

struct Placement {
  std::vector<int64_t> offsets;  // one per piece; 64-byte aligned
  int64_t bytes = 0;             // the whole allocation
};

// Offsets such that pieces which are live in a common phase do not overlap:
// the largest first, each at the lowest offset that is free ("greedy by size").
// A function of its arguments alone.
Placement PlacePieces(const std::vector<PieceRequest>& pieces);

// Most bytes that are live in one phase: no placement is smaller.
int64_t MostLiveBytes(const std::vector<PieceRequest>& pieces);

// Named pieces of one allocation of a Backend, shared by lifetime.
//
// Life cycle: Reserve pieces, Commit once, then address them until the plan is
// destroyed. Not thread-safe.
//
//   MemoryPlan memory(backend);
//   MemoryPlan::Piece x = memory.Reserve("x", bytes, {{0, 3}});
//   RETURN_IF_ERROR(memory.Commit());
//   float* p = memory.Floats(x);
class MemoryPlan {
 public:
  using Piece = int;

  explicit MemoryPlan(Backend* backend) : backend_(backend) {}
  ~MemoryPlan();
  MemoryPlan(const MemoryPlan&) = delete;
  MemoryPlan& operator=(const MemoryPlan&) = delete;

  // Before Commit. Pieces of 0 bytes take no memory.
  Piece Reserve(std::string name, int64_t bytes, std::vector<PhaseSpan> spans);
  // Makes a piece at least so large.
  void Enlarge(Piece piece, int64_t bytes);
  // Commit fills the whole floats of a piece with `value`, which lasts where
  // nothing else is written if no other piece may share its memory.
  void FillAtStart(Piece piece, float value);
  // FailedPrecondition: a second time. ResourceExhausted names the largest
  // pieces. Errors of filling are passed on.
  absl::Status Commit();

  // After Commit: the whole, and the most that is live in one phase.
  int64_t bytes() const { return bytes_; }
  int64_t most_live_bytes() const;
  // Null before Commit, and for pieces that were never reserved.
  void* Address(Piece piece) const;
  float* Floats(Piece piece) const {
    return static_cast<float*>(Address(piece));
  }
  int32_t* Ints(Piece piece) const {
    return static_cast<int32_t*>(Address(piece));
  }

 private:
  Backend* const backend_;
  std::vector<std::string> names_;
  std::vector<PieceRequest> requests_;
  std::vector<std::pair<Piece, float>> fills_;
  std::vector<int64_t> offsets_;  // after Commit
  int64_t bytes_ = 0;
  bool committed_ = false;
  char* memory_ = nullptr;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_MEMORY_PLAN_H_
