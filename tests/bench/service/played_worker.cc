// Synchronizes with the coordinator in place of a worker and reports steps on
// schedule.

#include "tests/bench/service/played_worker.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/grpc_status.h"

namespace comera::bench {

PlayedWorker::PlayedWorker(std::shared_ptr<grpc::Channel> channel, int slots,
                           absl::Duration interval)
    : slots_(slots),
      interval_(interval),
      begin_(absl::Now()),
      stub_(v1::WorkerService::NewStub(channel)) {
  thread_ = std::thread([this] { Loop(); });
}

PlayedWorker::~PlayedWorker() {
  stopping_ = true;
  thread_.join();
}

absl::Status PlayedWorker::status() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

void PlayedWorker::Loop() {
  for (int64_t step = 0; !stopping_; ++step) {
    absl::SleepFor(DueTime(step) - absl::Now());
    Round(step);
  }
}

void PlayedWorker::Round(int64_t step) {
  v1::SynchronizeRequest request;
  request.set_worker("played");
  request.set_incarnation("1");
  request.set_host("localhost");
  request.set_seen_version(seen_version_);
  for (int i = 0; i < slots_; ++i) {
    v1::Slot* slot = request.add_slots();
    slot->set_index(i);
    slot->set_device(v1::ResourceSpec::CPU);
  }
  for (auto& [key, rank] : ranks_) {
    v1::MemberStatus* status = request.add_members();
    status->set_job(rank.assignment.job());
    status->set_attempt(rank.assignment.attempt());
    status->set_rank(rank.assignment.rank());
    status->set_slot(rank.assignment.slot());
    status->set_phase(v1::MemberStatus::RUNNING);
    status->set_step(step);
    if (!reporting_ || rank.assignment.rank() != 0) continue;
    v1::ProgressReport* report = request.add_reports();
    report->set_job(rank.assignment.job());
    report->set_attempt(rank.assignment.attempt());
    report->set_number(++rank.reported);
    v1::StepMetrics* metrics = report->mutable_event()->mutable_metrics();
    metrics->set_step(step);
    metrics->set_total_steps(1000000);
    metrics->set_loss(2.5);
    metrics->set_smoothed_loss(2.25);
    metrics->set_size_parameters(1490157);
    metrics->set_size_bytes(5960628);
    metrics->set_samples_per_second(109.5);
    metrics->set_synchronized_bytes(5960628);
    metrics->set_peak_memory_bytes(287309824);
    metrics->set_gradient_norm(0.75);
    metrics->set_learning_rate_scale(1);
  }
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
  v1::SynchronizeResponse response;
  const grpc::Status status = stub_->Synchronize(&context, request, &response);
  if (!status.ok()) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = FromGrpcStatus(status);
    return;
  }
  reports_ += response.report_acks_size();
  Apply(response);
}

void PlayedWorker::Apply(const v1::SynchronizeResponse& response) {
  seen_version_ = response.desired_version();
  std::map<std::string, Member> wanted;
  for (const v1::MemberAssignment& assignment : response.desired()) {
    const std::string key = absl::StrCat(
        assignment.job(), "/", assignment.attempt(), "/", assignment.rank());
    Member& rank = wanted[key];
    auto known = ranks_.find(key);
    if (known != ranks_.end()) rank.reported = known->second.reported;
    rank.assignment = assignment;
  }
  ranks_ = std::move(wanted);
  ranks_count_ = static_cast<int>(ranks_.size());
}

}  // namespace comera::bench
