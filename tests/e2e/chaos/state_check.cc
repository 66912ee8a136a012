// Compares what workers say of the states that they fetch with where attempts
// began.
#include "tests/e2e/chaos/state_check.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace comera::e2e {
namespace {

// What the coordinator's incident says when an attempt begins too early.
constexpr char kElsewhere[] = "was to go on from step";

using Begun = std::map<int64_t, int64_t>;  // steps by attempt

Begun BegunIn(const std::vector<v1::JobEvent>& events) {
  Begun begun;
  for (const v1::JobEvent& event : events) {
    if (event.has_run_info()) {
      begun.emplace(event.attempt(), event.run_info().resumed_from_step());
    }
  }
  return begun;
}

// Returns the violation, empty if there is none.
std::string CheckFetch(const StateFetch& fetch, const Begun& begun) {
  const auto own = begun.find(fetch.attempt);
  if (own == begun.end()) return "";
  const std::string attempt =
      absl::StrCat(fetch.job, " attempt ", fetch.attempt);
  if (fetch.saved_by == 0) {
    if (fetch.step <= 0) return "";
    return absl::StrCat(attempt, " was told of no state, and its worker chose ",
                        "that of step ", fetch.step);
  }
  if (own->second != fetch.step) {
    return absl::StrCat(attempt, " was to go on from step ", fetch.step,
                        " and began from step ", own->second);
  }
  if (fetch.saved_by >= fetch.attempt) return "";
  for (auto later = begun.upper_bound(fetch.saved_by); later != own; ++later) {
    if (later->second >= fetch.step) continue;
    return absl::StrCat(attempt, " goes on from step ", fetch.step,
                        " of attempt ", fetch.saved_by, ", which attempt ",
                        later->first, " gave up when it began from step ",
                        later->second);
  }
  return "";
}

}  // namespace

void CheckStates(const Evidence& evidence,
                 std::vector<std::string>* violations) {
  // A coordinator of an earlier version names no states, and its workers
  // choose.
  if (evidence.mixed_versions) return;
  std::map<std::string, Begun> begun;
  for (const auto& [job, events] : evidence.events) {
    begun[job] = BegunIn(events);
    for (const v1::JobEvent& event : events) {
      if (event.has_incident() &&
          absl::StrContains(event.incident().message(), kElsewhere)) {
        violations->push_back(
            absl::StrCat("states: ", job, ": ", event.incident().message()));
      }
    }
  }
  // A daemon that is restarted meanwhile fetches once more.
  std::set<std::string> found;
  for (const StateFetch& fetch : evidence.fetches) {
    const std::string violation = CheckFetch(fetch, begun[fetch.job]);
    if (!violation.empty() && found.insert(violation).second) {
      violations->push_back("states: " + violation);
    }
  }
}

}  // namespace comera::e2e
