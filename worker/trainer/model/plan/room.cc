#include "worker/trainer/model/plan/room.h"

#include <algorithm>

namespace comera::trainer {
namespace {

constexpr int64_t kMultiple = 64;  // of rows, what kernels like

int64_t NextRung(int64_t rung, int64_t most) {
  const int64_t eighth =
      (rung + rung / 8 + kMultiple - 1) / kMultiple * kMultiple;
  return std::min(std::max(rung + kMultiple, eighth), most);
}

int64_t FillingSequences(int64_t below, int64_t rung, int64_t length) {
  return (rung - below - 1 + length - 1) / length;
}

}  // namespace

int64_t RoomFor(int64_t count, int64_t most) {
  int64_t rung = 0;
  while (rung < count) rung = NextRung(rung, most);
  return rung;
}

int64_t RoomSequences(int64_t tokens, int64_t most, int64_t length) {
  int64_t below = 0;
  for (int64_t rung = 0; rung < tokens; rung = NextRung(rung, most)) {
    below = rung;
  }
  return tokens > 0 ? FillingSequences(below, tokens, length) : 0;
}

int64_t MaxRoomSequences(int64_t most, int64_t length) {
  int64_t sequences = 0;
  for (int64_t below = 0; below < most;) {
    const int64_t rung = NextRung(below, most);
    sequences = std::max(sequences, FillingSequences(below, rung, length));
    below = rung;
  }
  return sequences;
}

}  // namespace comera::trainer
