// A sweep engine whose effects a test carries out by hand.
#ifndef COMERA_TESTS_SERVER_SWEEP_SWEEP_ENGINE_FIXTURE_H_
#define COMERA_TESTS_SERVER_SWEEP_SWEEP_ENGINE_FIXTURE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/resource_names.h"
#include "server/sweep/sweep_engine.h"
#include "tests/server/sequential_ids.h"

namespace comera::server {

// An engine with the jobs that it asked for and the records that it stored.
class SweepEngineFixture : public ::testing::Test {
 protected:
  SweepEngineFixture() { Restart(); }

  void Restart() {
    engine_ = std::make_unique<SweepEngine>(options_, &ids_);
    std::vector<SweepRecord> records;
    for (const auto& [name, record] : stored_) records.push_back(record);
    engine_->Load(PlanStoredSweeps(std::move(records)), now_);
  }

  // Does what the effects ask for, as the host does.
  void Take(SweepEffects effects) {
    for (auto& [name, record] : effects.records) {
      if (record) {
        stored_[name] = *record;
      } else {
        stored_.erase(name);
      }
    }
    for (const auto& cancel : effects.cancel) cancelled_.push_back(cancel.job);
    paused_.insert(paused_.end(), effects.pause.begin(), effects.pause.end());
    resumed_.insert(resumed_.end(), effects.resume.begin(),
                    effects.resume.end());
    for (auto& create : effects.create) {
      asked_.push_back(create);
      if (!answering_) continue;
      Answer(create);
    }
  }

  void Answer(const SweepEffects::Create& create) {
    // Idempotent, as the coordinator is.
    std::string& name = by_request_[create.request.request_id()];
    if (name.empty()) {
      name = absl::StrCat("jobs/", by_request_.size());
      v1::Job& job = jobs_[name];
      job.set_name(name);
      job.set_state(v1::QUEUED);
      *job.mutable_spec() = create.request.spec();
    }
    SweepEffects effects;
    engine_->Created(create.child, jobs_[name], now_, &effects);
    Take(std::move(effects));
  }

  absl::StatusOr<v1::Sweep> Ask(const v1::CreateSweepRequest& request,
                                const std::string& user, SweepEffects* effects,
                                const SweepQuota& quota = {}) {
    std::vector<FieldViolation> violations;
    PlannedSweep planned = PlanNewSweep(request.spec(), context_, &violations);
    for (const FieldViolation& wrong : violations) {
      ADD_FAILURE() << wrong.field << ": " << wrong.description;
    }
    return engine_->Create(request, std::move(planned), user, now_, effects,
                           quota);
  }

  v1::Sweep Create(const v1::SweepSpec& spec) {
    v1::CreateSweepRequest request;
    *request.mutable_spec() = spec;
    SweepEffects effects;
    const auto sweep = Ask(request, "ada", &effects);
    EXPECT_OK(sweep);
    name_ = sweep->name();
    Take(std::move(effects));
    return sweep.ok() ? *sweep : v1::Sweep();
  }

  const v1::Sweep& sweep() { return *engine_->Find(name_); }

  void Event(const std::string& job, v1::JobEvent event) {
    event.set_job(job);
    event.set_sequence(*engine_->JobSequence(job) + 1);
    SweepEffects effects;
    engine_->ApplyEvent(event, jobs_[job], now_, &effects);
    Take(std::move(effects));
  }

  void Point(const std::string& job, double loss, int64_t size) {
    v1::JobEvent event;
    event.mutable_pareto_point()->set_validation_loss(loss);
    event.mutable_pareto_point()->set_size_parameters(size);
    Event(job, event);
  }

  void End(const std::string& job, v1::JobState state,
           v1::Outcome outcome = v1::TARGET_MET) {
    v1::Job& ended = jobs_[job];
    ended.set_state(state);
    ended.set_reason("the job's reason");
    if (state == v1::SUCCEEDED) ended.set_outcome(outcome);
    if (ended.spec().objective().early().only() && state == v1::SUCCEEDED) {
      v1::Checkpoint& checkpoint = *ended.add_checkpoints();
      checkpoint.set_name(job + "/checkpoints/100");
      checkpoint.mutable_file()->set_path(kTrainingStateFile);
    }
    v1::JobEvent event;
    event.mutable_state_change()->set_state(state);
    Event(job, event);
  }

  void Tick(absl::Duration later = absl::Seconds(1)) {
    now_ += later;
    SweepEffects effects;
    engine_->Tick(now_, &effects);
    Take(std::move(effects));
  }

  SequentialIds ids_;
  absl::Time now_ = absl::FromUnixSeconds(1000000);
  SweepEngine::Options options_;
  std::unique_ptr<SweepEngine> engine_;
  std::map<std::string, SweepRecord> stored_;
  std::map<std::string, v1::Job> jobs_;
  std::map<std::string, std::string> by_request_;
  std::vector<SweepEffects::Create> asked_;
  std::vector<std::string> cancelled_, paused_, resumed_;
  SearchContext context_;
  std::string name_;
  bool answering_ = true;
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_SWEEP_SWEEP_ENGINE_FIXTURE_H_
