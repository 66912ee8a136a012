// Runs as MLflow keeps them in files: below a root folder ("mlruns") one folder
// per experiment, below that one per run with meta.yaml, params, metrics, tags
// and artifacts (mlflow/store/tracking/file_store.py, Apache-2.0).
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

struct MlflowPoint {
  int64_t time_ms = 0;
  double value = 0;
  int64_t step = 0;
};

struct MlflowRun {
  std::string id;  // 32 hexadecimal digits
  std::string name;
  std::string user;
  int64_t start_ms = 0;
  int64_t end_ms = 0;  // 0: not ended
  enum Status { kRunning = 1, kFinished = 3, kFailed = 4, kKilled = 5 };
  Status status = kRunning;
  std::map<std::string, std::string> params;
  std::map<std::string, std::string> tags;
  // In the order of steps.
  std::map<std::string, std::vector<MlflowPoint>> metrics;
};

// Gathers a run from a job and its events. A value type.
class MlflowRunBuilder {
 public:
  explicit MlflowRunBuilder(const v1::Job& job);
  // What an attempt did after the checkpoint that the next one resumes from is
  // left out.
  void Add(const v1::JobEvent& event);
  MlflowRun Finish(const v1::Job& job);

 private:
  void AddPoints(const v1::JobEvent& event, int64_t step,
                 const std::string& name, double value);

  MlflowRun run_;
};

// The parent of a sweep's runs.
MlflowRun SweepRunOf(const v1::Sweep& sweep);

// The same for the same name, so that a second export replaces the first.
std::string MlflowRunId(const std::string& resource_name);

// Name of a metric, param or tag that MLflow accepts.
std::string MlflowKey(const std::string& name);

// Where the run's artifacts belong; made if missing.
absl::StatusOr<std::string> MlflowArtifactFolder(const std::string& root,
                                                 const MlflowRun& run);

// The MLmodel file of a model below artifacts/`folder`, and the tag that makes
// it one of the run's models.
std::string MlModel(const v1::Artifact& model, const v1::Job& job,
                    const std::string& folder, const std::string& run_id);
std::string MlModelHistory(const std::vector<v1::Artifact>& models,
                           const std::string& run_id);

// Writes, or replaces, all but the artifacts. `root` is absolute.
absl::Status WriteMlflowRun(const std::string& root, const MlflowRun& run);

}  // namespace comera::client

#endif  // COMERA_CLIENT_EXPORT_MLFLOW_RUN_H_
