// Plan sizes first, allocate once, address afterwards.
#ifndef COMERA_KERNELS_ARENA_H_
#define COMERA_KERNELS_ARENA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace comera::kernels {

// One allocation of a Backend, handed out in named pieces.
//
// Life cycle: Reserve pieces, Commit once, then address them until the arena is
// destroyed or Reset. Not thread-safe.
//
//   Arena arena(backend);
//   Arena::Piece x = arena.Reserve("x", rows * cols * sizeof(float));
//   RETURN_IF_ERROR(arena.Commit());
//   float* p = arena.Floats(x);
class Arena {
 public:
  using Piece = int;

  explicit Arena(Backend* backend);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // A 64-byte aligned piece. May only be called before Commit.
  Piece Reserve(std::string name, int64_t bytes);
  // ResourceExhausted names the largest pieces.
  absl::Status Commit();
  // Frees the memory and forgets the pieces.
  void Reset();

  int64_t bytes() const { return bytes_; }
  void* Address(Piece piece) const;
  float* Floats(Piece piece) const {
    return static_cast<float*>(Address(piece));
  }
  int32_t* Ints(Piece piece) const {
    return static_cast<int32_t*>(Address(piece));
  }

 private:
  struct Entry {
    std::string name;
    int64_t offset;
    int64_t bytes;
  };
  Backend* backend_;
  std::vector<Entry> entries_;
  int64_t bytes_ = 0;
  char* memory_ = nullptr;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_ARENA_H_
