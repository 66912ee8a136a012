// The CLI's exit codes; scripts rely on them.
#ifndef COMERA_CLIENT_CLI_SESSION_EXIT_CODES_H_
#define COMERA_CLIENT_CLI_SESSION_EXIT_CODES_H_

#include "absl/status/status.h"
#include "comera/v1/job.pb.h"

namespace comera::client {

enum ExitCode {
  kExitOk = 0,  // also: the job met its goal or completed
  kExitClientError = 1,
  kExitUsage = 2,
  kExitUnreachable = 3,
  kExitPermission = 4,
  kExitNotFound = 5,
  kExitJobFailed = 100,
  kExitUnfinished = 101,
  kExitJobCancelled = 103,
  kExitTargetMissed = 104,
  kExitInterrupted = 130,
};

// The exit code after an RPC that failed.
inline int ExitCodeOfRpc(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnreachable;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kExitPermission;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    default:
      return kExitClientError;
  }
}

// The exit code that tells a job's state.
inline int ExitCodeOfJob(const v1::Job& job) {
  switch (job.state()) {
    case v1::SUCCEEDED:
      return job.outcome() == v1::TARGET_MISSED ? kExitTargetMissed : kExitOk;
    case v1::FAILED:
      return kExitJobFailed;
    case v1::CANCELLED:
      return kExitJobCancelled;
    default:
      return kExitUnfinished;
  }
}

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_EXIT_CODES_H_
