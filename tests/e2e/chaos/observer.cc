// Polls all jobs and keeps each change of what is seen.

#include "tests/e2e/chaos/observer.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/e2e/chaos/load.h"

namespace comera::e2e {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(300);

}  // namespace

Observer::Observer(const std::string& addresses,
                   const std::string& fence_path) {
  const std::vector<std::string> all = absl::StrSplit(addresses, ',');
  terms_ = std::make_unique<TermClient>(all, fence_path);
  for (const std::string& text : all) {
    sources_.push_back(
        {text, client::TrainingClient::Connect(text, ChaosClientOptions())});
  }
  thread_ = std::thread([this] { Loop(); });
}

Observer::~Observer() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (const Source& source : sources_) source.client->Stop();
  thread_.join();
}

void Observer::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    for (size_t i = 0; i < sources_.size() && !stopping_; ++i) {
      const Source& source = sources_[i];
      lock.unlock();
      terms_->Ask(i);
      const absl::Time asked = absl::Now();
      const auto jobs = source.client->List({}, 0);
      const absl::Time told = absl::Now();
      lock.lock();
      const std::vector<Answer>& answers = terms_->answers();
      answers_.insert(answers_.end(), answers.begin() + answers_.size(),
                      answers.end());
      if (!jobs.ok()) continue;
      for (const v1::Job& job : *jobs) {
        std::vector<Sighting>& seen =
            sightings_[absl::StrCat(job.name(), " at ", source.address)];
        // What is told was so at some time between question and answer.
        const Sighting now = {job.state(), job.attempt(), job.incidents_size(),
                              told, asked};
        if (seen.empty() || !(seen.back() == now)) seen.push_back(now);
        seen.back().last = asked;
      }
    }
    changed_.wait_for(lock, kInterval, [this] { return stopping_; });
  }
}

std::vector<Answer> Observer::answers() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return answers_;
}

std::map<std::string, std::vector<Sighting>> Observer::sightings() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return sightings_;
}

}  // namespace comera::e2e
