// Checks jobs, events, models and processes against what the service promises.

#include "tests/e2e/chaos/checker.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/job_state.h"

namespace comera::e2e {
namespace {

using Violations = std::vector<std::string>;

void CheckAccepted(const Evidence& evidence, Violations* violations) {
  std::map<std::string, int> stored;
  std::set<std::string> accepted;
  for (const server::JobRecord& record : evidence.records) {
    ++stored[record.job().request_id()];
  }
  for (const auto& [request, job] : evidence.accepted) {
    accepted.insert(job);
    if (stored[request] != 1) {
      violations->push_back(absl::StrCat("accepted: ", job, " (", request,
                                         ") is stored ", stored[request],
                                         " times"));
    }
  }
  for (const server::JobRecord& record : evidence.records) {
    if (accepted.count(record.job().name()) == 0) {
      violations->push_back(
          absl::StrCat("accepted: nobody was told of ", record.job().name()));
    }
  }
}

// Checks one job's events against its record and the undisturbed run.
class JobCheck {
 public:
  JobCheck(const server::JobRecord& record, const Reference* reference,
           Violations* violations)
      : job_(record.job()), reference_(reference), violations_(violations) {}

  void Run(const std::vector<v1::JobEvent>& events) {
    for (const v1::JobEvent& event : events) Add(event);
    if (!IsFinal(job_.state())) {
      Violate("terminal", absl::StrCat("is ", v1::JobState_Name(job_.state()),
                                       ": ", job_.reason()));
    } else if (final_states_ != 1) {
      Violate("terminal", absl::StrCat("ended ", final_states_, " times"));
    }
    if (job_.state() != v1::SUCCEEDED) {
      if (IsFinal(job_.state())) {
        Violate("succeeded",
                absl::StrCat("is ", v1::JobState_Name(job_.state()), ": ",
                             job_.reason()));
      }
      return;
    }
    if (job_.models().empty()) Violate("models", "has none");
    if (!result_) Violate("losses", "has no result");
  }

 private:
  void Violate(const std::string& property, const std::string& what) {
    violations_->push_back(
        absl::StrCat(property, ": ", job_.name(), " ", what));
  }

  void Add(const v1::JobEvent& event) {
    if (event.sequence() <= sequence_) {
      Violate("once", absl::StrCat("has event ", event.sequence(), " after ",
                                   sequence_));
    }
    sequence_ = event.sequence();
    if (event.attempt() < attempt_) {
      Violate("once", absl::StrCat("has attempt ", event.attempt(), " after ",
                                   attempt_));
    }
    if (event.attempt() > attempt_) {
      attempt_ = event.attempt();
      begun_ = false;
      step_ = -1;
    }
    if (final_states_ > 0) Violate("terminal", "has events after its end");
    if (event.has_run_info()) AddRun(event.run_info());
    if (event.has_metrics()) AddStep(event.metrics());
    if (event.has_result()) AddResult(event.result());
    if (event.has_state_change() && IsFinal(event.state_change().state())) {
      ++final_states_;
    }
  }

  void AddRun(const v1::RunInfo& info) {
    if (begun_) {
      Violate("once", absl::StrCat("began twice in attempt ", attempt_));
    }
    begun_ = true;
    step_ = info.resumed_from_step();
  }

  void AddStep(const v1::StepMetrics& metrics) {
    const int64_t step = metrics.step();
    if (step <= step_) {
      Violate("once", absl::StrCat("trained step ", step, " after step ", step_,
                                   " in attempt ", attempt_));
    }
    step_ = step;
    if (reference_ == nullptr) return;
    const auto undisturbed = reference_->loss_of_step.find(step);
    if (undisturbed == reference_->loss_of_step.end()) {
      Violate("losses", absl::StrCat("has a step ", step, " too many"));
    } else if (undisturbed->second != metrics.loss()) {
      Violate("losses", absl::StrCat("step ", step, " in attempt ", attempt_,
                                     ": ", metrics.loss(), ", undisturbed ",
                                     undisturbed->second));
    }
  }

  void AddResult(const v1::TrainingResult& result) {
    result_ = true;
    if (reference_ != nullptr &&
        result.validation_loss() != reference_->validation_loss) {
      Violate("losses",
              absl::StrCat("validation loss ", result.validation_loss(),
                           ", undisturbed ", reference_->validation_loss));
    }
  }

  const v1::Job& job_;
  const Reference* const reference_;
  Violations* const violations_;
  int64_t sequence_ = 0, attempt_ = 0;
  bool begun_ = false, result_ = false;
  // The newest step of this attempt.
  int64_t step_ = -1;
  int final_states_ = 0;
};

}  // namespace

absl::StatusOr<References> MakeReferences(const Evidence& evidence) {
  References references;
  for (const server::JobRecord& record : evidence.records) {
    const v1::Job& job = record.job();
    if (job.state() != v1::SUCCEEDED || job.attempt() != 1) {
      return absl::FailedPreconditionError(
          absl::StrCat("the undisturbed ", job.spec().display_name(), " ended ",
                       v1::JobState_Name(job.state()), " in attempt ",
                       job.attempt(), ": ", job.reason()));
    }
    Reference& reference = references[job.spec().display_name()];
    const auto events = evidence.events.find(job.name());
    if (events == evidence.events.end()) continue;
    for (const v1::JobEvent& event : events->second) {
      if (event.has_metrics()) {
        reference.loss_of_step[event.metrics().step()] = event.metrics().loss();
      }
      if (event.has_result()) {
        reference.validation_loss = event.result().validation_loss();
      }
    }
  }
  return references;
}

std::vector<std::string> Check(const Evidence& evidence,
                               const References& references) {
  Violations violations;
  CheckAccepted(evidence, &violations);
  static const std::vector<v1::JobEvent>* const kNone =
      new std::vector<v1::JobEvent>;
  for (const server::JobRecord& record : evidence.records) {
    const auto events = evidence.events.find(record.job().name());
    const auto reference = references.find(record.job().spec().display_name());
    if (reference == references.end()) {
      violations.push_back(absl::StrCat("losses: nothing to compare ",
                                        record.job().name(), " with"));
    }
    JobCheck(record,
             reference == references.end() ? nullptr : &reference->second,
             &violations)
        .Run(events == evidence.events.end() ? *kNone : events->second);
  }
  for (const auto& [rank, starts] : evidence.starts) {
    if (starts <= 1) continue;
    violations.push_back(absl::StrCat("once: rank ", std::get<2>(rank), " of ",
                                      std::get<0>(rank), " began ", starts,
                                      " times in attempt ", std::get<1>(rank)));
  }
  for (const std::string& model : evidence.bad_models) {
    violations.push_back("models: " + model);
  }
  for (const std::string& process : evidence.orphans) {
    violations.push_back("orphans: " + process);
  }
  return violations;
}

}  // namespace comera::e2e
