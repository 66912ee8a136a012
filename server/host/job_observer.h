#ifndef COMERA_SERVER_HOST_JOB_OBSERVER_H_
#define COMERA_SERVER_HOST_JOB_OBSERVER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"

namespace comera::server {

// A part of the server that follows all jobs. Called on the event loop.
class JobObserver {
 public:
  virtual ~JobObserver() = default;
  // Each event once it is durable, in order; the directory has the job already.
  virtual void OnJobEvent(const v1::JobEvent& event) = 0;
  virtual void OnTick(absl::Time now) = 0;
  // Whether a finished job may be deleted. FailedPrecondition: what is observed
  // still needs it.
  virtual absl::Status CheckMayDelete(const v1::Job& job) const = 0;
  // The bytes of the specifications that the observer keeps for the user, and
  // that count as those of the user's jobs do.
  virtual int64_t SpecBytesOf(const std::string& user) const = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_JOB_OBSERVER_H_
