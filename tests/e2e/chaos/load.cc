// Submits small jobs and keeps a number of them under way.

#include "tests/e2e/chaos/load.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/dataset_client.h"
#include "client/local_files.h"
#include "common/status_macros.h"
#include "grpcpp/grpcpp.h"
#include "proto/job_state.h"
#include "tests/e2e/chaos/specs.h"

namespace comera::e2e {
namespace {

constexpr auto kLookInterval = std::chrono::milliseconds(500);
// In units of rounds.
constexpr int kSweepEvery = 40, kForkEvery = 4;
// Succeeded jobs among which an early stage is looked for.
constexpr int64_t kLookedAt = 30;

}  // namespace

std::shared_ptr<grpc::Channel> AnyCoordinator(const std::string& addresses) {
  return grpc::CreateChannel("ipv4:" + addresses,
                             grpc::InsecureChannelCredentials());
}

client::TrainingClient::Options ChaosClientOptions() {
  client::TrainingClient::Options options;
  options.timeout = absl::Seconds(10);
  options.attempt_timeout = absl::Seconds(5);
  return options;
}

absl::Status UploadChaosDataset(const std::string& addresses,
                                const std::string& corpus) {
  ASSIGN_OR_RETURN(const client::LocalFiles files,
                   client::FindLocalFiles({corpus}));
  client::DatasetClient datasets(AnyCoordinator(addresses),
                                 ChaosClientOptions());
  return datasets.Upload(kChaosDataset, files.files, {}, {}).status();
}

ChaosLoad::ChaosLoad(const Options& options, std::vector<v1::JobSpec> specs)
    : options_(options),
      client_(client::TrainingClient::Connect(options.addresses,
                                              ChaosClientOptions())),
      sweeps_(AnyCoordinator(options.addresses), ChaosClientOptions()),
      owner_(client_.get(), options.addresses, options.plain),
      store_watch_(options.store),
      specs_(std::move(specs)) {
  thread_ = std::thread([this] { Loop(); });
}

ChaosLoad::~ChaosLoad() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  client_->Stop();
  sweeps_.Stop();
  owner_.Stop();
  thread_.join();
}

bool ChaosLoad::Stopping() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

void ChaosLoad::Loop() {
  while (!Stopping()) {
    Round();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, kLookInterval, [this] { return stopping_; });
  }
}

void ChaosLoad::Round() {
  const absl::Time asked = absl::Now();
  const auto jobs =
      client_->List({v1::QUEUED, v1::STARTING, v1::RUNNING, v1::CANCELLING,
                     v1::PAUSED, v1::FAILED, v1::CANCELLED},
                    0);
  if (!jobs.ok()) return;
  if (!options_.store.empty()) store_watch_.Check(*jobs, asked, absl::Now());
  bool finishing;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    finishing = finishing_;
  }
  if (options_.meddle) {
    if (unsure_of_sweep_ ||
        (options_.sweeps && !finishing && round_ % kSweepEvery == 1)) {
      SubmitSweep();
    }
    owner_.Act(*jobs, finishing);
  }
  if (!options_.plain && early_stage_.empty() && round_ % kForkEvery == 0) {
    FindEarlyStage();
  }
  ++round_;
  int under_way = 0;
  bool idle = !pending_ && !unsure_of_sweep_ && (!finishing || SweepsEnded());
  for (const v1::Job& job : *jobs) {
    const bool active = !IsFinal(job.state());
    if (active) ++under_way;
    if (active || (options_.meddle && owner_.MayGoOn(job))) idle = false;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_ = idle;
    wishes_ = owner_.wishes();
    wrong_answers_ = owner_.wrong_answers();
    for (const std::string& violation : store_watch_.violations()) {
      wrong_answers_.push_back(violation);
    }
  }
  changed_.notify_all();
  while (under_way++ < options_.under_way) {
    if (!Submit(finishing)) return;
  }
}

void ChaosLoad::FindEarlyStage() {
  const auto jobs = client_->List({v1::SUCCEEDED}, kLookedAt);
  if (!jobs.ok()) return;
  for (const v1::Job& job : *jobs) {
    if (!LeavesEarlyStage(job.spec())) continue;
    for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
      if (checkpoint.has_file()) early_stage_ = checkpoint.name();
    }
  }
}

bool ChaosLoad::Submit(bool finishing) {
  if (!pending_) {
    const bool enough = options_.total > 0 && next_ >= options_.total;
    if (finishing || enough) return false;
    v1::JobSpec spec = specs_[next_ % specs_.size()];
    if (StartsFromEarlyStage(spec)) {
      if (early_stage_.empty() && options_.total > 0) return false;
      if (early_stage_.empty()) {
        spec = specs_.front();
      } else {
        spec.mutable_start_from()->set_checkpoint(early_stage_);
      }
    }
    pending_ = std::move(spec);
  }
  const std::string request = absl::StrCat("chaos-", next_);
  client::TrainingClient::SubmitOptions options;
  options.request_id = request;
  const auto job = client_->Submit(*pending_, options);
  // Sent again in the next round, because it may have been accepted.
  if (!job.ok()) return false;
  pending_.reset();
  ++next_;
  std::lock_guard<std::mutex> lock(mutex_);
  idle_ = false;
  accepted_[request] = job->name();
  return true;
}

void ChaosLoad::SubmitSweep() {
  v1::SweepSpec spec;
  *spec.mutable_job() = specs_.front();
  spec.mutable_job()->set_display_name("sweep");
  spec.mutable_grid()->add_seeds(1);
  spec.mutable_grid()->add_seeds(2);
  client::SweepClient::SubmitOptions options;
  options.request_id = absl::StrCat("chaos-sweep-", next_sweep_);
  const auto sweep = sweeps_.Submit(spec, options);
  unsure_of_sweep_ = !sweep.ok();
  if (unsure_of_sweep_) return;
  ++next_sweep_;
  std::lock_guard<std::mutex> lock(mutex_);
  accepted_sweeps_.push_back(sweep->name());
}

bool ChaosLoad::SweepsEnded() {
  const auto sweeps = ReadSweeps();
  if (!sweeps.ok()) return false;
  for (const auto& [name, sweep] : *sweeps) {
    if (sweep.state() == v1::Sweep::ACTIVE ||
        sweep.state() == v1::Sweep::CANCELLING) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<std::map<std::string, v1::Sweep>> ChaosLoad::ReadSweeps() {
  std::map<std::string, v1::Sweep> sweeps;
  for (const std::string& name : accepted_sweeps()) {
    auto sweep = sweeps_.Get(name);
    // What is not known is missing from the answer.
    if (absl::IsNotFound(sweep.status())) continue;
    if (!sweep.ok()) return sweep.status();
    sweeps[name] = *std::move(sweep);
  }
  return sweeps;
}

std::vector<std::string> ChaosLoad::accepted_sweeps() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return accepted_sweeps_;
}

bool ChaosLoad::Finish(absl::Duration limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  finishing_ = true;
  // The state may have changed meanwhile.
  idle_ = false;
  return changed_.wait_for(lock, absl::ToChronoMilliseconds(limit),
                           [this] { return idle_; });
}

std::map<std::string, Wishes> ChaosLoad::wishes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return wishes_;
}

std::vector<std::string> ChaosLoad::wrong_answers() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return wrong_answers_;
}

std::map<std::string, std::string> ChaosLoad::accepted() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return accepted_;
}

}  // namespace comera::e2e
