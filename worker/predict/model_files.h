#ifndef COMERA_WORKER_PREDICT_MODEL_FILES_H_
#define COMERA_WORKER_PREDICT_MODEL_FILES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/model_service.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace comera::worker {

// All functions below wait until `deadline`, and no longer than until `gone`,
// which is asked a few times a second, says that nobody wants the answer any
// more: Cancelled.

// Asks the coordinator for a model with the caller's `token` (empty:
// anonymously). Returns the statuses of GetModel, so that it also tells whether
// the caller may see the model.
absl::StatusOr<v1::Artifact> AskForModel(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& name,
    const std::string& token, absl::Time deadline,
    const std::function<bool()>& gone);

// Asks the coordinator for the models that the caller may see, newest job
// first, at most 1000. Returns the statuses of ListModels.
absl::StatusOr<std::vector<v1::Model>> AskForModels(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& token,
    absl::Time deadline, const std::function<bool()>& gone);

// Downloads the model's files to `folder`, except those that are there with the
// announced contents. DataLoss: the contents do not match. ResourceExhausted:
// the files exceed `max_bytes`.
absl::Status FetchModel(const std::shared_ptr<grpc::Channel>& channel,
                        const v1::Artifact& model, const std::string& token,
                        int64_t max_bytes, const std::string& folder,
                        absl::Time deadline, const std::function<bool()>& gone);

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_MODEL_FILES_H_
