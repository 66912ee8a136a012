// Builds MLflow runs from jobs, events, models and sweeps.

#include "client/export/mlflow_run.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/export/flat_spec.h"
#include "client/export/metric_values.h"
#include "common/files.h"
#include "google/protobuf/timestamp.pb.h"
#include "proto/job_state.h"

namespace comera::client {
namespace {

int64_t Milliseconds(const google::protobuf::Timestamp& time) {
  return time.seconds() * 1000 + time.nanos() / 1000000;
}

MlflowRun::Status StatusOf(v1::JobState state) {
  switch (state) {
    case v1::SUCCEEDED:
      return MlflowRun::kFinished;
    case v1::FAILED:
      return MlflowRun::kFailed;
    case v1::CANCELLED:
      return MlflowRun::kKilled;
    default:
      return MlflowRun::kRunning;
  }
}

std::string IdOf(const std::string& name) {
  return name.substr(name.rfind('/') + 1);
}

// Labels are free text: "a" and "a/b" cannot be both a file and a folder.
std::string FlatKey(const std::string& name) {
  return MlflowKey(absl::StrReplaceAll(name, {{"/", "_"}}));
}

}  // namespace

std::string MlflowRunId(const std::string& resource_name) {
  return Sha256Hex(resource_name).substr(0, 32);
}

std::string MlflowKey(const std::string& name) {
  std::string key;
  for (const char c : name) {
    const bool fits = absl::ascii_isalnum(c) || c == '_' || c == '-' ||
                      c == '.' || c == ' ' || c == '/';
    key += fits ? c : '_';
  }
  // A name becomes a path below its folder and must not lead out of it.
  std::string safe;
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('/', begin), key.size());
    const std::string part = key.substr(begin, end - begin);
    if (!part.empty() && part != "." && part != "..") {
      absl::StrAppend(&safe, safe.empty() ? "" : "/", part);
    }
    begin = end + 1;
  }
  return safe.empty() ? "_" : safe;
}

MlflowRunBuilder::MlflowRunBuilder(const v1::Job& job) {
  run_.id = MlflowRunId(job.name());
  run_.name = job.spec().display_name().empty() ? IdOf(job.name())
                                                : job.spec().display_name();
  run_.user = job.user();
  for (const auto& [name, value] : FlattenSpec(job.spec())) {
    run_.params[FlatKey(name)] = value;
  }
  for (const auto& [key, value] : job.spec().labels()) {
    run_.tags[FlatKey(key)] = value;
  }
  run_.tags["mlflow.runName"] = run_.name;
  run_.tags["mlflow.user"] = run_.user;
  run_.tags["mlflow.source.name"] = "comera";
  run_.tags["mlflow.source.type"] = "JOB";
  run_.tags["comera.job"] = job.name();
  if (!job.sweep().empty()) {
    run_.tags["comera.sweep"] = job.sweep();
    run_.tags["mlflow.parentRunId"] = MlflowRunId(job.sweep());
  }
}

void MlflowRunBuilder::AddPoints(const v1::JobEvent& event, int64_t step,
                                 const std::string& name, double value) {
  run_.metrics[MlflowKey(name)].push_back(
      {Milliseconds(event.time()), value, step});
}

