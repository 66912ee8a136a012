// The client library's part for models and checkpoints.
#ifndef COMERA_CLIENT_MODEL_CLIENT_H_
#define COMERA_CLIENT_MODEL_CLIENT_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/training_client.h"
#include "comera/v1/model_service.pb.h"

namespace comera::client {

// Lists, describes, keeps and deletes models. Retries, deadlines and thread
// safety are those of TrainingClient; statuses are those of
// model_service.proto.
class ModelClient {
 public:
  ModelClient(std::shared_ptr<grpc::Channel> channel,
              const TrainingClient::Options& options);
  // Calls Stop(); all other calls must have returned.
  ~ModelClient();

  struct Filter {
    // The job's name, `jobs/{job}`; empty for all jobs.
    std::string job;
    // The labels that the job must have.
    std::map<std::string, std::string> labels;
    // Part of the name, an alias, or the job's display name or labels.
    std::string text;
    // Only those that are pinned or have an alias.
    bool kept = false;
  };
  // Returns the models of all pages, newest job first; at most `limit` (0:
  // all).
  absl::StatusOr<std::vector<v1::Model>> List(const Filter& filter,
                                              int64_t limit);
  // Returns `jobs/{job}/models/{model}` with the ranks of each layer.
  absl::StatusOr<v1::Model> Get(const std::string& name);
  absl::Status Delete(const std::string& name);
  // Keeps the model from being deleted, or ends that.
  absl::StatusOr<v1::Model> Pin(const std::string& name);
  absl::StatusOr<v1::Model> Unpin(const std::string& name);
  // Lets `models/{name}@{alias}` stand for the model.
  absl::StatusOr<v1::Model> SetAlias(const std::string& alias,
                                     const std::string& model);
  // Returns the model that the alias stands for.
  absl::StatusOr<v1::Model> GetAlias(const std::string& alias);
  absl::Status DeleteAlias(const std::string& alias);
  // Returns a ticket with which the model can be used at `workers/{worker}`.
  absl::StatusOr<v1::CreateTicketResponse> CreateTicket(
      const v1::CreateTicketRequest& request);
  // Returns the checkpoints of `jobs/{job}`, oldest first.
  absl::StatusOr<std::vector<v1::Checkpoint>> ListCheckpoints(
      const std::string& job);

  // Ends all running and later calls with Cancelled.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_MODEL_CLIENT_H_
