// Parses a job's JSON events and tracks attempts, steps and failures.

#include "tests/e2e/job_follower.h"

#include "absl/strings/str_cat.h"

namespace comera::e2e {
namespace {

using Json = nlohmann::json;

// Protobuf's JSON writes 64-bit numbers as strings.
int64_t Number(const Json& object, const char* field) {
  if (!object.contains(field)) return 0;
  const Json& value = object[field];
  return value.is_string() ? std::stoll(value.get<std::string>())
                           : value.get<int64_t>();
}

}  // namespace

bool JobFollower::Next(absl::Duration limit) {
  const auto line = process_.ReadLine(limit);
  if (!line) return false;
  const Json event = Json::parse(*line, nullptr, false);
  if (event.is_object()) {
    Apply(event);
  } else {
    faults.push_back("not JSON: " + *line);
  }
  return true;
}

void JobFollower::Apply(const Json& event) {
  if (event.contains("sequence")) {
    const int64_t sequence = Number(event, "sequence");
    if (sequence <= last_sequence_) {
      faults.push_back(absl::StrCat("event ", sequence, " came twice"));
    }
    last_sequence_ = sequence;
    attempt = Number(event, "attempt");
  }
  if (event.contains("run_info")) {
    ++runs_of_attempt[attempt];
    const int64_t step = Number(event["run_info"], "resumed_from_step");
    if (step > 0) resumed_from = step;
  }
  if (event.contains("metrics")) last_step = Number(event["metrics"], "step");
  if (event.contains("checkpoint")) {
    checkpoint_step = Number(event["checkpoint"], "step");
  }
  if (event.contains("result")) {
    final_loss = event["result"].value("validation_loss", 0.0);
  }
  if (event.contains("incident")) {
    incidents.push_back(
        absl::StrCat(event["incident"].value("failure_class", ""), ": ",
                     event["incident"].value("message", "")));
  }
  if (event.contains("state_change")) {
    state = event["state_change"].value("state", "");
    outcome = event["state_change"].value("outcome", "");
    reason = event["state_change"].value("reason", "");
  }
}

std::optional<int> JobFollower::Finish(absl::Duration limit) {
  while (Next(limit)) {
  }
  return process_.Wait(limit);
}

}  // namespace comera::e2e
