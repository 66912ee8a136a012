#ifndef COMERA_WORKER_TRAINER_PROCESS_HEARTBEAT_H_
#define COMERA_WORKER_TRAINER_PROCESS_HEARTBEAT_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "comera/v1/progress.pb.h"
#include "worker/collective/communicator.h"
#include "worker/trainer/process/event_writer.h"

namespace comera::trainer {

// The current activity of a member: written by the training thread, read by the
// heartbeat's. Thread-safe.
class Activity {
 public:
  void Set(v1::Stage stage, int64_t step, std::string activity = "");
  // Changes the description alone.
  void Describe(std::string activity);
  // Counts work beside steps, whose progress shows that nothing hangs.
  void CountWork();
  // Counts the collectives of `communicator`, which must outlive its use here;
  // null: of none.
  void Count(const collective::Communicator* communicator);
  v1::Heartbeat Read() const;

 private:
  mutable std::mutex mutex_;
  v1::Heartbeat heartbeat_ ABSL_GUARDED_BY(mutex_);
  const collective::Communicator* communicator_ ABSL_GUARDED_BY(mutex_) =
      nullptr;
};

// Reports at regular intervals that the process lives and how far it is: the
// step and the number of collectives show progress, not just life.
//
// Life cycle: a thread sends from construction (at once) to destruction.
class HeartbeatThread {
 public:
  // `activity` and what `sink` uses must outlive this.
  HeartbeatThread(const Activity* activity, EventSink sink,
                  absl::Duration interval = absl::Seconds(1.5));
  ~HeartbeatThread();

 private:
  void Loop();

  const Activity* const activity_;
  const EventSink sink_;
  const absl::Duration interval_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROCESS_HEARTBEAT_H_
