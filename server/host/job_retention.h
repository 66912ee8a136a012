#ifndef COMERA_SERVER_HOST_JOB_RETENTION_H_
#define COMERA_SERVER_HOST_JOB_RETENTION_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/coordinator.h"

namespace comera::server {

// Decides when which finished jobs and logs have been kept long enough. Does
// nothing itself; one thread calls it.
class JobRetention {
 public:
  // Infinite times: for ever.
  struct Options {
    // Finished jobs, with events, models and logs.
    absl::Duration keep_jobs = absl::InfiniteDuration();
    // Logs of finished jobs.
    absl::Duration keep_logs = absl::InfiniteDuration();
    absl::Duration sweep_interval = absl::Hours(1);
    // Only log what would go.
    bool dry_run = false;
  };

  // What is to go now.
  struct Expired {
    std::vector<std::string> jobs;
    // Jobs whose logs alone go.
    std::vector<std::string> silent;
  };

  explicit JobRetention(const Options& options) : options_(options) {}

  // Whether a sweep is due. The first one comes some time after the start,
  // which belongs to the workers that come back.
  bool IsDue(absl::Time now);
  // A part of what has expired by a clock that leads by `lead` (ClockTrust). If
  // there is more, the next sweep is due soon. Nothing in a dry run.
  Expired Find(const Coordinator& coordinator, absl::Time now,
               absl::Duration lead);

 private:
  const Options options_;
  absl::Time next_sweep_ = absl::InfinitePast();
};

// Removes the files of these jobs below the data directory: all of them, or
// only their logs. Blocks.
void RemoveJobFiles(const std::string& data_dir,
                    const std::vector<std::string>& jobs, bool logs_only);

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_JOB_RETENTION_H_
