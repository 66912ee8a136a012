// comera describe: predicts what a job will do and need on this machine.
#include <algorithm>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "client/cli/output/message_text.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/spec_input.h"
#include "client/cli/session/temporary_file.h"
#include "client/cli/verbs/verbs.h"
#include "client/embedded_cluster.h"
#include "client/program_output.h"
#include "common/json.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  SpecInput spec;
  int64_t vocabulary = 0;
  std::string data_dir;
  std::string trainer;
};

// Runs the trainer to describe the job.
absl::StatusOr<Json> AskTrainer(const v1::JobSpec& spec,
                                const Arguments& arguments,
                                const Session& session) {
  std::string trainer = arguments.trainer;
  if (trainer.empty()) {
    trainer = FindClusterBinaries(session.env.binary_folder).trainer;
  } else if (trainer[0] != '/') {
    trainer = absl::StrCat(session.env.working_folder, "/", trainer);
  }
  if (trainer.empty()) {
    return absl::NotFoundError(
        "comera-trainer is not beside comera; --trainer-binary names it");
  }
  const std::string state = arguments.data_dir.empty()
                                ? session.env.state_folder
                                : arguments.data_dir;
  const int processes = std::max(spec.resources().processes(), 1);
  Json task = {{"spec", ParseOrderedJson(ToJson(spec, /*one_line=*/true))},
               {"work_dir", "/nonexistent"},
               // The folder in which the worker of `comera run` keeps
               // measurements.
               {"cache_dir", absl::StrCat(state, "/worker/cache")},
               {"world_size", processes},
               {"local_world_size", processes}};
  if (processes > 1) task["rendezvous_dir"] = "/nonexistent";
  ASSIGN_OR_RETURN(const auto file, TemporaryFile::Create(JsonText(task)));
  std::vector<std::string> command = {trainer, "--describe",
                                      absl::StrCat("--task=", file->path())};
  if (arguments.vocabulary != 0) {
    command.push_back(absl::StrCat("--vocabulary=", arguments.vocabulary));
  }
  ASSIGN_OR_RETURN(const ProgramOutput output, RunProgram(command));
  if (output.exit_code != 0) {
    absl::string_view said = absl::StripAsciiWhitespace(output.err);
    absl::ConsumePrefix(&said, "comera-trainer: ");
    absl::ConsumePrefix(&said, file->path() + ": ");
    return absl::InvalidArgumentError(
        said.empty()
            ? absl::StrCat("comera-trainer ended with ", output.exit_code)
            : std::string(said));
  }
  Json description = ParseOrderedJson(output.out);
  if (description.is_object()) return description;
  return absl::InternalError("comera-trainer gave no JSON");
}

// The number in a member that other versions may lack.
double Number(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}
std::string Text(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string()
             ? Printable(found->get<std::string>())
             : "";
}
Json Part(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() ? *found : Json();
}

std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.2f ms", 1e3 * seconds);
}
// How a layer's time compares with that of its dense form.
std::string Gain(double dense, double own) {
  if (own <= 0 || dense <= 0) return "-";
  return dense >= own ? absl::StrFormat("%.1fx", dense / own)
                      : absl::StrFormat("%.1fx slower", own / dense);
}

std::string LayersTable(const Json& layers) {
  std::vector<std::vector<std::string>> rows = {
      {"LAYER", "PATH", "GROUPS", "ROWS", "MULTIPLY-ADDS", "TIME", "BYTES",
       "DENSE TIME", "GAIN"}};
  for (const Json& layer : layers) {
    const double own = Number(layer, "seconds");
    const double dense = Number(layer, "dense_seconds");
    const std::string groups = Text(layer, "groups");
    rows.push_back({Text(layer, "name"), Text(layer, "path"),
                    groups.empty() ? "-" : groups,
                    FormatShort(Number(layer, "rows")),
                    FormatShort(Number(layer, "multiply_adds")),
                    Milliseconds(own), FormatBytes(Number(layer, "bytes")),
                    Milliseconds(dense), Gain(dense, own)});
  }
  return FormatTable(rows);
}

