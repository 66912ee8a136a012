#ifndef COMERA_SERVER_COORDINATOR_JOB_COORDINATOR_OPTIONS_H_
#define COMERA_SERVER_COORDINATOR_JOB_COORDINATOR_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/time/time.h"
#include "server/coordinator/job/hang_watch.h"
#include "server/coordinator/job/retry_policy.h"
#include "server/scheduler/scheduler.h"

namespace comera::server {

// The settings of a Coordinator.
struct CoordinatorOptions {
  // The members on a worker are given up after it was silent for this long.
  absl::Duration node_lost_after = absl::Seconds(60);
  // Workers have this long to report again after the coordinator's restart.
  absl::Duration reattach_grace = absl::Seconds(60);
  // While most workers are silent together, none of them is given up for this
  // long.
  absl::Duration mass_silence_wait = absl::Hours(1);
  // A worker that is away for this long is forgotten.
  absl::Duration forget_worker_after = absl::Hours(24);
  // A worker that is silent for longer gets no new members.
  absl::Duration suspect_after = absl::Seconds(10);
  // A worker must list a member within this of its placement, and the member's
  // process must report within this of its start. What the worker does before,
  // such as fetching a checkpoint, may take any time.
  absl::Duration start_deadline = absl::Minutes(5);
  // A job waits this long for a worker that holds its newest checkpoint.
  absl::Duration checkpoint_wait = absl::Minutes(10);
  // A job that failed or was cancelled keeps its checkpoints for this long, so
  // that it can be resumed.
  absl::Duration keep_checkpoints = absl::Hours(72);
  // How far the clock is believed to be ahead of the true time.
  absl::Duration clock_lead;
  // Member 0 of a job that is cancelled, or has run too long, has this long to
  // leave its best model.
  absl::Duration leave_model_deadline = absl::Minutes(2);
  // A wanted member may be missing from its worker's report for this long.
  absl::Duration missing_member_after = absl::Seconds(10);
  // After member 0's result the other members may end by themselves for this
  // long, and the model's files may take that long to arrive.
  absl::Duration finish_grace = absl::Seconds(30);
  absl::Duration model_deadline = absl::Minutes(10);
  // A Synchronize call is held for at most this.
  absl::Duration max_hold = absl::Seconds(30);
  // Workers are told to wait this long between calls.
  absl::Duration sync_interval = absl::Seconds(1);
  size_t max_queued_jobs = 100000;
  // When a member that makes no progress counts as stuck.
  HangWatch::Options hang;
  // Waits between attempts, and the number in [0, 1) that spreads them.
  RetryBackoff retry_backoff;
  std::function<double()> jitter = [] { return 1.0; };
  // A worker that is silent for this long is asked, about as often, whether its
  // process still exists. If its machine says no, nobody waits for
  // node_lost_after.
  absl::Duration probe_after = absl::Seconds(3);
  // Workers show this key to each other.
  std::string peer_key;
  // The coordinator's machine. The loopback address of a worker can be reached
  // only from the worker's own machine.
  std::string host;
  SchedulerOptions scheduler;
  // A gang does not wait for slots that have been unfit for longer.
  absl::Duration unfit_grace = absl::Minutes(2);
  // A worker that had this many hardware failures within the window takes no
  // more members until an operator resumes it; 0 means never.
  int32_t exclude_after_failures = 3;
  absl::Duration failure_window = absl::Hours(1);
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_COORDINATOR_OPTIONS_H_
