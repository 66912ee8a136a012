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

// Channels to the coordinator.
struct CoordinatorChannels {
  // The worker's own, with its token and name: for callers with a ticket.
  std::shared_ptr<grpc::Channel> own;
  // Without a token: for callers without a ticket.
  std::shared_ptr<grpc::Channel> anonymous;
};

// A model that a caller may use for now.
struct GrantedModel {
  v1::Artifact model;
  // The ticket with which this worker may download the model's files; empty
  // for a caller without one.
  std::string download_ticket;
  absl::Time until = absl::InfiniteFuture();
};

// Asks the coordinator whether the holder of `ticket` (empty: anybody) may use
// the model. Returns the statuses of RedeemTicket, or without a ticket those of
// GetModel. PermissionDenied: the ticket is for another model.
absl::StatusOr<GrantedModel> AskForModel(const CoordinatorChannels& channels,
                                         const std::string& name,
                                         const std::string& ticket,
                                         absl::Time deadline,
                                         const std::function<bool()>& gone);

// Asks the coordinator for the models that the caller may use: that of the
// ticket or, without one, those that anybody may see, newest job first, at most
// 1000. Returns the statuses of RedeemTicket or ListModels.
absl::StatusOr<std::vector<v1::Model>> AskForModels(
    const CoordinatorChannels& channels, const std::string& ticket,
    absl::Time deadline, const std::function<bool()>& gone);

// Downloads the model's files to `folder`, except those that are there with the
// announced contents. DataLoss: the contents do not match. ResourceExhausted:
// the files exceed `max_bytes`.
absl::Status FetchModel(const CoordinatorChannels& channels,
                        const GrantedModel& granted, int64_t max_bytes,
                        const std::string& folder, absl::Time deadline,
                        const std::function<bool()>& gone);

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_MODEL_FILES_H_
