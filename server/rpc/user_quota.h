// What one user may keep and have waiting.
#ifndef COMERA_SERVER_RPC_USER_QUOTA_H_
#define COMERA_SERVER_RPC_USER_QUOTA_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace comera::server {

// Limits of one user on what the server keeps. 0: any amount. What counts is
// read from the state itself, so that nothing goes wrong in a crash.
struct UserQuota {
  // Waiting jobs, and the part of the longest queue that they may be.
  int64_t queued_jobs = 0;
  double queue_share = 0;
  // Jobs that are not forgotten, and the bytes of their specifications and of
  // those of the user's sweeps.
  int64_t jobs = 0;
  int64_t job_bytes = 0;
  // Sweeps that are not forgotten, and those that have not ended.
  int64_t sweeps = 0;
  int64_t active_sweeps = 0;
  // Datasets, and the bytes of their versions and of files on their way in.
  int64_t datasets = 0;
  int64_t dataset_bytes = 0;
  // Bytes of the models and checkpoints of the user's jobs.
  int64_t model_bytes = 0;
};

// Finds the limits of a user; those of a server without tokens are all 0. May
// be called from any thread.
using QuotaFinder = std::function<UserQuota(const std::string& user)>;

// The error of who is at a limit. `what` is counted ("jobs"), `flag` sets the
// limit, `advice` makes room.
absl::Status OverQuota(const std::string& user, int64_t used,
                       const std::string& what, int64_t limit,
                       const std::string& flag, const std::string& advice);

}  // namespace comera::server

#endif  // COMERA_SERVER_RPC_USER_QUOTA_H_
