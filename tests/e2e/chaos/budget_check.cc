// Charges and refills a job's retry budget by what its events say.
#include "tests/e2e/chaos/budget_check.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "proto/job_state.h"

namespace comera::e2e {
namespace {

constexpr int kDefaultInfrastructure = 3;
constexpr char kNotCharged[] = "charged to no budget";

bool HasBudget(v1::FailureClass cause) {
  return cause != v1::USER && cause != v1::DATA && cause != v1::PREEMPTED;
}

bool IsTraining(v1::FailureClass cause) {
  return cause == v1::OUT_OF_MEMORY || cause == v1::NAN_LOSS ||
         cause == v1::DIVERGED || cause == v1::INTERNAL;
}

// The class in "attempt 3 was lost (NODE_LOST: ...".
std::optional<v1::FailureClass> CauseIn(const v1::JobEvent& event) {
  const std::string& reason = event.state_change().reason();
  absl::string_view rest = reason;
  v1::FailureClass cause;
  if (!absl::ConsumePrefix(
          &rest, absl::StrCat("attempt ", event.attempt(), " was lost (")) ||
      !v1::FailureClass_Parse(std::string(rest.substr(0, rest.find(':'))),
                              &cause)) {
    return std::nullopt;
  }
  return cause;
}

}  // namespace

int BudgetCheck::Allowed(bool infrastructure) const {
  const v1::RetryBudget& budget = job_.spec().retries();
  if (!infrastructure) return budget.training();
  return budget.has_infrastructure() ? budget.infrastructure()
                                     : kDefaultInfrastructure;
}

void BudgetCheck::Add(const v1::JobEvent& event,
                      std::vector<std::string>* violations) {
  if (event.has_dropped()) missed_events_ = true;
  if (missed_events_) return;
  if (event.has_incident()) {
    incidents_.emplace(event.attempt(), event.incident().failure_class());
    troubled_ = true;
  } else if (event.has_checkpoint() && event.checkpoint().step() > best_step_) {
    best_step_ = event.checkpoint().step();
    Charges& charges = books_[true];
    charges.least = std::max(charges.least - 1, 0);
    if (!troubled_) ++refills_;
  } else if (event.has_state_change()) {
    AddState(event, violations);
  }
}

void BudgetCheck::AddState(const v1::JobEvent& event,
                           std::vector<std::string>* violations) {
  switch (const v1::StateChange& change = event.state_change();
          change.state()) {
    case v1::STARTING:
    case v1::RUNNING:
      Start(event, violations);
      break;
    case v1::FAILED:
      SettleRefills();
      Lose(event, change.failure().failure_class(), violations);
      break;
    case v1::QUEUED:
      if (const auto cause = CauseIn(event)) {
        SettleRefills();
        Lose(event, *cause, violations);
      } else if (ended_) {
        // A job that is resumed has a new budget.
        books_.clear();
      }
      break;
    default:
      // Its end was asked for, so the last checkpoints may not count.
      troubled_ = true;
      break;
  }
  ended_ = IsFinal(event.state_change().state());
}

void BudgetCheck::Start(const v1::JobEvent& event,
                        std::vector<std::string>* violations) {
  const int64_t attempt = event.attempt();
  if (attempt == lost_) {
    books_ = before_;
    lost_ = 0;
    return;
  }
  if (event.state_change().state() != v1::STARTING) return;
  if (attempt != started_ + 1) {
    violations->push_back(absl::StrCat("budgets: ", job_.name(),
                                       " started attempt ", attempt,
                                       " after attempt ", started_));
  }
  started_ = attempt;
  lost_ = 0;
  refills_ = 0;
  troubled_ = false;
}

void BudgetCheck::SettleRefills() {
  Charges& charges = books_[true];
  charges.most = std::max(charges.most - refills_, 0);
  refills_ = 0;
}

void BudgetCheck::Lose(const v1::JobEvent& event, v1::FailureClass cause,
                       std::vector<std::string>* violations) {
  const std::string attempt =
      absl::StrCat("budgets: ", job_.name(), " lost attempt ", event.attempt(),
                   " to ", v1::FailureClass_Name(cause));
  if (incidents_.count({event.attempt(), cause}) == 0) {
    violations->push_back(attempt + " without an incident");
  }
  before_ = books_;
  lost_ = event.attempt();
  // Budgets of single classes are not kept here.
  if (!HasBudget(cause) || !job_.spec().retries().classes().empty()) return;
  const bool infrastructure = !IsTraining(cause);
  Charges& charges = books_[infrastructure];
  const int allowed = Allowed(infrastructure);
  const bool failed = event.state_change().state() == v1::FAILED;
  if (failed ||
      !absl::StrContains(event.state_change().reason(), kNotCharged)) {
    ++charges.least;
    ++charges.most;
  }
  if (failed && charges.most <= allowed) {
    violations->push_back(absl::StrCat(attempt, " and failed, with ",
                                       charges.most, " of ", allowed,
                                       " retries charged"));
  }
  if (!failed && charges.least > allowed) {
    violations->push_back(absl::StrCat(attempt, " and went on, with ",
                                       charges.least, " of ", allowed,
                                       " retries charged"));
  }
}

void BudgetCheck::End(std::vector<std::string>* violations) const {
  if (missed_events_ || job_.attempt() == started_) return;
  violations->push_back(absl::StrCat("budgets: ", job_.name(), " tells of ",
                                     job_.attempt(), " attempts, ", started_,
                                     " have started"));
}

}  // namespace comera::e2e
