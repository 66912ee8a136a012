#ifndef COMERA_SERVER_COORDINATOR_JOB_PREPARED_JOB_H_
#define COMERA_SERVER_COORDINATOR_JOB_PREPARED_JOB_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comera/v1/job.pb.h"

namespace comera::server {

// The client that asks for a job.
struct Submitter {
  // Empty where the server asks for no token.
  std::string user;
  // `sweeps/{sweep}`; empty if a person or program asks for itself.
  std::string sweep;
  // Whether the caller may administer the job's queue.
  bool administers = false;
};

// A job on its way into the store. It is made once, where its request comes in,
// and handed on as it is, so that nobody later has to fill in defaults or to
// check again. Copies share the specification.
class PreparedJob {
 public:
  // `spec` must be valid and have its defaults filled in. `request_id` may be
  // empty: every request with it makes a job then.
  PreparedJob(v1::JobSpec spec, std::string request_id, Submitter submitter)
      : spec_(std::make_shared<const v1::JobSpec>(std::move(spec))),
        request_id_(std::move(request_id)),
        submitter_(std::move(submitter)) {}

  const v1::JobSpec& spec() const { return *spec_; }
  const std::string& request_id() const { return request_id_; }
  const Submitter& submitter() const { return submitter_; }
  // What the spec's dataset paths mean; empty until the datasets are pinned.
  const std::vector<v1::DatasetPin>& datasets() const { return datasets_; }

  void set_administers(bool administers) {
    submitter_.administers = administers;
  }
  void set_datasets(std::vector<v1::DatasetPin> datasets) {
    datasets_ = std::move(datasets);
  }

 private:
  std::shared_ptr<const v1::JobSpec> spec_;
  std::string request_id_;
  Submitter submitter_;
  std::vector<v1::DatasetPin> datasets_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_PREPARED_JOB_H_
