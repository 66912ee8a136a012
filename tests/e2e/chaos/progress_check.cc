// Looks for the incident that says why an attempt begins where it does.
#include "tests/e2e/chaos/progress_check.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace comera::e2e {
namespace {

// What an incident says when a job begins anew without being asked.
constexpr char kByBudget[] = "as retries.start_over says";
constexpr char kByWish[] = "begun again at step 0";
constexpr char kFromOther[] = "begins from start_from.checkpoint again";

int64_t OriginOf(const v1::Job& job) {
  // The name is jobs/{job}/checkpoints/{step}.
  const std::vector<std::string> parts =
      absl::StrSplit(job.spec().start_from().checkpoint(), '/');
  int64_t step = 0;
  if (parts.size() != 4 || !absl::SimpleAtoi(parts[3], &step)) return 0;
  return step;
}

// The numbers that follow the word "step" in a message.
std::vector<int64_t> StepsIn(const std::string& message) {
  std::vector<int64_t> steps;
  bool next = false;
  for (absl::string_view word :
       absl::StrSplit(message, absl::ByAnyChar(" ,;:()"), absl::SkipEmpty())) {
    int64_t step = 0;
    if (next && absl::SimpleAtoi(word, &step)) steps.push_back(step);
    next = word == "step";
  }
  return steps;
}

}  // namespace

ProgressCheck::ProgressCheck(const v1::Job& job,
                             const std::vector<v1::JobEvent>& events)
    : job_(job), events_(events), origin_(OriginOf(job)) {}

std::string ProgressCheck::Add(const v1::JobEvent& event) {
  if (event.has_metrics()) {
    reached_ = std::max(reached_, event.metrics().step());
  } else if (event.has_checkpoint()) {
    reached_ = std::max(reached_, event.checkpoint().step());
    saved_ = std::max(saved_, event.checkpoint().step());
  } else if (event.has_run_info()) {
    return Begin(event.attempt(), event.run_info().resumed_from_step());
  }
  return "";
}

std::string ProgressCheck::Begin(int64_t attempt, int64_t step) {
  const int64_t reached = std::exchange(reached_, step);
  const int64_t saved = std::exchange(saved_, std::min(saved_, step));
  std::string violation;
  if (step < saved && !IsGivenUp(attempt, step)) {
    violation = absl::StrCat("went back from the checkpoint of step ", saved,
                             " to step ", step, " in attempt ", attempt,
                             ", and no incident says why");
  } else if (step >= saved && step < reached && !WasCutShort(attempt)) {
    violation = absl::StrCat("went back from step ", reached, " to step ", step,
                             " in attempt ", attempt, " without an incident");
  }
  last_begun_ = attempt;
  return violation;
}

bool ProgressCheck::WasCutShort(int64_t attempt) const {
  return std::any_of(
      events_.begin(), events_.end(), [&](const v1::JobEvent& event) {
        if (event.attempt() < last_begun_ || event.attempt() >= attempt) {
          return false;
        }
        // A preempted gang saves its state before it ends. A job that its
        // client cancels has no incidents from then on.
        return event.has_incident()
                   ? event.incident().failure_class() != v1::PREEMPTED
                   : event.state_change().state() == v1::CANCELLING;
      });
}

bool ProgressCheck::IsGivenUp(int64_t attempt, int64_t step) const {
  return std::any_of(
      events_.begin(), events_.end(), [&](const v1::JobEvent& event) {
        if (!event.has_incident() || event.attempt() < last_begun_ ||
            event.attempt() > attempt) {
          return false;
        }
        const v1::Failure& incident = event.incident();
        const std::string& message = incident.message();
        const std::vector<int64_t> steps = StepsIn(message);
        switch (incident.failure_class()) {
          case v1::CHECKPOINT_DAMAGED:
            return std::any_of(steps.begin(), steps.end(),
                               [&](int64_t bad) { return bad > step; });
          case v1::CHECKPOINT_UNREACHABLE:
            if (absl::StrContains(message, kByBudget) &&
                !job_.spec().retries().start_over()) {
              return false;
            }
            if (step == origin_ && absl::StrContains(message, kFromOther)) {
              return true;
            }
            break;
          case v1::USER:
            if (!absl::StrContains(message, kByWish)) return false;
            break;
          default:
            return false;
        }
        // Step 0 is where a job begins that starts from another one's state.
        return std::any_of(steps.begin(), steps.end(), [&](int64_t named) {
          return named == step || (named == 0 && step == origin_);
        });
      });
}

}  // namespace comera::e2e
