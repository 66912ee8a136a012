#ifndef COMERA_SERVER_SCHEDULER_DECISION_H_
#define COMERA_SERVER_SCHEDULER_DECISION_H_

#include <cstdint>
#include <vector>

#include "server/scheduler/wait_reason.h"

namespace comera::server {

// The slot of one member, as indices of the snapshot.
struct MemberPlace {
  int32_t worker = 0;
  int32_t slot = 0;
};

// The place of each member of a gang.
struct Placement {
  int32_t job = 0;
  std::vector<MemberPlace> members;
};

// A running job that is to be stopped after a checkpoint.
struct StopOrder {
  enum Kind { kPreempt, kShrink, kGrow };
  Kind kind = kPreempt;
  int32_t running = 0;
  // The number of processes to go on with, for kShrink and kGrow.
  int32_t processes = 0;
  // The job that needs the slots; -1 for kGrow.
  int32_t job = -1;
};

// A job that stays queued.
struct WaitingJob {
  int32_t job = 0;
  WaitReason reason;
};

// What is to happen now.
struct Decision {
  std::vector<Placement> placements;
  std::vector<StopOrder> stops;
  std::vector<WaitingJob> waiting;
  // Slots are left over and nobody waits for them.
  bool cpu_spare = false;
  bool gpu_spare = false;
  // The pass was cut short, and another one could place more.
  bool more = false;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_DECISION_H_
