// Checks jobs, events, models and processes against what the service promises.

#include "tests/e2e/chaos/checker.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/job_state.h"
#include "tests/e2e/chaos/budget_check.h"
#include "tests/e2e/chaos/progress_check.h"
#include "tests/e2e/chaos/state_check.h"

namespace comera::e2e {
namespace {

using Violations = std::vector<std::string>;

void CheckAccepted(const Evidence& evidence, Violations* violations) {
  std::map<std::string, int> stored;
  std::set<std::string> accepted;
  for (const v1::Job& job : evidence.jobs) ++stored[job.request_id()];
  for (const auto& [request, job] : evidence.accepted) {
    accepted.insert(job);
    const auto wishes = evidence.wishes.find(job);
    // Its deletion may have been carried out, whatever the client was told.
    if (wishes != evidence.wishes.end() && wishes->second.deletions > 0 &&
        stored[request] == 0) {
      continue;
    }
    if (stored[request] != 1) {
      violations->push_back(absl::StrCat("accepted: ", job, " (", request,
                                         ") is stored ", stored[request],
                                         " times"));
    }
  }
  const std::set<std::string> sweeps(evidence.accepted_sweeps.begin(),
                                     evidence.accepted_sweeps.end());
  for (const v1::Job& job : evidence.jobs) {
    if (accepted.count(job.name()) == 0 && sweeps.count(job.sweep()) == 0) {
      violations->push_back(
          absl::StrCat("accepted: nobody was told of ", job.name()));
    }
  }
}

void CheckSweeps(const Evidence& evidence, Violations* violations) {
  for (const std::string& name : evidence.accepted_sweeps) {
    const auto sweep = evidence.sweeps.find(name);
    if (sweep == evidence.sweeps.end()) {
      violations->push_back(absl::StrCat("accepted: ", name, " is not known"));
    } else if (const auto state = sweep->second.state();
               state != v1::Sweep::SUCCEEDED) {
      const bool ended =
          state == v1::Sweep::FAILED || state == v1::Sweep::CANCELLED;
      violations->push_back(absl::StrCat(
          ended ? "succeeded: " : "terminal: ", name, " is ",
          v1::Sweep::State_Name(state), ": ", sweep->second.reason()));
    }
  }
}

void CheckSightings(const std::string& job, const Wishes& wishes,
                    const std::vector<Sighting>& sightings,
                    Violations* violations) {
  int reopens = 0;
  for (size_t i = 1; i < sightings.size(); ++i) {
    const Sighting &before = sightings[i - 1], &now = sightings[i];
    if (now.attempt < before.attempt) {
      violations->push_back(absl::StrCat("monotonic: ", job, " had attempt ",
                                         now.attempt, " after attempt ",
                                         before.attempt));
    }
    if (now.incidents < before.incidents) {
      violations->push_back(absl::StrCat("monotonic: ", job, " had ",
                                         now.incidents, " incidents after ",
                                         before.incidents));
    }
    if (!IsFinal(before.state) || now.state == before.state) continue;
    if (before.state != v1::SUCCEEDED &&
        ++reopens <= wishes.reopens + wishes.start_overs) {
      continue;
    }
    violations->push_back(absl::StrCat("terminal: ", job, " was ",
                                       v1::JobState_Name(now.state), " after ",
                                       v1::JobState_Name(before.state)));
  }
}

std::string JobSeen(const std::string& seen_as) {
  // The name is followed by the coordinator that was asked.
  return seen_as.substr(0, seen_as.find(' '));
}

// A job whose time limit ended it was seen for at least that long, by the
// client's own clock. Only its first end is looked at.
void CheckTimeLimit(const v1::Job& job, const Evidence& evidence,
                    Violations* violations) {
  if (!job.spec().has_time_limit()) return;
  const auto events = evidence.events.find(job.name());
  if (events == evidence.events.end()) return;
  const auto first_end =
      std::find_if(events->second.begin(), events->second.end(),
                   [](const v1::JobEvent& event) {
                     return event.has_state_change() &&
                            IsFinal(event.state_change().state());
                   });
  if (first_end == events->second.end() ||
      !absl::StrContains(first_end->state_change().failure().message(),
                         "time_limit")) {
    return;
  }
  const absl::Duration limit =
      absl::Seconds(job.spec().time_limit().seconds()) +
      absl::Nanoseconds(job.spec().time_limit().nanos());
  // A coordinator that follows may tell old news, but the one that leads does
  // not: the first to tell of a change tells when it was at the latest.
  absl::Time waited = absl::InfiniteFuture(), failed = absl::InfiniteFuture();
  for (const auto& [seen_as, sightings] : evidence.sightings) {
    if (JobSeen(seen_as) != job.name() || sightings.empty()) continue;
    waited =
        std::min(waited, sightings.front().attempt == 0 ? sightings.front().last
                                                        : absl::InfinitePast());
    const auto end = std::find_if(
        sightings.begin(), sightings.end(),
        [](const Sighting& sighting) { return IsFinal(sighting.state); });
    if (end != sightings.end() && end->state == v1::FAILED) {
      failed = std::min(failed, end->first);
    }
  }
  if (failed == absl::InfiniteFuture() || failed - waited >= limit) return;
  violations->push_back(absl::StrCat("budgets: ", job.name(), " failed within ",
                                     absl::FormatDuration(failed - waited),
                                     ", before its time limit of ",
                                     absl::FormatDuration(limit)));
}

void CheckKept(const Evidence& evidence, Violations* violations) {
  for (const auto& [name, wishes] : evidence.wishes) {
    const auto job =
        std::find_if(evidence.jobs.begin(), evidence.jobs.end(),
                     [&](const v1::Job& one) { return one.name() == name; });
    if (wishes.deleted && job != evidence.jobs.end()) {
      violations->push_back(absl::StrCat("kept: ", name, " was deleted"));
    }
    for (const std::string& pinned : wishes.pinned) {
      const bool kept =
          job != evidence.jobs.end() &&
          std::any_of(job->models().begin(), job->models().end(),
                      [&](const v1::Artifact& model) {
                        return model.name() == pinned && model.pinned();
                      });
      if (kept) continue;
      violations->push_back(
          absl::StrCat("kept: ", pinned, " was pinned, and is not any more"));
    }
  }
}

void CheckAnswers(const Evidence& evidence, Violations* violations) {
  std::set<std::string> found;
  for (const Answer& answer : evidence.answers) {
    if (answer.term >= answer.newest) continue;
    // The same leader answers many requests.
    const std::string violation = absl::StrCat(
        "leaders: ", answer.coordinator, " answered in term ", answer.term,
        " what was asked after an answer of term ", answer.newest,
        answer.fenced ? ", and the workers' fence let it pass" : "");
    if (found.insert(violation).second) violations->push_back(violation);
  }
}

void CheckStarts(const Evidence::Starts& starts, const std::string& where,
                 Violations* violations) {
  for (const auto& [rank, count] : starts) {
    if (count <= 1) continue;
    violations->push_back(absl::StrCat(
        "once: rank ", std::get<2>(rank), " of ", std::get<0>(rank), " began ",
        count, " times in attempt ", std::get<1>(rank), where));
  }
}

// Checks one job's events against its record and the undisturbed run.
class JobCheck {
 public:
  JobCheck(const v1::Job& job, const Wishes& wishes, const Reference* reference,
           Violations* violations)
      : job_(job),
        wishes_(wishes),
        reference_(reference),
        violations_(violations) {}