// One line for every class of layers of which tensor trains make something
// `worse`: larger or slower.
std::string WorseThanDense(const Json& layers, const char* worse,
                           const char* own, const char* dense) {
  std::map<std::string, int> classes;
  for (const Json& layer : layers) {
    const double dense_value = Number(layer, dense);
    if (dense_value > 0 && Number(layer, own) > dense_value) {
      ++classes[Text(layer, "class")];
    }
  }
  std::string lines;
  for (const auto& [name, count] : classes) {
    absl::StrAppend(&lines, worse, " than dense at these ranks: ", name, " (",
                    count, count == 1 ? " layer" : " layers",
                    "); give it lower ranks, or compression.", name,
                    ".dense: true\n");
  }
  return lines;
}

std::string MemoryTable(const Json& memory) {
  std::vector<std::vector<std::string>> rows = {{"MEMORY OF A MEMBER", ""}};
  for (const auto& [name, bytes] : memory.items()) {
    if (!bytes.is_number()) continue;
    rows.push_back({Printable(name), FormatBytes(bytes.get<double>())});
  }
  return FormatTable(rows);
}

void PrintTable(const Json& d, const Session& session) {
  std::ostream& out = *session.env.out;
  const Json step = Part(d, "step");
  const Json layers = Part(d, "layers");
  out << LayersTable(layers) << "\n" << MemoryTable(Part(d, "memory")) << "\n";
  out << "step: " << Milliseconds(Number(step, "seconds")) << " (forward "
      << Milliseconds(Number(step, "forward_seconds")) << ", backward "
      << Milliseconds(Number(step, "backward_seconds")) << ", optimizer "
      << Milliseconds(Number(step, "optimizer_seconds")) << "), "
      << FormatShort(Number(step, "multiply_adds")) << " multiply-adds; dense "
      << Milliseconds(Number(step, "dense_seconds")) << "\n";
  out << "parameters: "
      << FormatCount(static_cast<int64_t>(Number(d, "parameters")))
      << "; dense "
      << FormatCount(static_cast<int64_t>(Number(d, "dense_parameters")))
      << "\n"
      << WorseThanDense(layers, "larger", "parameters", "dense_parameters")
      << WorseThanDense(layers, "slower", "seconds", "dense_seconds");
  for (const Json& line : Part(d, "assumptions")) {
    if (!line.is_string()) continue;
    out << "assumed: " << Printable(line.get<std::string>()) << "\n";
  }
}

int Describe(const Arguments& arguments, const Session& session) {
  const std::optional<v1::JobSpec> spec =
      ReadSoundSpec(arguments.spec, session);
  if (!spec) return kExitClientError;
  const absl::StatusOr<Json> description =
      AskTrainer(*spec, arguments, session);
  if (!description.ok()) {
    return session.Fail(Printable(std::string(description.status().message())),
                        kExitClientError);
  }
  if (session.output == OutputFormat::kTable) {
    PrintTable(*description, session);
  } else {
    // JSON is valid YAML.
    *session.env.out << description->dump(2, ' ', false,
                                          Json::error_handler_t::replace)
                     << std::endl;
  }
  return kExitOk;
}

}  // namespace

Verb DescribeVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"describe",
               "Tell what a job will do, take and hold on this machine",
               SpecArguments(&arguments->spec), nullptr};
  const Argument more[] = {
      {"--vocabulary",
       "Tokens in the vocabulary, where the job does not say",
       &arguments->vocabulary,
       false,
       {}},
      {"--data-dir",
       "State of `run`, for this machine's measurements",
       &arguments->data_dir,
       false,
       {}},
      {"--trainer-binary",
       "comera-trainer to ask",
       &arguments->trainer,
       false,
       {}},
  };
  verb.arguments.insert(verb.arguments.end(), std::begin(more), std::end(more));
  verb.examples =
      R"(  comera describe job.yaml
  comera describe job.yaml --set model.layers=12 -o json)";
  verb.run = [=] { return Describe(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
