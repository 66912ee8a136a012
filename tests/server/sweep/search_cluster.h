// A cluster that plays the jobs of a search, with curves instead of training.
#ifndef COMERA_TESTS_SERVER_SWEEP_SEARCH_CLUSTER_H_
#define COMERA_TESTS_SERVER_SWEEP_SEARCH_CLUSTER_H_

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/rpc/proto_time.h"
#include "tests/server/sweep/sweep_engine_fixture.h"

namespace comera::server {

// Jobs train as they are told, one event each `stride_` steps. Test fixtures
// say what a model of a job has learned after so many steps.
class SearchCluster : public SweepEngineFixture {
 protected:
  static constexpr double kStepsPerSecond = 20;

  virtual int64_t SizeAt(const v1::JobSpec& spec, int64_t step) = 0;
  virtual double LossAt(const v1::JobSpec& spec, int64_t step) = 0;

  // Whether a job ends with its targets met at this step.
  bool IsMet(const v1::JobSpec& spec, int64_t step) {
    const v1::ObjectiveSpec& objective = spec.objective();
    if (objective.early().only() || step <= objective.early().steps()) {
      return false;
    }
    const int64_t last =
        objective.early().steps() + objective.late().max_steps();
    return LossAt(spec, step) <= objective.late().target_loss() &&
           SizeAt(spec, step) <= SizeAt(spec, last);
  }

  void SetState(const std::string& name, v1::JobState state) {
    jobs_[name].set_state(state);
    v1::JobEvent event;
    event.mutable_state_change()->set_state(state);
    Event(name, event);
  }

  // Carries out the pauses, resumptions and cancellations that were asked for.
  void Obey() {
    while (!paused_.empty() || !resumed_.empty() || !cancelled_.empty()) {
      const auto pause = std::exchange(paused_, {});
      const auto resume = std::exchange(resumed_, {});
      const auto cancel = std::exchange(cancelled_, {});
      for (const std::string& job : cancel) {
        ended_.insert(job);
        jobs_[job].set_state(v1::CANCELLED);
        if (engine_->JobSequence(job)) SetState(job, v1::CANCELLED);
      }
      for (const std::string& job : pause) {
        if (ended_.count(job) == 0) SetState(job, v1::PAUSED);
      }
      for (const std::string& job : resume) {
        if (ended_.count(job) > 0) continue;
        ++attempts_[job];
        SetState(job, v1::QUEUED);
      }
    }
  }

  void Finish(const std::string& name, double loss, v1::Outcome outcome) {
    v1::Job& job = jobs_[name];
    v1::JobEvent event;
    event.mutable_result()->set_outcome(outcome);
    event.mutable_result()->set_validation_loss(loss);
    event.mutable_result()->set_size_parameters(
        SizeAt(job.spec(), job.progress().step()));
    Event(name, event);
    ended_.insert(name);
    End(name, v1::SUCCEEDED, outcome);
  }

  // One stride of a job.
  void Train(const std::string& name) {
    v1::Job& job = jobs_[name];
    job.set_state(v1::RUNNING);
    const v1::ObjectiveSpec& objective = job.spec().objective();
    const int64_t total =
        objective.early().steps() +
        (objective.early().only() ? 0 : objective.late().max_steps());
    const int64_t before =
        std::max(job.progress().step(),
                 job.spec().has_start_from() ? objective.early().steps() : 0);
    const int64_t step = std::min(total, before + stride_);
    const double loss = LossAt(job.spec(), step);
    absl::Time& clock = clocks_.try_emplace(name, now_).first->second;
    clock +=
        absl::Seconds(static_cast<double>(step - before) / kStepsPerSecond);
    const int64_t size = SizeAt(job.spec(), step);
    v1::JobProgress& progress = *job.mutable_progress();
    progress.set_step(step);
    progress.set_total_steps(total);
    progress.set_size_parameters(size);
    v1::JobEvent event;
    event.set_attempt(attempts_[name]);
    *event.mutable_time() = ToTimestamp(clock);
    event.mutable_metrics()->set_step(step);
    event.mutable_metrics()->set_total_steps(total);
    event.mutable_metrics()->set_validation_loss(loss);
    event.mutable_metrics()->set_size_parameters(size);
    Event(name, event);
    trained_ += step - before;
    const bool met = IsMet(job.spec(), step);
    if (met || step >= total) {
      Finish(name, loss, met ? outcome_ : v1::TARGET_MISSED);
    }
  }

  // Trains what may train until the search ends, or `stop` says so.
  void Play(const std::function<bool()>& stop = [] { return false; }) {
    for (int turn = 0; turn < 5000 && !stop(); ++turn) {
      if (IsFinal(sweep().state())) return;
      std::vector<std::string> names;
      for (const auto& [name, job] : jobs_) names.push_back(name);
      for (const std::string& name : names) {
        const v1::JobState state = jobs_[name].state();
        if (ended_.count(name) > 0 || state == v1::PAUSED ||
            !engine_->JobSequence(name)) {
          continue;
        }
        Train(name);
        Obey();
      }
      Tick();
      Obey();
    }
    if (!stop()) ADD_FAILURE() << sweep().DebugString();
  }

  int64_t stride_ = 50;
  // What jobs say that reach their target loss.
  v1::Outcome outcome_ = v1::TARGET_MET;
  std::set<std::string> ended_;
  std::map<std::string, int64_t> attempts_;
  // Each job's own time: they train side by side.
  std::map<std::string, absl::Time> clocks_;
  // Steps that all jobs have done.
  int64_t trained_ = 0;
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_SWEEP_SEARCH_CLUSTER_H_
