// comera export: writes jobs, sweeps and models for other programs.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/bucket_folder.h"
#include "client/cli/verbs/export_formats.h"
#include "client/cli/verbs/export_source.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {
namespace {

constexpr char kExamples[] =
    R"(  comera export 4f2x7k3m5q6a --format tensorboard --to runs
  comera export 4f2x7k3m5q6a --format tensorboard --to runs --follow
  comera export 4f2x7k3m5q6a --format mlflow --to mlruns
  comera export sweeps/9s1d0p8w6e2r --format mlflow --to mlruns --no-models
  comera export 4f2x7k3m5q6a --format mlflow --to http://tracking:5000 --follow
  comera export 4f2x7k3m5q6a --format otlp --to http://collector:4318
  comera export ./model --format hf --to bert          # transformers' layout
  comera export ./model --format hf-factors --to small # with its factors
  comera export 4f2x7k3m5q6a --format onnx --to onnx   # its newest model
  comera export ./model --format gguf --precision q8_0 --to llama
  comera export ./model --format safetensors --to dense
  comera export ./model --format hf --to s3://models/bert

TensorBoard shows them with `tensorboard --logdir runs`, MLflow with
`mlflow ui --backend-store-uri mlruns`. The same command again adds what is
new.)";

struct Format {
  const char* name;
  int (*run)(const ExportArguments& arguments, const Session& session);
  // Whether the format supports --follow.
  bool follows;
  // Whether it is written once, so that a bucket can take it.
  bool to_bucket;
  // Whether it can be sent to a server by HTTP.
  bool to_server;
};

constexpr Format kFormats[] = {
    {"tensorboard", ExportTensorBoard, true, false, false},
    {"mlflow", ExportMlflow, true, false, true},
    {"otlp", ExportOtlp, true, false, true},
    {"hf", ExportModel, false, true, false},
    {"hf-factors", ExportModel, false, true, false},
    {"onnx", ExportModel, false, true, false},
    {"gguf", ExportModel, false, true, false},
    {"safetensors", ExportModel, false, true, false},
};

int Export(const ExportArguments& arguments, const Session& session) {
  for (const Format& format : kFormats) {
    if (arguments.format != format.name) continue;
    if (arguments.follow && !format.follows) {
      return session.Fail(
          "--follow goes with --format tensorboard, mlflow or otlp",
          kExitUsage);
    }
    if (!arguments.precision.empty() && arguments.format != "gguf") {
      return session.Fail("--precision goes with --format gguf", kExitUsage);
    }
    const bool server = format.to_server && IsServerAddress(arguments.to);
    const bool bucket = !server && IsBucketUrl(arguments.to);
    if (bucket && !format.to_bucket) {
      return session.Fail(
          absl::StrCat("--to: ", format.name, " is written into a folder"),
          kExitUsage);
    }
    if (arguments.force && !bucket) {
      return session.Fail("--force goes with --to s3://BUCKET/FOLDER",
                          kExitUsage);
    }
    return format.run(arguments, session);
  }
  return session.Fail("unknown --format", kExitUsage);
}

}  // namespace

Verb ExportVerb(Session* session) {
  auto arguments = std::make_shared<ExportArguments>();
  std::vector<std::string> formats;
  for (const Format& format : kFormats) formats.push_back(format.name);
  Verb verb = {"export",
               "Write a job, a sweep or a model as other programs read it",
               {},
               nullptr};
  verb.arguments = {
      {"what",
       "Id of a job or a sweep; hf, hf-factors, onnx, gguf, safetensors: "
       "folder of a "
       "model, or jobs/JOB/models/MODEL (of a job the newest)",
       &arguments->what,
       true,
       {},
       Names::kJobOrSweep},
      {"--format", "For which program", &arguments->format, true, formats},
      {"--to",
       "Folder to write into, made if missing; hf, hf-factors, onnx, gguf, "
       "safetensors: also s3://BUCKET/FOLDER; mlflow: also its server, "
       "http://HOST:PORT; otlp: an OpenTelemetry collector, http://HOST:4318",
       &arguments->to,
       true,
       {}},
      {"--follow",
       "tensorboard, otlp, and an MLflow server: go on until the job ends",
       &arguments->follow,
       false,
       {}},
      {"--no-models",
       "mlflow: without the models' files",
       &arguments->no_models,
       false,
       {}},
      {"--experiment",
       "MLflow server: the experiment of the runs (comera)",
       &arguments->experiment,
       false,
       {}},
      {"--precision",
       "gguf: numbers of the matrices (f16)",
       &arguments->precision,
       false,
       {"f32", "f16", "q8_0"}},
      {"--trainer-binary",
       "hf, hf-factors, onnx, gguf, safetensors: comera-trainer to run (beside "
       "comera)",
       &arguments->use.trainer,
       false,
       {}},
      {"--model-cache",
       "hf, hf-factors, onnx, gguf, safetensors: where downloaded models are "
       "kept",
       &arguments->use.cache,
       false,
       {}},
  };
  verb.arguments.push_back({"--force",
                            "s3://: also over another model",
                            &arguments->force,
                            false,
                            {}});
  for (Argument& one : BucketArguments(&arguments->bucket)) {
    verb.arguments.push_back(std::move(one));
  }
  verb.examples = kExamples;
  verb.run = [=] { return Export(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
