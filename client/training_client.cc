#include "client/training_client.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/artifact_file.h"
#include "client/call_runner.h"
#include "client/leader_stub.h"
#include "comera/v1/backup_service.grpc.pb.h"
#include "comera/v1/queue_service.grpc.pb.h"
#include "comera/v1/training_service.grpc.pb.h"
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
  // A restarted coordinator is found again within seconds.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 3000);
  return arguments;
}

namespace {

// Its calls fail.
std::shared_ptr<grpc::Channel> NoChannel() {
  return grpc::CreateChannel("none:1", grpc::InsecureChannelCredentials());
}

}  // namespace

class TrainingClient::Impl {
 public:
  Impl(std::shared_ptr<grpc::Channel> channel, LeaderStub::Connect connect,
       const Options& options)
      : stub_(std::move(channel), std::move(connect)),
        runner_(options, [this] { return stub_.Channel(); }) {}

  // A unary call of `method`.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(
      grpc::Status (v1::TrainingService::Stub::*method)(grpc::ClientContext*,
                                                        const Request&,
                                                        Response*),
      const Request& request) {
    Response response;
    RETURN_IF_ERROR(runner_.Unary([&](grpc::ClientContext* context) {
      response.Clear();
      const grpc::Status status =
          (stub_.Get().get()->*method)(context, request, &response);
      stub_.Seen(status);
      return status;
    }));
    return response;
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(
      grpc::Status (v1::QueueService::Stub::*method)(grpc::ClientContext*,
                                                     const Request&, Response*),
      const Request& request) {
    Response response;
    RETURN_IF_ERROR(runner_.Unary([&](grpc::ClientContext* context) {
      response.Clear();
      const auto stub = v1::QueueService::NewStub(stub_.Channel());
      const grpc::Status status =
          (stub.get()->*method)(context, request, &response);
      stub_.Seen(status);
      return status;
    }));
    return response;
  }

  LeaderStub& stub() { return stub_; }
  CallRunner& runner() { return runner_; }

 private:
  LeaderStub stub_;
  CallRunner runner_;
};

