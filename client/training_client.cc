// Implements the unary calls of TrainingClient, and connecting.

#include "client/training_client.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/training_client_impl.h"
#include "common/coordinator_address.h"
#include "common/status_macros.h"
#include "grpcpp/grpcpp.h"

namespace comera::client {
namespace {

constexpr int kPageSize = 500;
constexpr int kMaxMessageBytes = 64 << 20;

}  // namespace

grpc::ChannelArguments ClientChannelArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // Quick reconnects, so that a restarted coordinator is found within seconds.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 3000);
  return arguments;
}

namespace {

// Returns a channel on which every call fails.
std::shared_ptr<grpc::Channel> NoChannel() {
  return grpc::CreateChannel("none:1", grpc::InsecureChannelCredentials());
}

}  // namespace

std::unique_ptr<TrainingClient> TrainingClient::Connect(
    const std::string& address, const Options& options) {
  const ChannelSecurity security = options.security;
  const auto open = [security](const std::string& target) {
    return OpenChannel(target, security, ClientChannelArguments());
  };
  Options used = options;
  const auto first = open(address);
  used.unusable.Update(first.status());
  // The client proves who it is to a leader in the same way.
  const auto connect = [open](const std::string& leader) {
    const auto channel = open(leader);
    return channel.ok() ? *channel : NoChannel();
  };
  return std::unique_ptr<TrainingClient>(
      new TrainingClient(std::make_unique<Impl>(
          first.ok() ? *first : NoChannel(), connect, used)));
}

TrainingClient::TrainingClient(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

TrainingClient::TrainingClient(std::shared_ptr<grpc::Channel> channel,
                               const Options& options)
    : impl_(std::make_unique<Impl>(std::move(channel), nullptr, options)) {}

TrainingClient::~TrainingClient() { Stop(); }

absl::StatusOr<v1::Job> TrainingClient::Submit(const v1::JobSpec& spec,
                                               const SubmitOptions& options) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(options.request_id.empty() ? RandomId()
                                                    : options.request_id);
  request.set_validate_only(options.validate_only);
  return impl_->Call(&v1::TrainingService::Stub::CreateJob, request);
}

absl::StatusOr<v1::Job> TrainingClient::Submit(const v1::JobSpec& spec) {
  return Submit(spec, SubmitOptions());
}

absl::StatusOr<v1::Job> TrainingClient::Get(const std::string& name) {
  v1::GetJobRequest request;
  request.set_name(name);
  return impl_->Call(&v1::TrainingService::Stub::GetJob, request);
}

absl::StatusOr<std::vector<v1::Job>> TrainingClient::List(
    const std::vector<v1::JobState>& states, int64_t limit) {
  v1::ListJobsRequest filter;
  for (v1::JobState state : states) filter.add_states(state);
  ASSIGN_OR_RETURN(v1::ListJobsResponse list,
                   ListMatching(std::move(filter), limit));
  return std::vector<v1::Job>(
      std::make_move_iterator(list.mutable_jobs()->begin()),
      std::make_move_iterator(list.mutable_jobs()->end()));
}

absl::StatusOr<v1::ListJobsResponse> TrainingClient::ListMatching(
    v1::ListJobsRequest filter, int64_t limit) {
  v1::ListJobsResponse all;
  filter.clear_page_token();
  do {
    const int64_t missing = limit > 0 ? limit - all.jobs_size() : kPageSize;
    filter.set_page_size(
        static_cast<int32_t>(std::min<int64_t>(missing, kPageSize)));
    ASSIGN_OR_RETURN(v1::ListJobsResponse page,
                     impl_->Call(&v1::TrainingService::Stub::ListJobs, filter));
    all.set_total_size(page.total_size());
    for (v1::Job& job : *page.mutable_jobs()) {
      if (limit > 0 && all.jobs_size() == limit) return all;
      *all.add_jobs() = std::move(job);
    }
    RETURN_IF_ERROR(
        CheckPageToken(page.next_page_token(), filter.page_token()));
    filter.set_page_token(page.next_page_token());
  } while (!filter.page_token().empty() &&
           (limit <= 0 || all.jobs_size() < limit));
  return all;
}

absl::StatusOr<v1::Job> TrainingClient::Cancel(const std::string& name,
                                               const std::string& reason) {
  v1::CancelJobRequest request;
  request.set_name(name);
  request.set_reason(reason);
  return impl_->Call(&v1::TrainingService::Stub::CancelJob, request);
}

absl::StatusOr<v1::Job> TrainingClient::Pause(const std::string& name,
                                              const std::string& reason) {
  v1::PauseJobRequest request;
  request.set_name(name);
  request.set_reason(reason);
  return impl_->Call(&v1::TrainingService::Stub::PauseJob, request);
}

