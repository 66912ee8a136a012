// Checks a job's program.

#include "proto/validation/program_validation.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/secret_words.h"
#include "proto/validation/data_path_check.h"

namespace comera {
namespace {

constexpr int kMaxArguments = 256;
constexpr int kMaxEntries = 64;
constexpr int64_t kMaxBytes = int64_t{1} << 50;
constexpr int64_t kMaxThreads = 4096;

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// [a-z][a-z0-9_]{0,62}
bool IsDataName(std::string_view name) {
  return !name.empty() && name.size() <= 63 && IsLower(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return IsLower(c) || IsDigit(c) || c == '_';
         });
}

// [A-Za-z_][A-Za-z0-9_]{0,127}
bool IsVariable(std::string_view name) {
  return !name.empty() && name.size() <= 128 && !IsDigit(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return IsLower(c) || IsUpper(c) || IsDigit(c) || c == '_';
         });
}

// Why a job may not set the variable; empty: it may.
const char* WhyReserved(std::string_view name) {
  for (const std::string_view own :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
        "MASTER_PORT", "TMPDIR", "CUDA_VISIBLE_DEVICES"}) {
    if (name == own) return "is set by the service";
  }
  if (absl::StartsWith(absl::string_view(name.data(), name.size()),
                       "COMERA_")) {
    return "is set by the service: names that begin with COMERA_ are its own";
  }
  return "";
}

// A path below a folder: no empty part, no "." and no "..".
bool IsBelow(const std::string& path) {
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

void CheckEntry(const v1::ProgramSpec& program, SpecChecker& check) {
  if (program.entry().empty()) {
    check.Add("program.entry",
              "is missing: the Python file to run, e.g. train.py");
    return;
  }
  check.Require(IsBelow(program.entry()), "program.entry",
                "must be the path of a file below program.files, e.g. train.py "
                "or src/train.py");
}

void CheckArguments(const v1::ProgramSpec& program, SpecChecker& check) {
  check.Range("program.arguments", program.arguments_size(), 0, kMaxArguments,
              "arguments");
  for (int i = 0; i < std::min(program.arguments_size(), kMaxArguments); ++i) {
    const std::string& argument = program.arguments(i);
    const std::string field = absl::StrCat("program.arguments[", i, "]");
    check.Require(!LooksLikeSecret(argument), field,
                  "looks like a secret, and everybody who may see the job sees "
                  "its arguments: keep secrets in files that the workers can "
                  "read");
  }
}

void CheckEnvironment(const v1::ProgramSpec& program, SpecChecker& check) {
  check.Range("program.environment", program.environment_size(), 0, kMaxEntries,
              "variables");
  if (program.environment_size() > kMaxEntries) return;
  for (const auto& [name, value] : program.environment()) {
    if (!IsVariable(name)) {
      check.Add("program.environment",
                "has a name other than 1 to 128 of [A-Za-z0-9_], the first "
                "not a digit");
      continue;
    }
    const std::string field = absl::StrCat("program.environment[", name, "]");
    const std::string reserved = WhyReserved(name);
    check.Require(reserved.empty(), field, reserved);
    check.Require(!NamesSecret(name) && !LooksLikeSecret(value), field,
                  "looks like a secret, and everybody who may see the job sees "
                  "its environment: keep secrets in files that the workers can "
                  "read");
  }
}

void CheckPaths(const v1::ProgramSpec& program, SpecChecker& check) {
  CheckDataPath("program.files", program.files(), PathKind::kFolder, check);
  check.Require(absl::StartsWith(program.python(), "/"), "program.python",
                "must be the absolute path of an interpreter on the workers");
  check.Range("program.data", program.data_size(), 0, kMaxEntries, "entries");
  if (program.data_size() > kMaxEntries) return;
  for (const auto& [name, path] : program.data()) {
    if (!IsDataName(name)) {
      check.Add("program.data",
                "has a name other than 1 to 63 of [a-z0-9_], the first a "
                "letter");
      continue;
    }
    CheckDataPath(absl::StrCat("program.data[", name, "]"), path,
                  PathKind::kFileOrFolder, check);
  }
}

// A program chooses its own stages, so only what ends a run is left of the
// objective.
void CheckTargets(const v1::JobSpec& spec, SpecChecker& check) {
  if (!spec.has_objective()) return;
  v1::LateStage late = spec.objective().late();
  v1::ObjectiveSpec rest = spec.objective();
  rest.clear_late();
  check.Require(rest.ByteSizeLong() == 0, "objective",
                "has only late.target_loss and late.target_parameters or "
                "target_bytes for a program, which chooses its own stages");
  if (!spec.objective().has_late()) return;
  const bool loss = late.target_quality_case() == v1::LateStage::kTargetLoss;
  check.Require(loss && late.target_loss() > 0, "objective.late.target_loss",
                "is missing or not above 0: it and a size are what a program "
                "can be asked for");
  switch (late.target_size_case()) {
    case v1::LateStage::kTargetBytes:
      check.Range("objective.late.target_bytes", late.target_bytes(), 4,
                  kMaxBytes);
      break;
    case v1::LateStage::kTargetParameters:
      check.Range("objective.late.target_parameters", late.target_parameters(),
                  1, kMaxBytes);
      break;
    default:
      check.Add("objective.late",
                "needs target_bytes or target_parameters: the size that a "
                "ratio refers to is known to the program only");
  }
  late.clear_target_quality();
  late.clear_target_size();
  check.Require(late.ByteSizeLong() == 0, "objective.late",
                "has only target_loss and target_parameters or target_bytes "
                "for a program");
}

void CheckResources(const v1::ResourceSpec& resources, SpecChecker& check) {
  check.Range("resources.processes", resources.processes(), 1, 1024);
  check.Require(resources.min_processes() == 0, "resources.min_processes",
                "is not for programs: a gang of theirs keeps its size");
  check.Range("resources.threads_per_process", resources.threads_per_process(),
              0, kMaxThreads);
  check.Range("resources.memory_bytes", resources.memory_bytes(), 0, kMaxBytes);
}

}  // namespace

void CheckProgram(const v1::JobSpec& spec, SpecChecker& check) {
  const auto excluded = [&](bool has, const char* field) {
    check.Require(!has, field,
                  "excludes program, which has its own model and data");
  };
  excluded(spec.has_model(), "model");
  excluded(spec.has_data(), "data");
  excluded(spec.has_compression(), "compression");
  excluded(spec.has_optimizer(), "optimizer");
  excluded(spec.has_training(), "training");
  excluded(spec.has_initial_weights(), "initial_weights");
  excluded(spec.has_start_from(), "start_from");
  excluded(spec.has_budget(), "budget");
  const v1::ProgramSpec& program = spec.program();
  CheckEntry(program, check);
  CheckArguments(program, check);
  CheckEnvironment(program, check);
  CheckPaths(program, check);
  CheckTargets(spec, check);
  CheckResources(spec.resources(), check);
}

}  // namespace comera
