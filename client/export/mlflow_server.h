// Sends runs to a server of MLflow by its REST API
// (https://mlflow.org/docs/latest/rest-api.html).
#ifndef COMERA_CLIENT_EXPORT_MLFLOW_SERVER_H_
#define COMERA_CLIENT_EXPORT_MLFLOW_SERVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/export/mlflow_run.h"
#include "common/http/web_fetch.h"
#include "nlohmann/json.hpp"

namespace comera::client {

// Whether the text is the address of a server, and not a folder.
bool IsMlflowUri(const std::string& text);

// A server of MLflow, and what it has of the runs that were put there. Calls
// block. Not thread-safe.
class MlflowServer {
 public:
  struct Options {
    // http://HOST[:PORT][/PREFIX] or https://...
    std::string uri;
    // The experiment of all runs, by name; made if it is missing.
    std::string experiment;
    // The value of the header Authorization; empty for none.
    std::string authorization;
    // Ends a call, within a second, once it is true.
    const std::atomic<bool>* cancelled = nullptr;
    // Makes one exchange; another one only in tests.
    std::function<absl::StatusOr<WebAnswer>(const WebRequest&)> fetch =
        FetchWeb;
  };

  // InvalidArgument: the address is malformed. PermissionDenied: the server
  // asks for other credentials, or its certificate is not trusted. Unavailable:
  // the network or the server failed. FailedPrecondition: the answer is none of
  // MLflow's, or its server refuses; the message has its words. Cancelled.
  static absl::StatusOr<std::unique_ptr<MlflowServer>> Open(
      const Options& options);

  // Brings the server's copy of the run up to date: makes it, or finds that of
  // an earlier export by its tag `comera.run`, and sends what it lacks.
  // Parameters never change there; points of a metric are only added. A run
  // whose parent was put before becomes its child. The errors are those of
  // Open; the same call again goes on.
  absl::Status Put(const MlflowRun& run);

  // The address of the run's page; empty before the run was put.
  std::string PageOf(const MlflowRun& run) const;

 private:
  // What the server has of a run.
  struct Known {
    std::string id;
    std::map<std::string, std::string> params;
    std::map<std::string, std::string> tags;
    // The last step of each metric, and how many of the run's points at and
    // before it are there or were left out.
    std::map<std::string, int64_t> last_steps;
    int status = 0;
  };

  explicit MlflowServer(const Options& options) : options_(options) {}

  // Calls the method, e.g. "runs/create"; `body` null: reads instead.
  absl::StatusOr<nlohmann::json> Call(const std::string& method,
                                      const nlohmann::json& body);
  absl::Status FindExperiment();
  absl::StatusOr<Known*> FindRun(const MlflowRun& run);
  absl::Status SendParamsAndTags(const MlflowRun& run, Known* known);
  absl::Status SendMetrics(const MlflowRun& run, Known* known);
  absl::Status SendStatus(const MlflowRun& run, Known* known);

  const Options options_;
  std::string experiment_id_;
  // By the run's own id.
  std::map<std::string, Known> runs_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_EXPORT_MLFLOW_SERVER_H_
