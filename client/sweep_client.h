// The client library's part for sweeps.
#ifndef COMERA_CLIENT_SWEEP_CLIENT_H_
#define COMERA_CLIENT_SWEEP_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/training_client.h"
#include "comera/v1/sweep_service.pb.h"

namespace comera::client {

// Submits sweeps and follows them. Retries, deadlines and thread safety are
// those of TrainingClient; statuses are those of sweep_service.proto.
class SweepClient {
 public:
  SweepClient(std::shared_ptr<grpc::Channel> channel,
              const TrainingClient::Options& options);
  // Calls Stop(); all other calls must have returned.
  ~SweepClient();

  struct SubmitOptions {
    // Empty means a random one.
    std::string request_id;
    bool validate_only = false;
  };
  absl::StatusOr<v1::Sweep> Submit(const v1::SweepSpec& spec,
                                   const SubmitOptions& options);
  // Looks up `sweeps/{sweep}`.
  absl::StatusOr<v1::Sweep> Get(const std::string& name);
  // Returns the sweeps of all pages, newest first; at most `limit` (0: all).
  absl::StatusOr<std::vector<v1::Sweep>> List(int64_t limit);
  absl::StatusOr<v1::Sweep> Cancel(const std::string& name,
                                   const std::string& reason);
  absl::Status Delete(const std::string& name);
  // Computes the Pareto front over `sweeps/{sweep}` and `jobs/{job}`.
  absl::StatusOr<v1::SweepFront> ComputeFront(
      const v1::ComputeFrontRequest& request);

  // Follows the sweep to its end and returns it. `on_sweep` gets the current
  // sweep whenever a stream begins or events were missed; `on_event` gets every
  // event once, in order. Both run on the calling thread and may be empty.
  absl::StatusOr<v1::Sweep> Watch(
      const std::string& name,
      const std::function<void(const v1::Sweep&)>& on_sweep,
      const std::function<void(const v1::SweepEvent&)>& on_event);

  // Ends all running and later calls with Cancelled.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Updates the sweep by an event.
void ApplySweepEvent(const v1::SweepEvent& event, v1::Sweep* sweep);

}  // namespace comera::client

#endif  // COMERA_CLIENT_SWEEP_CLIENT_H_
