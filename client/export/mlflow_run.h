// Writes runs in MLflow's file layout: a root folder ("mlruns") with one folder
// per experiment, in it one per run with meta.yaml, params, metrics, tags and
// artifacts (mlflow/store/tracking/file_store.py, Apache-2.0).
#ifndef COMERA_CLIENT_EXPORT_MLFLOW_RUN_H_
#define COMERA_CLIENT_EXPORT_MLFLOW_RUN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "comera/v1/sweep_service.pb.h"

namespace comera::client {

// One value of a metric.
struct MlflowPoint {
  int64_t time_ms = 0;
  double value = 0;
  int64_t step = 0;
};

// A run as MLflow stores it.
struct MlflowRun {
  std::string id;  // 32 hexadecimal digits
  std::string name;
  std::string user;
  int64_t start_ms = 0;
  int64_t end_ms = 0;  // 0 if it has not ended
  enum Status { kRunning = 1, kFinished = 3, kFailed = 4, kKilled = 5 };
  Status status = kRunning;
  std::map<std::string, std::string> params;
  std::map<std::string, std::string> tags;
  // The points of each metric, in the order of steps.
  std::map<std::string, std::vector<MlflowPoint>> metrics;
};

// Builds a run from a job and its events. A value type.
class MlflowRunBuilder {
 public:
  explicit MlflowRunBuilder(const v1::Job& job);
  // Adds an event. When an attempt resumes from a checkpoint, what the attempt
  // before did after that checkpoint is discarded.
  void Add(const v1::JobEvent& event);
  // The run as it is with the job's state.
  MlflowRun RunOf(const v1::Job& job) const;

 private:
  void AddPoints(const v1::JobEvent& event, int64_t step,
                 const std::string& name, double value);

  MlflowRun run_;
};

// The parent run of a sweep's runs.
MlflowRun SweepRunOf(const v1::Sweep& sweep);

// The run's id, derived from the name so that a second export replaces the
// first.
std::string MlflowRunId(const std::string& resource_name);

// Makes the name of a metric, param or tag acceptable to MLflow.
std::string MlflowKey(const std::string& name);

// The folder for the run's artifacts; made if missing.
absl::StatusOr<std::string> MlflowArtifactFolder(const std::string& root,
                                                 const MlflowRun& run);

// The MLmodel file of a model below artifacts/`folder`, and the tag that
// declares it one of the run's models.
std::string MlModel(const v1::Artifact& model, const v1::Job& job,
                    const std::string& folder, const std::string& run_id);
std::string MlModelHistory(const std::vector<v1::Artifact>& models,
                           const std::string& run_id);

// Writes or replaces everything but the artifacts. `root` is absolute.
absl::Status WriteMlflowRun(const std::string& root, const MlflowRun& run);

}  // namespace comera::client

#endif  // COMERA_CLIENT_EXPORT_MLFLOW_RUN_H_
