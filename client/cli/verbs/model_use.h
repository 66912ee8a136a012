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

// The model, and what answers with it.
struct ModelUse {
  std::string model;
  std::string trainer;
  std::string device = "cpu";
  std::string cache;
  int64_t threads = 0;
  int64_t batch = 0;  // the trainer decides
};

// MODEL and --trainer-binary, --model-cache; `computes`: also --device,
// --threads, --batch.
std::vector<Argument> ModelArguments(ModelUse* use, bool computes);

// Where rows come from.
struct RowInput {
  std::string file = "-";
  std::string format;
  std::string columns;
  std::string label_column;
  bool no_header = false;
};

std::vector<Argument> RowArguments(RowInput* input);

// The folder of the model: MODEL itself, or the download of
// `jobs/{job}/models/{model}` (of `jobs/{job}`: its newest) below the cache,
// checked against the coordinator's checksums. Statuses of the rpcs; NotFound:
// neither a folder nor a model.
absl::StatusOr<std::string> FindModel(const ModelUse& use,
                                      const Session& session);
// The full name of such a model.
absl::StatusOr<std::string> FindModelName(const std::string& model,
                                          const Session& session);

// The path of comera-trainer. NotFound.
absl::StatusOr<std::string> FindTrainer(const std::string& argument,
                                        const Session& session);

// comera-trainer with the model in `folder`. Errors of LocalPredictor::Start.
absl::StatusOr<std::unique_ptr<RowPredictor>> StartPredictor(
    const ModelUse& use, const std::string& folder, const Session& session);

// A connected worker, or the one of that name, with the model loaded. NotFound:
// no worker can be asked; else as RemotePredictor::Connect.
absl::StatusOr<std::unique_ptr<RowPredictor>> AskWorker(
    const std::string& model, const std::string& worker,
    const Session& session);

// InvalidArgument: unknown format, or errors of RowReader::Create; those of
// LineSource::Open. `source` is the reader's, for its Stop.
absl::StatusOr<std::unique_ptr<RowReader>> OpenRows(
    const RowInput& input, bool labels, const v1::ServedModel& model,
    LineSource** source);

// The exit code for a failure of the above, after its error line.
int FailModelUse(const absl::Status& status, const Session& session);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_MODEL_USE_H_