  void Run(const std::vector<v1::JobEvent>& events) {
    ProgressCheck progress(job_, events);
    BudgetCheck budget(job_);
    for (const v1::JobEvent& event : events) {
      Add(event);
      if (const std::string fall = progress.Add(event); !fall.empty()) {
        Violate("progress", fall);
      }
      budget.Add(event, violations_);
    }
    budget.End(violations_);
    if (!IsFinal(job_.state())) {
      Violate("terminal", absl::StrCat("is ", v1::JobState_Name(job_.state()),
                                       ": ", job_.reason()));
    } else if (final_states_ != 1) {
      Violate("terminal", absl::StrCat("ended ", final_states_, " times"));
    }
    if (job_.state() != v1::SUCCEEDED) {
      const bool wanted = job_.state() == v1::CANCELLED && wishes_.cancels > 0;
      if (IsFinal(job_.state()) && !wanted) {
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
    if (final_states_ > 0) Reopen(event);
    if (event.has_run_info()) AddRun(event.run_info());
    if (event.has_metrics()) AddStep(event.metrics());
    if (event.has_result()) AddResult(event.result());
    if (event.has_state_change() && IsFinal(event.state_change().state())) {
      ++final_states_;
      ended_ = event.state_change().state();
    }
  }

  // Takes an event after the end.
  void Reopen(const v1::JobEvent& event) {
    const bool incident = event.has_incident();
    if (ended_ == v1::SUCCEEDED ||
        reopens_ >= wishes_.reopens + wishes_.start_overs ||
        (!incident && event.state_change().state() != v1::QUEUED)) {
      return Violate("terminal", "has events after its end");
    }
    // What is given up comes before the new state.
    if (incident) return;
    ++reopens_;
    --final_states_;
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
    // A job that was told to end leaves the model that it has.
    if (result.outcome() == v1::OUTCOME_UNSPECIFIED) return;
    result_ = true;
    if (reference_ != nullptr && result.outcome() != reference_->outcome) {
      Violate("losses",
              absl::StrCat("ended ", v1::Outcome_Name(result.outcome()),
                           ", undisturbed ",
                           v1::Outcome_Name(reference_->outcome)));
    }
    if (reference_ != nullptr &&
        result.validation_loss() != reference_->validation_loss) {
      Violate("losses",
              absl::StrCat("validation loss ", result.validation_loss(),
                           ", undisturbed ", reference_->validation_loss));
    }
  }

  const v1::Job& job_;
  const Wishes& wishes_;
  const Reference* const reference_;
  Violations* const violations_;
  int64_t sequence_ = 0, attempt_ = 0;
  bool begun_ = false, result_ = false;
  // The newest step of this attempt.
  int64_t step_ = -1;
  // How often it ended, and went on after that.
  int final_states_ = 0, reopens_ = 0;
  v1::JobState ended_ = v1::JOB_STATE_UNSPECIFIED;
};

}  // namespace

absl::StatusOr<References> MakeReferences(const Evidence& evidence) {
  References references;
  for (const v1::Job& job : evidence.jobs) {
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
        reference.outcome = event.result().outcome();
      }
    }
  }
  return references;
}

std::vector<std::string> Check(const Evidence& evidence,
                               const References& references) {
  Violations violations;
  CheckAccepted(evidence, &violations);
  CheckSweeps(evidence, &violations);
  CheckKept(evidence, &violations);
  CheckStates(evidence, &violations);
  CheckAnswers(evidence, &violations);
  static const std::vector<v1::JobEvent>* const kNone =
      new std::vector<v1::JobEvent>;
  static const Wishes* const kNoWishes = new Wishes;
  const auto wishes_of = [&](const std::string& job) -> const Wishes& {
    const auto wishes = evidence.wishes.find(job);
    return wishes == evidence.wishes.end() ? *kNoWishes : wishes->second;
  };
  for (const v1::Job& job : evidence.jobs) {
    const auto events = evidence.events.find(job.name());
    const auto found = references.find(job.spec().display_name());
    const Reference* reference =
        found == references.end() ? nullptr : &found->second;
    // Sums over gangs of other sizes are rounded differently.
    const bool comparable =
        job.sweep().empty() && job.spec().resources().min_processes() == 0;
    if (!comparable) {
      reference = nullptr;
    } else if (reference == nullptr) {
      violations.push_back(
          absl::StrCat("losses: nothing to compare ", job.name(), " with"));
    }
    CheckTimeLimit(job, evidence, &violations);
    JobCheck(job, wishes_of(job.name()), reference, &violations)
        .Run(events == evidence.events.end() ? *kNone : events->second);
  }
  for (const auto& [seen_as, sightings] : evidence.sightings) {
    CheckSightings(seen_as, wishes_of(JobSeen(seen_as)), sightings,
                   &violations);
  }
  CheckStarts(evidence.starts, "", &violations);
  CheckStarts(evidence.log_starts, " by its log", &violations);
  for (const std::string& answer : evidence.wrong_answers) {
    violations.push_back("kept: " + answer);
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
