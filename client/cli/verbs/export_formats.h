// The formats of comera export, each in a file of its own.
#ifndef COMERA_CLIENT_CLI_VERBS_EXPORT_FORMATS_H_
#define COMERA_CLIENT_CLI_VERBS_EXPORT_FORMATS_H_

#include <string>

#include "client/cli/session/session.h"
#include "client/cli/verbs/model_use.h"
#include "client/cli/verbs/url_access.h"

namespace comera::client {

// The arguments of comera export.
struct ExportArguments {
  // A job, sweep or model, as typed.
  std::string what;
  std::string format;
  std::string to;
  bool follow = false;
  bool no_models = false;
  // The experiment of an MLflow server.
  std::string experiment = "comera";
  // Numbers of a GGUF file's matrices; "": the trainer's choice.
  std::string precision;
  // The program that writes models, and the folder for downloads.
  ModelUse use;
  // How a bucket is reached, and whether another model may be there.
  UrlAccess bucket;
  bool force = false;
};

// Exports a job or sweep and returns the exit code.
int ExportTensorBoard(const ExportArguments& arguments, const Session& session);
int ExportMlflow(const ExportArguments& arguments, const Session& session);
// The same with `to` the address of a server (IsMlflowUri).
int ExportToMlflowServer(const ExportArguments& arguments,
                         const Session& session);
// Sends a job or the jobs of a sweep to an OpenTelemetry collector.
int ExportOtlp(const ExportArguments& arguments, const Session& session);
// Exports a model, named as FindModel accepts it, as hf, hf-factors,
// onnx, gguf or safetensors.
int ExportModel(const ExportArguments& arguments, const Session& session);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_EXPORT_FORMATS_H_
