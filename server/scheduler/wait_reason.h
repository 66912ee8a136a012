// Why a job stays queued.
#ifndef COMERA_SERVER_SCHEDULER_WAIT_REASON_H_
#define COMERA_SERVER_SCHEDULER_WAIT_REASON_H_

#include <cstdint>
#include <string>
#include <tuple>

namespace comera::server {

// The reason is small and comparable, so that its text is made only when it
// changes.
struct WaitReason {
  enum Kind : int8_t {
    kNone,
    // It needs `need` slots, and no worker of the pool is in service: `have`
    // are drained or excluded, and `unfit` are not connected.
    kNoWorker,
    // It needs `need` slots of a pool of `have` fit and `unfit` other ones.
    kPoolTooSmall,
    // It needs `need` slots; `have` are free, and `unfit` are unfit.
    kNoRoom,
    // Its program needs `need` slots; of the `limit` slots on workers that run
    // programs, `have` are free.
    kNoProgramRoom,
    // It needs `need` slots, and the jobs that have them are stopping.
    kRoomComing,
    // It is behind jobs that wait for slots.
    kEarlierJobs,
    // It has `need` processes, and its queue uses `have` of `limit`.
    kQueueLimit,
    // It is behind a job that waits for kQueueLimit.
    kEarlierInQueue,
    // It has `need` processes, and its queue may use `limit`.
    kQueueTooSmall,
    // It waits before the next attempt after a failure.
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
