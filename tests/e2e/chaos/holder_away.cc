// Pauses a job, waits for that, and tells who holds its checkpoint.
#include "tests/e2e/chaos/holder_away.h"

namespace comera::e2e {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr absl::Duration kLookInterval = absl::Milliseconds(500);

client::TrainingClient::Options QuickOptions() {
  client::TrainingClient::Options options;
  options.timeout = options.attempt_timeout = absl::Seconds(1);
  return options;
}

// The only worker with the newest checkpoint; empty: none, or there are more
// places.
std::string OnlyHolder(const v1::Job& job) {
  if (job.checkpoints().empty()) return "";
  const v1::Checkpoint& newest = *job.checkpoints().rbegin();
  if (newest.durable() || newest.has_file() || newest.workers_size() != 1) {
    return "";
  }
  return newest.workers(0);
}

}  // namespace

HolderAway::HolderAway(const std::string& addresses)
    : client_(client::TrainingClient::Connect(addresses, QuickOptions())) {}

bool HolderAway::Begin(absl::Time now) {
  const auto jobs = client_->List({v1::RUNNING}, 0);
  if (!jobs.ok()) return false;
  for (const v1::Job& job : *jobs) {
    if (!job.sweep().empty() || OnlyHolder(job).empty()) continue;
    if (!client_->Pause(job.name(), "its holder goes away").ok()) return false;
    job_ = job.name();
    give_up_ = now + kPatience;
    return true;
  }
  return false;
}

std::optional<std::string> HolderAway::Holder(absl::Time now) {
  if (!under_way() || now < next_look_) return std::nullopt;
  next_look_ = now + kLookInterval;
  const auto job = client_->Get(job_);
  if (job.ok() && job->state() == v1::PAUSED) {
    const std::string holder = OnlyHolder(*job);
    if (!holder.empty()) return holder;
    give_up_ = now;
  }
  if (now >= give_up_) Resume();
  return std::nullopt;
}

void HolderAway::Resume() {
  // Its owner resumes it later, if this fails.
  ++resumes_[job_];
  client_->Resume(job_).IgnoreError();
  job_.clear();
}

}  // namespace comera::e2e
