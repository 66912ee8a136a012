#ifndef COMERA_TESTS_E2E_CHAOS_LATE_UPLOAD_H_
#define COMERA_TESTS_E2E_CHAOS_LATE_UPLOAD_H_

#include <memory>
#include <string>

#include "client/training_client.h"
#include "comera/v1/worker_service.grpc.pb.h"

namespace comera::e2e {

// Plays a network that delivers an upload of a model long after the attempt
// that sent it was given up, while a later one runs. The file is a new one,
// because those of two attempts are mostly the same to the byte. Calls take
// seconds at most. Not thread-safe.
class LateUpload {
 public:
  // The coordinators' addresses, separated by commas.
  explicit LateUpload(const std::string& addresses);

  // Sends one for some running job that had an attempt before this one. Returns
  // the job, or nothing if there is none.
  std::string Send();
  // What was wrong with the last answer; empty: nothing.
  const std::string& violation() const { return violation_; }

 private:
  const std::unique_ptr<client::TrainingClient> client_;
  const std::unique_ptr<v1::WorkerService::Stub> workers_;
  std::string violation_;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_LATE_UPLOAD_H_
