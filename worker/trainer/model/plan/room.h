// How far training batches are filled up.
#ifndef COMERA_WORKER_TRAINER_MODEL_PLAN_ROOM_H_
#define COMERA_WORKER_TRAINER_MODEL_PLAN_ROOM_H_

#include <cstdint>

namespace comera::trainer {

// A captured step serves all batches of one shape. Counts that differ from
// batch to batch are therefore rounded up to a rung of a ladder: multiples of
// 64, each about an eighth above the one before, the last `most`.

// The lowest rung that is not below `count`, of 0 .. most; 0 of 0.
int64_t RoomFor(int64_t count, int64_t most);

// Sequences of at most `length` tokens that can be needed to fill a batch up to
// the rung `tokens`.
int64_t RoomSequences(int64_t tokens, int64_t most, int64_t length);
// The most over all rungs.
int64_t MaxRoomSequences(int64_t most, int64_t length);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_PLAN_ROOM_H_
