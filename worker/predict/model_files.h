#ifndef COMERA_WORKER_PREDICT_MODEL_FILES_H_
#define COMERA_WORKER_PREDICT_MODEL_FILES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/job.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace comera::worker {

// Asks the coordinator for a model as the bearer of `token` (empty: as nobody).
// Statuses of GetModel, so also whether he may see it.
absl::StatusOr<v1::Artifact> AskForModel(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& name,
    const std::string& token, absl::Time deadline);

// Downloads its files to `folder`, but for those that are there as announced.
// DataLoss: not what was announced; ResourceExhausted: more than `max_bytes`.
absl::Status FetchModel(const std::shared_ptr<grpc::Channel>& channel,
                        const v1::Artifact& model, const std::string& token,
                        int64_t max_bytes, const std::string& folder,
                        absl::Time deadline);

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_MODEL_FILES_H_
