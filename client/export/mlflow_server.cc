// Implements MlflowServer: one POST after the other.
#include "client/export/mlflow_server.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "common/text.h"

namespace comera::client {
namespace {

using nlohmann::json;

constexpr char kRunTag[] = "comera.run";
constexpr char kParentTag[] = "mlflow.parentRunId";
// What one call may hold (log-batch: 1,000 metrics, 100 params, 100 tags).
constexpr size_t kMaxMetrics = 1000;
constexpr size_t kMaxEntries = 100;
// What older servers take of a parameter, and all of a tag.
constexpr size_t kMaxParamBytes = 500;
constexpr size_t kMaxTagBytes = 5000;
constexpr size_t kMaxShownBytes = 300;

const char* StatusName(MlflowRun::Status status) {
  switch (status) {
    case MlflowRun::kFinished:
      return "FINISHED";
    case MlflowRun::kFailed:
      return "FAILED";
    case MlflowRun::kKilled:
      return "KILLED";
    case MlflowRun::kRunning:
      break;
  }
  return "RUNNING";
}

// The member of an object as text; empty if there is none.
std::string TextOf(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : "";
}

const json& MemberOf(const json& object, const char* name) {
  static const json* const none = new json;
  const auto found = object.find(name);
  return object.is_object() && found != object.end() ? *found : *none;
}

// Entries {key, value} as a map.
std::map<std::string, std::string> Entries(const json& list) {
  std::map<std::string, std::string> entries;
  if (!list.is_array()) return entries;
  for (const json& entry : list) {
    if (entry.is_object()) {
      entries[TextOf(entry, "key")] = TextOf(entry, "value");
    }
  }
  return entries;
}

// The error that an answer of this code and body stands for.
absl::Status ErrorOf(int code, const json& body) {
  const std::string told = TruncateUtf8(
      body.is_object() ? TextOf(body, "message") : "", kMaxShownBytes);
  const std::string message = absl::StrCat("the MLflow server answers ", code,
                                           told.empty() ? "" : ": ", told);
  if (code == 401 || code == 403) return absl::PermissionDeniedError(message);
  if (code == 404) return absl::NotFoundError(message);
  if (code == 429 || code >= 500) return absl::UnavailableError(message);
  return absl::FailedPreconditionError(message);
}

}  // namespace

bool IsMlflowUri(const std::string& text) {
  return absl::StartsWith(text, "http://") ||
         absl::StartsWith(text, "https://");
}

absl::StatusOr<std::unique_ptr<MlflowServer>> MlflowServer::Open(
    const Options& options) {
  if (!IsMlflowUri(options.uri)) {
    return absl::InvalidArgumentError(
        "an MLflow server is http://HOST[:PORT] or https://HOST[:PORT]");
  }
  Options own = options;
  while (absl::EndsWith(own.uri, "/")) own.uri.pop_back();
  std::unique_ptr<MlflowServer> server(new MlflowServer(own));
  RETURN_IF_ERROR(server->FindExperiment());
  return server;
}

absl::StatusOr<json> MlflowServer::Call(const std::string& method,
                                        const json& body) {
  WebRequest request;
  request.url = absl::StrCat(options_.uri, "/api/2.0/mlflow/", method);
  request.plain_http = true;
  request.cancelled = options_.cancelled;
  if (!body.is_null()) {
    request.body = JsonText(body);
    request.headers.push_back({"Content-Type", "application/json"});
  }
  if (!options_.authorization.empty()) {
    request.headers.push_back({"Authorization", options_.authorization});
  }
  ASSIGN_OR_RETURN(const WebAnswer answer, options_.fetch(request));
  json object = ParseJson(answer.body);
  if (answer.code != 200) return ErrorOf(answer.code, object);
  if (!object.is_object()) {
    return absl::FailedPreconditionError(
        "the answer is none of MLflow's: is this the address of its server?");
  }
  return object;
}

absl::Status MlflowServer::FindExperiment() {
  absl::StatusOr<json> found =
      Call(absl::StrCat("experiments/get-by-name?experiment_name=",
                        EncodeForm(options_.experiment)),
           nullptr);
  if (found.ok()) {
    experiment_id_ = TextOf(MemberOf(*found, "experiment"), "experiment_id");
  } else if (absl::IsNotFound(found.status())) {
    found = Call("experiments/create", {{"name", options_.experiment}});
    if (absl::IsNotFound(found.status())) {
      return absl::FailedPreconditionError(
          "the address has no MLflow server: it knows no experiments");
    }
    RETURN_IF_ERROR(found.status());
    experiment_id_ = TextOf(*found, "experiment_id");
  } else {
    return found.status();
  }
  if (!experiment_id_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError("the server names no experiment");
}

absl::StatusOr<MlflowServer::Known*> MlflowServer::FindRun(
    const MlflowRun& run) {
  const auto known = runs_.find(run.id);
  if (known != runs_.end()) return &known->second;
  Known entry;
  ASSIGN_OR_RETURN(
      const json found,
      Call("runs/search",
           {{"experiment_ids", {experiment_id_}},
            {"filter", absl::StrCat("tags.`", kRunTag, "` = '", run.id, "'")},
            {"max_results", 1}}));
  const json& runs = MemberOf(found, "runs");
  if (runs.is_array() && !runs.empty()) {
    entry.id = TextOf(MemberOf(runs[0], "info"), "run_id");
    const json& data = MemberOf(runs[0], "data");
    entry.params = Entries(MemberOf(data, "params"));
    entry.tags = Entries(MemberOf(data, "tags"));
    const json& metrics = MemberOf(data, "metrics");
    for (size_t i = 0; metrics.is_array() && i < metrics.size(); ++i) {
      const json& step = MemberOf(metrics[i], "step");
      // Some servers write whole numbers as text.
      if (step.is_number()) {
        entry.last_steps[TextOf(metrics[i], "key")] = step.get<int64_t>();
      } else if (step.is_string()) {
        entry.last_steps[TextOf(metrics[i], "key")] =
            std::strtoll(step.get<std::string>().c_str(), nullptr, 10);
      }
    }
  } else {
    ASSIGN_OR_RETURN(const json made,
                     Call("runs/create",
                          {{"experiment_id", experiment_id_},
                           {"run_name", run.name},
                           {"start_time", run.start_ms},
                           {"tags", {{{"key", kRunTag}, {"value", run.id}}}}}));
    entry.id = TextOf(MemberOf(MemberOf(made, "run"), "info"), "run_id");
    entry.tags[kRunTag] = run.id;
  }
  if (entry.id.empty()) {
    return absl::FailedPreconditionError("the server names no run");
  }
  return &(runs_[run.id] = std::move(entry));
}

absl::Status MlflowServer::SendParamsAndTags(const MlflowRun& run,
                                             Known* known) {
  json params = json::array(), tags = json::array();
  const auto send = [&](bool all) -> absl::Status {
    if (params.empty() && tags.empty()) return absl::OkStatus();
    if (!all && params.size() < kMaxEntries && tags.size() < kMaxEntries) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(
        Call("runs/log-batch",
             {{"run_id", known->id}, {"params", params}, {"tags", tags}})
            .status());
    for (const auto& [key, value] : Entries(params)) known->params[key] = value;
    for (const auto& [key, value] : Entries(tags)) known->tags[key] = value;
    params = json::array();
    tags = json::array();
    return absl::OkStatus();
  };
  for (const auto& [name, value] : run.params) {
    if (known->params.count(name) > 0) continue;
    params.push_back(
        {{"key", name}, {"value", TruncateUtf8(value, kMaxParamBytes)}});
    RETURN_IF_ERROR(send(/*all=*/false));
  }
  for (const auto& [name, value] : run.tags) {
    std::string shown = TruncateUtf8(value, kMaxTagBytes);
    if (name == kParentTag) {
      const auto parent = runs_.find(value);
      if (parent == runs_.end()) continue;
      shown = parent->second.id;
    }
    const auto there = known->tags.find(name);
    if (there != known->tags.end() && there->second == shown) continue;
    tags.push_back({{"key", name}, {"value", shown}});
    RETURN_IF_ERROR(send(/*all=*/false));
  }
  return send(/*all=*/true);
}

absl::Status MlflowServer::SendMetrics(const MlflowRun& run, Known* known) {
  json metrics = json::array();
  std::map<std::string, int64_t> reached;
  const auto send = [&]() -> absl::Status {
    if (metrics.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(
        Call("runs/log-batch", {{"run_id", known->id}, {"metrics", metrics}})
            .status());
    for (const auto& [name, step] : reached) known->last_steps[name] = step;
    metrics = json::array();
    return absl::OkStatus();
  };
  for (const auto& [name, points] : run.metrics) {
    for (const MlflowPoint& point : points) {
      const auto last = known->last_steps.find(name);
      if (last != known->last_steps.end() && point.step <= last->second) {
        continue;
      }
      // JSON has no other numbers.
      if (!std::isfinite(point.value)) continue;
      metrics.push_back({{"key", name},
                         {"value", point.value},
                         {"timestamp", point.time_ms},
                         {"step", point.step}});
      reached[name] = point.step;
      if (metrics.size() >= kMaxMetrics) RETURN_IF_ERROR(send());
    }
  }
  return send();
}

absl::Status MlflowServer::SendStatus(const MlflowRun& run, Known* known) {
  if (known->status == run.status) return absl::OkStatus();
  json update = {{"run_id", known->id}, {"status", StatusName(run.status)}};
  if (run.end_ms > 0) update["end_time"] = run.end_ms;
  RETURN_IF_ERROR(Call("runs/update", update).status());
  known->status = run.status;
  return absl::OkStatus();
}

absl::Status MlflowServer::Put(const MlflowRun& run) {
  ASSIGN_OR_RETURN(Known* const known, FindRun(run));
  RETURN_IF_ERROR(SendParamsAndTags(run, known));
  RETURN_IF_ERROR(SendMetrics(run, known));
  return SendStatus(run, known);
}

std::string MlflowServer::PageOf(const MlflowRun& run) const {
  const auto known = runs_.find(run.id);
  if (known == runs_.end()) return "";
  return absl::StrCat(options_.uri, "/#/experiments/", experiment_id_, "/runs/",
                      known->second.id);
}

}  // namespace comera::client