void MlflowRunBuilder::Add(const v1::JobEvent& event) {
  switch (event.event_case()) {
    case v1::JobEvent::kRunInfo: {
      const v1::RunInfo& info = event.run_info();
      for (auto& [name, points] : run_.metrics) {
        points.erase(std::remove_if(points.begin(), points.end(),
                                    [&](const MlflowPoint& point) {
                                      return point.step >
                                             info.resumed_from_step();
                                    }),
                     points.end());
      }
      run_.params["run.train_samples"] = absl::StrCat(info.train_samples());
      run_.params["run.validation_samples"] =
          absl::StrCat(info.validation_samples());
      run_.params["run.initial_parameters"] =
          absl::StrCat(info.initial_parameters());
      run_.params["run.dense_parameters"] =
          absl::StrCat(info.dense_parameters());
      run_.params["run.baseline_loss"] = absl::StrCat(info.baseline_loss());
      run_.params["run.device"] = info.device();
      break;
    }
    case v1::JobEvent::kMetrics:
      for (const MetricValue& metric : ValuesOf(event.metrics())) {
        AddPoints(event, event.metrics().step(), metric.name, metric.value);
      }
      break;
    case v1::JobEvent::kRankSnapshot:
      for (const MetricValue& mean : MeanRanks(event.rank_snapshot())) {
        AddPoints(event, event.rank_snapshot().step(), mean.name, mean.value);
      }
      break;
    case v1::JobEvent::kResult: {
      const v1::TrainingResult& result = event.result();
      AddPoints(event, result.step(), "result/validation_loss",
                result.validation_loss());
      AddPoints(event, result.step(), "result/parameters",
                static_cast<double>(result.size_parameters()));
      break;
    }
    default:
      break;
  }
}

MlflowRun MlflowRunBuilder::RunOf(const v1::Job& job) const {
  MlflowRun run = run_;
  run.start_ms =
      Milliseconds(job.has_start_time() ? job.start_time() : job.create_time());
  if (job.has_end_time()) run.end_ms = Milliseconds(job.end_time());
  run.status = StatusOf(job.state());
  run.tags["comera.state"] = v1::JobState_Name(job.state());
  if (job.outcome() != v1::OUTCOME_UNSPECIFIED) {
    run.tags["comera.outcome"] = v1::Outcome_Name(job.outcome());
  }
  run.tags["mlflow.note.content"] = job.reason();
  return run;
}

MlflowRun SweepRunOf(const v1::Sweep& sweep) {
  MlflowRun run;
  run.id = MlflowRunId(sweep.name());
  run.name = sweep.spec().display_name().empty() ? IdOf(sweep.name())
                                                 : sweep.spec().display_name();
  run.user = sweep.user();
  run.start_ms = Milliseconds(sweep.create_time());
  if (sweep.has_end_time()) run.end_ms = Milliseconds(sweep.end_time());
  run.status = sweep.state() == v1::Sweep::SUCCEEDED   ? MlflowRun::kFinished
               : sweep.state() == v1::Sweep::FAILED    ? MlflowRun::kFailed
               : sweep.state() == v1::Sweep::CANCELLED ? MlflowRun::kKilled
                                                       : MlflowRun::kRunning;
  for (const auto& [name, value] : FlattenSpec(sweep.spec().job())) {
    run.params[FlatKey(name)] = value;
  }
  run.params["sweep.runs"] = absl::StrCat(sweep.runs_size());
  run.tags["mlflow.runName"] = run.name;
  run.tags["mlflow.user"] = run.user;
  run.tags["mlflow.source.name"] = "comera";
  run.tags["mlflow.source.type"] = "JOB";
  run.tags["mlflow.note.content"] = sweep.reason();
  run.tags["comera.sweep"] = sweep.name();
  run.tags["comera.state"] = v1::Sweep::State_Name(sweep.state());
  const int64_t now = run.end_ms > 0 ? run.end_ms : run.start_ms;
  if (sweep.front().has_reference()) {
    run.metrics["front/hypervolume_ratio"] = {
        {now, sweep.front().hypervolume_ratio(), 0}};
  }
  // The front as a series in ascending order of size; "step" is the place in
  // it.
  int64_t place = 0;
  for (const v1::FrontPoint& point : sweep.front().points()) {
    run.metrics["front/validation_loss"].push_back(
        {now, point.point().validation_loss(), place});
    run.metrics["front/parameters"].push_back(
        {now, static_cast<double>(point.point().size_parameters()), place++});
  }
  return run;
}

}  // namespace comera::client
