// Answers Synchronize and uploads as the test configures, and records
// everything.

#include "tests/fakes/fake_worker_service.h"

#include <chrono>
#include <utility>

#include "common/coordinator_address.h"
#include "common/grpc_status.h"
#include "gtest/gtest.h"

namespace comera {
namespace {

template <typename Message>
FakeWorkerService::Key KeyOf(const Message& message) {
  return {message.job(), message.attempt(), message.rank()};
}

}  // namespace

FakeWorkerService::FakeWorkerService() : address_("127.0.0.1:0") { Start(); }

FakeWorkerService::~FakeWorkerService() { Stop(); }

void FakeWorkerService::Start() {
  stopping_ = false;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials(), &port);
  // The coordinator's limit.
  builder.SetMaxReceiveMessageSize(16 << 20);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  ASSERT_NE(server_, nullptr);
  address_ = "127.0.0.1:" + std::to_string(port);
}

void FakeWorkerService::Stop() {
  if (server_ == nullptr) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
}

void FakeWorkerService::Want(std::vector<v1::MemberAssignment> desired) {
  const std::lock_guard<std::mutex> lock(mutex_);
  desired_ = std::move(desired);
  ++version_;
  changed_.notify_all();
}

void FakeWorkerService::SetAcknowledging(bool on) {
  const std::lock_guard<std::mutex> lock(mutex_);
  acknowledging_ = on;
}

void FakeWorkerService::SetForgetting(bool on) {
  const std::lock_guard<std::mutex> lock(mutex_);
  forgetting_ = on;
  ++version_;
  changed_.notify_all();
}

void FakeWorkerService::SetError(absl::Status status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  error_ = std::move(status);
  changed_.notify_all();
}

void FakeWorkerService::SetUploadError(absl::Status status, int64_t term) {
  const std::lock_guard<std::mutex> lock(mutex_);
  upload_term_ = term;
  upload_error_ = std::move(status);
}

void FakeWorkerService::SetUploadErrorOf(const std::string& job,
                                         absl::Status status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  upload_errors_[job] = std::move(status);
}

void FakeWorkerService::SetTerm(int64_t term) {
  const std::lock_guard<std::mutex> lock(mutex_);
  term_ = term;
}

void FakeWorkerService::AddTerm(int64_t term, grpc::ServerContext* context) {
  if (term == 0) return;
  context->AddTrailingMetadata(kTermMetadata, std::to_string(term));
}

void FakeWorkerService::Kill(std::vector<v1::MemberKey> ranks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  desired_.clear();
  kill_ = std::move(ranks);
  ++version_;
  changed_.notify_all();
}

void FakeWorkerService::Offer(const v1::RendezvousEntry& entry) {
  const std::lock_guard<std::mutex> lock(mutex_);
  offered_.push_back(entry);
  ++version_;
  changed_.notify_all();
}

bool FakeWorkerService::WaitFor(const std::function<bool(const State&)>& done) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20),
                           [&] { return done(state_); });
}

FakeWorkerService::State FakeWorkerService::state() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return state_;
}