absl::Status TrainingClient::Delete(const std::string& name) {
  v1::DeleteJobRequest request;
  request.set_name(name);
  int tries = 0;
  const absl::Status status =
      impl_->Call(&v1::TrainingService::Stub::DeleteJob, request, &tries)
          .status();
  return DeletionStatus(status, tries);
}

absl::StatusOr<v1::Job> TrainingClient::Resume(const std::string& name,
                                               bool start_over) {
  v1::ResumeJobRequest request;
  request.set_name(name);
  request.set_start_over(start_over);
  return impl_->Call(&v1::TrainingService::Stub::ResumeJob, request);
}

absl::StatusOr<v1::JobSeries> TrainingClient::ReadSeries(
    const v1::ReadSeriesRequest& request) {
  return impl_->Call(&v1::TrainingService::Stub::ReadSeries, request);
}

absl::StatusOr<v1::JobExplanation> TrainingClient::Explain(
    const std::string& name) {
  v1::ExplainJobRequest request;
  request.set_name(name);
  return impl_->Call(&v1::TrainingService::Stub::ExplainJob, request);
}

absl::StatusOr<v1::WorkerSummary> TrainingClient::GetWorker(
    const std::string& name) {
  v1::GetWorkerRequest request;
  request.set_name(name);
  return impl_->Call(&v1::TrainingService::Stub::GetWorker, request);
}

absl::StatusOr<v1::WorkerSummary> TrainingClient::DrainWorker(
    const std::string& name, const std::string& reason, bool wait) {
  v1::DrainWorkerRequest request;
  request.set_name(name);
  request.set_reason(reason);
  request.set_wait(wait);
  return impl_->Call(&v1::TrainingService::Stub::DrainWorker, request);
}

absl::StatusOr<v1::WorkerSummary> TrainingClient::ResumeWorker(
    const std::string& name) {
  v1::ResumeWorkerRequest request;
  request.set_name(name);
  return impl_->Call(&v1::TrainingService::Stub::ResumeWorker, request);
}

absl::Status TrainingClient::DeleteWorker(const std::string& name) {
  v1::DeleteWorkerRequest request;
  request.set_name(name);
  return impl_->Call(&v1::TrainingService::Stub::DeleteWorker, request)
      .status();
}

absl::StatusOr<std::vector<v1::Queue>> TrainingClient::ListQueues() {
  std::vector<v1::Queue> queues;
  v1::ListQueuesRequest request;
  request.set_page_size(kPageSize);
  do {
    ASSIGN_OR_RETURN(v1::ListQueuesResponse page,
                     impl_->Call(&v1::QueueService::Stub::ListQueues, request));
    for (v1::Queue& queue : *page.mutable_queues()) {
      queues.push_back(std::move(queue));
    }
    RETURN_IF_ERROR(
        CheckPageToken(page.next_page_token(), request.page_token()));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return queues;
}

absl::StatusOr<v1::Queue> TrainingClient::CreateQueue(const std::string& id,
                                                      const v1::Queue& queue) {
  v1::CreateQueueRequest request;
  request.set_queue_id(id);
  *request.mutable_queue() = queue;
  return impl_->Call(&v1::QueueService::Stub::CreateQueue, request);
}

absl::StatusOr<v1::Queue> TrainingClient::UpdateQueue(
    const v1::Queue& queue, const std::vector<std::string>& fields) {
  v1::UpdateQueueRequest request;
  *request.mutable_queue() = queue;
  for (const std::string& field : fields) {
    request.mutable_update_mask()->add_paths(field);
  }
  return impl_->Call(&v1::QueueService::Stub::UpdateQueue, request);
}

absl::Status TrainingClient::DeleteQueue(const std::string& name) {
  v1::DeleteQueueRequest request;
  request.set_name(name);
  return impl_->Call(&v1::QueueService::Stub::DeleteQueue, request).status();
}

absl::StatusOr<std::vector<v1::WorkerSummary>> TrainingClient::ListWorkers() {
  ASSIGN_OR_RETURN(v1::ListWorkersResponse response,
                   impl_->Call(&v1::TrainingService::Stub::ListWorkers,
                               v1::ListWorkersRequest()));
  return std::vector<v1::WorkerSummary>(response.workers().begin(),
                                        response.workers().end());
}

absl::StatusOr<std::string> TrainingClient::ServerVersion() {
  ASSIGN_OR_RETURN(v1::ServerInfo info,
                   impl_->Call(&v1::TrainingService::Stub::GetServerInfo,
                               v1::GetServerInfoRequest()));
  return info.version();
}

void TrainingClient::Stop() { impl_->runner().Stop(); }

std::string RandomId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) absl::StrAppendFormat(&id, "%08x", random());
  return id;
}

}  // namespace comera::client
