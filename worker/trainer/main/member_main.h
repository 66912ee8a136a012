#ifndef COMERA_WORKER_TRAINER_MAIN_MEMBER_MAIN_H_
#define COMERA_WORKER_TRAINER_MAIN_MEMBER_MAIN_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "worker/trainer/main/form_gang.h"
#include "worker/trainer/process/event_writer.h"
#include "worker/trainer/process/heartbeat.h"
#include "worker/trainer/process/task.pb.h"

namespace comera::trainer {

struct MemberOptions {
  // The option of the same name of TrainerOptions.
  bool graphs = true;
  // The least MiB of a bucket of gradients (TrainerOptions::bucket_floats); 0:
  // all gradients are one.
  int64_t bucket_mib = kUsualBucketMib;
  // BackendOptions::overlap_launches.
  bool overlap_launches = false;
  // Whether a member on the CPU whose job sets no limit may hold what its plan
  // says, with head-room, and no more (LimitOfPlan).
  bool limit_to_plan = true;
};

// Runs a task (as ReadTaskFile gives it) from opening the data to exporting the
// model: all of comera-trainer but its command line and its streams. It is OK
// too when `stop` ended it. Errors carry their class (failure.h).
absl::Status RunTask(const TrainerTask& task, const std::atomic<bool>& stop,
                     const EventSink& events, Activity& activity,
                     const MemberOptions& options = {});

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MAIN_MEMBER_MAIN_H_