void FakeWorkerService::Record(const v1::SynchronizeRequest& request,
                               v1::SynchronizeResponse* response) {
  ++state_.calls;
  if (request.seen_version() == version_) ++state_.seen_calls;
  state_.last = request;
  for (const v1::MemberStatus& rank : request.members()) {
    state_.ranks[KeyOf(rank)] = rank;
    if (rank.phase() != v1::MemberStatus::EXITED) continue;
    ++state_.exits_reported[KeyOf(rank)];
    if (!forgetting_) continue;
    v1::MemberKey* key = response->add_forget();
    key->set_job(rank.job());
    key->set_attempt(rank.attempt());
    key->set_rank(rank.rank());
  }
  for (const v1::ProgressReport& report : request.reports()) {
    int64_t& last = last_reports_[{report.job(), report.attempt()}];
    if (report.number() > last) {
      last = report.number();
      state_.reports.push_back(report);
    } else {
      ++state_.repeated_reports;
    }
    if (!acknowledging_) continue;
    v1::ReportAck* ack = response->add_report_acks();
    ack->set_job(report.job());
    ack->set_attempt(report.attempt());
    ack->set_number(report.number());
  }
  for (const v1::LogChunk& chunk : request.logs()) {
    std::string& log = state_.logs[KeyOf(chunk)];
    if (chunk.offset() <= static_cast<int64_t>(log.size())) {
      log.resize(chunk.offset());
      log += chunk.data();
    }
    if (!acknowledging_) continue;
    v1::LogAck* ack = response->add_log_acks();
    ack->set_job(chunk.job());
    ack->set_attempt(chunk.attempt());
    ack->set_rank(chunk.rank());
    ack->set_offset(static_cast<int64_t>(log.size()));
  }
  for (const v1::RendezvousEntry& entry : request.rendezvous()) {
    state_.rendezvous[entry.key()] = entry.value();
  }
  changed_.notify_all();
}

grpc::Status FakeWorkerService::Synchronize(
    grpc::ServerContext* context, const v1::SynchronizeRequest* request,
    v1::SynchronizeResponse* response) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto refuse = [&] {
    ++state_.refused_calls;
    changed_.notify_all();
    AddTerm(term_, context);
    return ToGrpcStatus(error_);
  };
  if (!error_.ok()) return refuse();
  Record(*request, response);
  const auto hold = std::chrono::seconds(request->hold().seconds()) +
                    std::chrono::nanoseconds(request->hold().nanos());
  const auto end = std::chrono::steady_clock::now() + hold;
  const bool acks = response->report_acks_size() + response->log_acks_size() +
                        response->forget_size() >
                    0;
  while (!acks && !stopping_ && error_.ok() && !context->IsCancelled() &&
         request->seen_version() == version_ &&
         std::chrono::steady_clock::now() < end) {
    changed_.wait_for(lock, std::chrono::milliseconds(20));
  }
  if (!error_.ok()) return refuse();
  AddTerm(term_, context);
  for (const v1::MemberAssignment& assignment : desired_) {
    // A member that has ended is not wanted any more.
    if (state_.exits_reported.count(KeyOf(assignment)) == 0) {
      *response->add_desired() = assignment;
    }
  }
  response->set_grant_key("the cluster's");
  for (const v1::HeldCheckpoint& held : request->checkpoints()) {
    for (const auto& [key, status] : state_.ranks) {
      if (std::get<0>(key) == held.job() && status.has_result()) {
        response->add_ended_jobs(held.job());
        break;
      }
    }
  }
  for (const v1::MemberKey& key : kill_) *response->add_kill() = key;
  for (const v1::RendezvousEntry& entry : offered_) {
    *response->add_rendezvous() = entry;
  }
  response->set_desired_version(version_);
  return grpc::Status::OK;
}

grpc::Status FakeWorkerService::UploadArtifact(
    grpc::ServerContext* context,
    grpc::ServerReader<v1::UploadArtifactRequest>* reader,
    v1::UploadArtifactResponse* response) {
  v1::UploadArtifactRequest request;
  v1::UploadArtifactHeader header;
  std::string data;
  while (reader->Read(&request)) {
    if (request.has_header()) {
      header = request.header();
    } else {
      data += request.data();
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string job =
      header.artifact().substr(0, header.artifact().find("/models/"));
  ++state_.uploads;
  ++state_.uploads_of[job];
  changed_.notify_all();
  AddTerm(upload_term_ != 0 ? upload_term_ : term_, context);
  if (!upload_error_.ok()) return ToGrpcStatus(upload_error_);
  if (const absl::Status& error = upload_errors_[job]; !error.ok()) {
    return ToGrpcStatus(error);
  }
  const std::string name = header.artifact() + "/" + header.file().path();
  state_.headers[name] = header.file();
  state_.files[name] = std::move(data);
  return grpc::Status::OK;
}

}  // namespace comera