std::unique_ptr<TrainingClient> TrainingClient::Connect(
    const std::string& address, const Options& options) {
  const ChannelSecurity security = options.security;
  const auto open = [security](const std::string& target) {
    return OpenChannel(target, security, ClientChannelArguments());
  };
  Options used = options;
  const auto first = open(address);
  used.unusable.Update(first.status());
  // Where the coordinator sends the client, it shows itself in the same way.
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
  std::vector<v1::Job> jobs;
  v1::ListJobsRequest request;
  request.set_page_size(kPageSize);
  for (v1::JobState state : states) request.add_states(state);
  do {
    ASSIGN_OR_RETURN(
        v1::ListJobsResponse page,
        impl_->Call(&v1::TrainingService::Stub::ListJobs, request));
    for (v1::Job& job : *page.mutable_jobs()) {
      if (limit > 0 && static_cast<int64_t>(jobs.size()) == limit) return jobs;
      jobs.push_back(std::move(job));
    }
    if (!page.next_page_token().empty() &&
        page.next_page_token() == request.page_token()) {
      return absl::InternalError("the server repeats a page token");
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return jobs;
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

absl::StatusOr<v1::Job> TrainingClient::Resume(const std::string& name) {
  v1::ResumeJobRequest request;
  request.set_name(name);
  return impl_->Call(&v1::TrainingService::Stub::ResumeJob, request);
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
    if (!page.next_page_token().empty() &&
        page.next_page_token() == request.page_token()) {
      return absl::InternalError("the server repeats a page token");
    }
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

absl::StatusOr<v1::Job> TrainingClient::Watch(const std::string& name,
                                              const WatchOptions& options,
                                              const JobCallback& on_job,
                                              const EventCallback& on_event) {
  int64_t last = options.after_sequence;
  bool final = false;
  const auto handle = [&](const v1::WatchJobResponse& response) {
    if (response.has_job()) {
      final = final || IsFinal(response.job().state());
      if (on_job) on_job(response.job());
      return;
    }
    const v1::JobEvent& event = response.event();
    // A notice of lost events has no number of its own.
    const bool numbered = event.sequence() > 0;
    if (numbered && event.sequence() <= last) return;
    if (numbered) last = event.sequence();
    if (event.has_state_change()) {
      final = final || IsFinal(event.state_change().state());
    }
    if (on_event) on_event(event);
  };
  RETURN_IF_ERROR(impl_->runner().Stream(
      options.deadline, [&](grpc::ClientContext* context) {
        v1::WatchJobRequest request;
        request.set_name(name);
        request.set_after_sequence(last);
        const auto stub = impl_->stub().Get();
        auto reader = stub->WatchJob(context, request);
        CallRunner::StreamEnd end;
        v1::WatchJobResponse response;
        while (reader->Read(&response)) {
          end.progressed = true;
          handle(response);
        }
        end.status = reader->Finish();
        impl_->stub().Seen(end.status);
        // Only a stream that the server ended has told everything.
        end.done = end.status.ok() && final;
        return end;
      }));
  return Get(name);
}

absl::Status TrainingClient::ReadLog(
    const std::string& name, const LogOptions& options,
    const std::function<void(const std::string&)>& sink) {
  v1::ReadLogRequest request;
  request.set_name(name);
  request.set_rank(options.rank);
  request.set_epoch(options.epoch);
  request.set_offset(options.offset);
  request.set_follow(options.follow);
  return impl_->runner().Stream(
      absl::InfiniteFuture(), [&](grpc::ClientContext* context) {
        const auto stub = impl_->stub().Get();
        auto reader = stub->ReadLog(context, request);
        CallRunner::StreamEnd end;
        v1::ReadLogResponse response;
        while (reader->Read(&response)) {
          end.progressed = true;
          // Not the log of a newer attempt from this one's offset.
          if (response.epoch() > 0) request.set_epoch(response.epoch());
          // What came before a disconnect is not told twice.
          const int64_t known = request.offset() - response.offset();
          const int64_t size = response.data().size();
          if (known >= size) continue;
          sink(known > 0 ? response.data().substr(known) : response.data());
          request.set_offset(response.offset() + size);
        }
        end.status = reader->Finish();
        impl_->stub().Seen(end.status);
        // A quiet log may live out a whole stream.
        end.progressed |=
            end.status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
        end.done = end.status.ok();
        return end;
      });
}

absl::Status TrainingClient::DownloadArtifact(const std::string& artifact,
                                              const v1::ArtifactFile& file,
                                              const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ArtifactFileWriter> writer,
                   ArtifactFileWriter::Create(path, file));
  absl::Status write_status;
  RETURN_IF_ERROR(impl_->runner().Stream(
      absl::InfiniteFuture(), [&](grpc::ClientContext* context) {
        v1::DownloadArtifactRequest request;
        request.set_name(artifact);
        request.set_path(file.path());
        request.set_offset(writer->size());
        const auto stub = impl_->stub().Get();
        auto reader = stub->DownloadArtifact(context, request);
        CallRunner::StreamEnd end;
        v1::DownloadArtifactResponse response;
        while (write_status.ok() && reader->Read(&response)) {
          end.progressed = !response.data().empty();
          write_status = writer->Append(response.offset(), response.data());
        }
        if (!write_status.ok()) {
          context->TryCancel();
          end.done = true;
        }
        end.status = reader->Finish();
        impl_->stub().Seen(end.status);
        end.done |= end.status.ok();
        return end;
      }));
  RETURN_IF_ERROR(write_status);
  return writer->Finish();
}

absl::Status TrainingClient::CreateBackup(const std::string& path) {
  absl::Status write_status;
  RETURN_IF_ERROR(impl_->runner().Stream(
      absl::InfiniteFuture(), [&](grpc::ClientContext* context) {
        // Each try is a copy of its own moment.
        std::unique_ptr<ArtifactFileWriter> writer;
        const auto stub = v1::BackupService::NewStub(impl_->stub().Channel());
        auto reader = stub->CreateBackup(context, v1::CreateBackupRequest());
        CallRunner::StreamEnd end;
        v1::CreateBackupResponse response;
        while (write_status.ok() && reader->Read(&response)) {
          if (writer != nullptr) {
            write_status = writer->Append(writer->size(), response.data());
            continue;
          }
          v1::ArtifactFile file;
          file.set_path(path);
          file.set_size_bytes(response.size_bytes());
          file.set_sha256(response.sha256());
          auto created = ArtifactFileWriter::Create(path, file);
          write_status = created.status();
          if (created.ok()) writer = *std::move(created);
        }
        if (!write_status.ok()) context->TryCancel();
        end.status = reader->Finish();
        impl_->stub().Seen(end.status);
        end.done = end.status.ok() || !write_status.ok();
        if (end.status.ok() && write_status.ok()) {
          write_status = writer == nullptr
                             ? absl::DataLossError("the server sent nothing")
                             : writer->Finish();
        }
        return end;
      }));
  return write_status;
}

void TrainingClient::Stop() { impl_->runner().Stop(); }

std::string RandomId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) absl::StrAppendFormat(&id, "%08x", random());
  return id;
}

}  // namespace comera::client
