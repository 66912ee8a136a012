// The formats of comera export, one file each.
#ifndef COMERA_CLIENT_CLI_VERBS_EXPORT_FORMATS_H_
#define COMERA_CLIENT_CLI_VERBS_EXPORT_FORMATS_H_

#include <string>

#include "client/cli/session/session.h"
#include "client/cli/verbs/model_use.h"

namespace comera::client {

struct ExportArguments {
  // A job, sweep or model, as typed.
  std::string what;
  std::string format;
  std::string to;
  bool follow = false;
  bool no_models = false;
  // Of a model: the program that writes it, and where downloads are kept.
  ModelUse use;
};

// Each returns the exit code. `what` is a job or a sweep.
int ExportTensorBoard(const ExportArguments& arguments, const Session& session);
int ExportMlflow(const ExportArguments& arguments, const Session& session);
// hf, onnx, safetensors: `what` is a model, as FindModel takes it.
int ExportModel(const ExportArguments& arguments, const Session& session);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_EXPORT_FORMATS_H_
