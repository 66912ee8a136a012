// What the verbs that use a trained model share.
#ifndef COMERA_CLIENT_CLI_VERBS_MODEL_USE_H_
#define COMERA_CLIENT_CLI_VERBS_MODEL_USE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/session/session.h"
#include "client/cli/session/verb.h"
#include "client/predict/row_predictor.h"
#include "client/predict/row_reader.h"

namespace comera::client {

// The model to use, and the program that runs it.
struct ModelUse {
  std::string model;
  std::string trainer;
  std::string device = "cpu";
  std::string cache;
  int64_t threads = 0;
  int64_t batch = 0;  // 0: the trainer decides
};

// The arguments MODEL, --trainer-binary and --model-cache; with `computes` also
// --device, --threads and --batch.
std::vector<Argument> ModelArguments(ModelUse* use, bool computes);

// The source and format of rows.
struct RowInput {
  std::string file = "-";
  std::string format;
  std::string columns;
  std::string label_column;
  bool no_header = false;
};

std::vector<Argument> RowArguments(RowInput* input);

// Returns the folder of the model: MODEL itself, or the download of
// `jobs/{job}/models/{model}` (for `jobs/{job}` its newest) below the cache,
// verified against the coordinator's checksums. Statuses of the rpcs. NotFound:
// it is neither a folder nor a model.
absl::StatusOr<std::string> FindModel(const ModelUse& use,
                                      const Session& session);
// Returns the full name of such a model.
absl::StatusOr<std::string> FindModelName(const std::string& model,
                                          const Session& session);

// Finds the path of comera-trainer. NotFound.
absl::StatusOr<std::string> FindTrainer(const std::string& argument,
                                        const Session& session);

// Starts comera-trainer with the model in `folder`. Errors of
// LocalPredictor::Start.
absl::StatusOr<std::unique_ptr<RowPredictor>> StartPredictor(
    const ModelUse& use, const std::string& folder, const Session& session);

// Has a connected worker, or the one named, load the model. NotFound: there is
// no such worker. Other errors are those of RemotePredictor::Connect.
absl::StatusOr<std::unique_ptr<RowPredictor>> AskWorker(
    const std::string& model, const std::string& worker,
    const Session& session);

// Finds the model and starts comera-trainer with it or, `remote`, asks a worker
// (any if `worker` is empty). Errors of the functions above.
absl::StatusOr<std::unique_ptr<RowPredictor>> OpenPredictor(
    const ModelUse& use, bool remote, const std::string& worker,
    const Session& session);

// Opens the rows. InvalidArgument: the format is unknown; or errors of
// RowReader::Create and LineSource::Open. `source` is set to the reader's
// source, so that the caller can Stop it.
absl::StatusOr<std::unique_ptr<RowReader>> OpenRows(
    const RowInput& input, bool labels, const v1::ServedModel& model,
    LineSource** source);

// Prints the error of one of the functions above and returns its exit code.
int FailModelUse(const absl::Status& status, const Session& session);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_MODEL_USE_H_
