// comera export: jobs, sweeps and models for other programs.
#include <memory>

#include "client/cli/exit_codes.h"
#include "client/cli/export_formats.h"
#include "client/cli/verbs.h"

namespace comera::client {
namespace {

constexpr char kExamples[] =
    R"(  comera export 4f2x7k3m5q6a --format tensorboard --to runs
  comera export 4f2x7k3m5q6a --format tensorboard --to runs --follow
  comera export 4f2x7k3m5q6a --format mlflow --to mlruns
  comera export sweeps/9s1d0p8w6e2r --format mlflow --to mlruns --no-models

TensorBoard shows them with `tensorboard --logdir runs`, MLflow with
`mlflow ui --backend-store-uri mlruns`. The same command again adds what is
new.)";

struct Format {
  const char* name;
  int (*run)(const ExportArguments& arguments, const Session& session);
  // Whether --follow means something.
  bool follows;
};

constexpr Format kFormats[] = {
    {"tensorboard", ExportTensorBoard, true},
    {"mlflow", ExportMlflow, false},
};

int Export(const ExportArguments& arguments, const Session& session) {
  for (const Format& format : kFormats) {
    if (arguments.format != format.name) continue;
    if (arguments.follow && !format.follows) {
      return session.Fail("--follow goes with --format tensorboard",
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
               "Write a job or a sweep as other programs read it",
               {},
               nullptr};
  verb.arguments = {
      {"what",
       "Id of a job or a sweep",
       &arguments->what,
       true,
       {},
       Names::kJobOrSweep},
      {"--format", "For which program", &arguments->format, true, formats},
      {"--to",
       "Folder to write into; made if missing",
       &arguments->to,
       true,
       {}},
      {"--follow",
       "tensorboard: go on until the job ends",
       &arguments->follow,
       false,
       {}},
      {"--no-models",
       "mlflow: without the models' files",
       &arguments->no_models,
       false,
       {}},
  };
  verb.examples = kExamples;
  verb.run = [=] { return Export(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
