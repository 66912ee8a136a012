// Submits small jobs and keeps a number of them under way.

#include "tests/e2e/chaos/load.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::e2e {
namespace {

constexpr auto kLookInterval = std::chrono::milliseconds(500);
// More than any chaos run takes from a job.
constexpr int kRetries = 1000;

client::TrainingClient::Options ClientOptions() {
  client::TrainingClient::Options options;
  options.timeout = absl::Seconds(10);
  options.attempt_timeout = absl::Seconds(5);
  return options;
}

}  // namespace

std::vector<v1::JobSpec> ChaosSpecs(const std::string& corpus, int steps) {
  v1::JobSpec spec;
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_family(v1::ModelSpec::MASKED_LM);
  model.set_layers(1);
  model.set_hidden(32);
  model.set_ffn(64);
  model.set_heads(2);
  v1::DataSpec& data = *spec.mutable_data();
  data.mutable_code_directory()->add_roots(corpus);
  data.mutable_code_directory()->add_globs("*.py");
  data.mutable_code_directory()->set_validation_fraction(0.1);
  data.mutable_tokenizer()->set_kind(v1::TokenizerSpec::BYTE_BPE);
  data.mutable_tokenizer()->set_train_vocabulary_size(400);
  data.set_max_length(32);
  spec.mutable_objective()->mutable_early()->set_steps(steps);
  v1::TrainingSpec& training = *spec.mutable_training();
  training.set_batch_size(8);
  // Reports every step, so that a step trained twice would be seen.
  training.set_report_every_steps(1);
  training.set_validate_every_steps(steps);
  training.set_validation_samples(32);
  spec.mutable_checkpoint()->set_every_steps(25);
  v1::ResourceSpec& resources = *spec.mutable_resources();
  resources.set_device(v1::ResourceSpec::CPU);
  resources.set_threads_per_process(1);
  spec.mutable_retries()->set_infrastructure(kRetries);
  // Failures of training itself are not retried: a job that runs out of memory
  // or diverges here is a bug.
  std::vector<v1::JobSpec> specs;
  for (int ranks : {1, 2}) {
    for (int seed : {1, 2, 3}) {
      resources.set_processes(ranks);
      training.set_seed(seed);
      spec.set_display_name(absl::StrCat("ranks-", ranks, "-seed-", seed));
      specs.push_back(spec);
    }
  }
  return specs;
}

ChaosLoad::ChaosLoad(const std::string& address, std::vector<v1::JobSpec> specs,
                     int under_way, int total)
    : client_(client::TrainingClient::Connect(address, ClientOptions())),
      specs_(std::move(specs)),
      under_way_(under_way),
      total_(total) {
  thread_ = std::thread([this] { Loop(); });
}

ChaosLoad::~ChaosLoad() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  client_->Stop();
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
  const auto jobs = client_->List(
      {v1::QUEUED, v1::STARTING, v1::RUNNING, v1::CANCELLING, v1::PAUSED}, 0);
  if (!jobs.ok()) return;
  bool finishing;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    finishing = finishing_;
    idle_ = jobs->empty() && !unsure_;
  }
  changed_.notify_all();
  for (int i = static_cast<int>(jobs->size()); i < under_way_; ++i) {
    if (!unsure_ && (finishing || (total_ > 0 && next_ >= total_))) return;
    const std::string request = absl::StrCat("chaos-", next_);
    client::TrainingClient::SubmitOptions options;
    options.request_id = request;
    const auto job = client_->Submit(specs_[next_ % specs_.size()], options);
    // Sent again in the next round, because it may have been accepted.
    unsure_ = !job.ok();
    if (unsure_) return;
    ++next_;
    std::lock_guard<std::mutex> lock(mutex_);
    idle_ = false;
    accepted_[request] = job->name();
  }
}

bool ChaosLoad::Finish(absl::Duration limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  finishing_ = true;
  // The state may have changed meanwhile.
  idle_ = false;
  return changed_.wait_for(lock, absl::ToChronoMilliseconds(limit),
                           [this] { return idle_; });
}

std::map<std::string, std::string> ChaosLoad::accepted() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return accepted_;
}

}  // namespace comera::e2e
