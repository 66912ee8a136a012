// Why a job stays queued.
#ifndef COMERA_SERVER_SCHEDULER_WAIT_REASON_H_
#define COMERA_SERVER_SCHEDULER_WAIT_REASON_H_

#include <cstdint>
#include <string>
#include <tuple>

namespace comera::server {

// Small and comparable, so that the text is made only when it changes.
struct WaitReason {
  enum Kind : int8_t {
    kNone,
    // `need` slots where the pool has no worker at all.
    kNoWorker,
    // `need` slots of a pool of `have` fit ones; `unfit` others.
    kPoolTooSmall,
    // `need` slots, `have` are free; `unfit` slots.
    kNoRoom,
    // `need` slots, jobs that have them are stopping.
    kRoomComing,
    // Behind jobs that wait for room.
    kEarlierJobs,
    // `need` ranks, its queue uses `have` of `limit`.
    kQueueLimit,
    // Behind a job that waits for kQueueLimit.
    kEarlierInQueue,
    // `need` ranks, its queue may use `limit`.
    kQueueTooSmall,
    // In back-off after a failure.
    kBackOff,
  };
  Kind kind = kNone;
  bool gpu = false;
  int32_t need = 0;
  int32_t have = 0;
  int32_t unfit = 0;
  int32_t limit = 0;

  // One sentence for people.
  std::string Text() const;

  bool operator==(const WaitReason& other) const {
    return Fields() == other.Fields();
  }
  bool operator!=(const WaitReason& other) const { return !(*this == other); }

 private:
  std::tuple<Kind, bool, int32_t, int32_t, int32_t, int32_t> Fields() const {
    return {kind, gpu, need, have, unfit, limit};
  }
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_WAIT_REASON_H_
