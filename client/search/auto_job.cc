// Chooses data format, model family and small defaults for a job that its user
// describes by data and targets alone.
#include "client/search/auto_job.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "proto/spec_field.h"

namespace comera::client {
namespace {

constexpr char kDefaultBudget[] = "10m";
// Kinds of files that a folder is searched for.
constexpr const char* kKinds[] = {".c",  ".h",    ".cc", ".cpp", ".hpp",
                                  ".py", ".js",   ".ts", ".go",  ".rs",
                                  ".rb", ".java", ".md", ".txt"};
// Files of a folder that are looked at.
constexpr int kMaxFiles = 20000;

// Sets a field by the text of a command line; `flag` names that in errors.
absl::Status Set(const std::string& flag, const std::string& field,
                 const std::string& text, v1::JobSpec* spec) {
  const absl::Status status = SetSpecField(field, text, spec);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", status.message()));
}

absl::Status SetSize(const std::string& text, v1::JobSpec* spec) {
  if (absl::EndsWith(text, "B")) {
    return Set("--target-size", "objective.late.target_bytes", text, spec);
  }
  double unit = 1;
  absl::string_view number = text;
  if (absl::ConsumeSuffix(&number, "k")) unit = 1e3;
  if (absl::ConsumeSuffix(&number, "M")) unit = 1e6;
  double value = 0;
  if (!absl::SimpleAtod(number, &value) || !(value > 0) ||
      !(value * unit < 1e15)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--target-size: `", text,
                     "` is no size: parameters (60000, 60k, 1.2M) or bytes "
                     "(256KiB)"));
  }
  spec->mutable_objective()->mutable_late()->set_target_parameters(
      static_cast<int64_t>(std::llround(value * unit)));
  return absl::OkStatus();
}

absl::Status SetBudget(const std::string& text, v1::JobSpec* spec) {
  absl::string_view number = text;
  if (absl::ConsumeSuffix(&number, "steps")) {
    return Set("--budget", "budget.steps",
               std::string(absl::StripAsciiWhitespace(number)), spec);
  }
  return Set("--budget", "budget.time", text.empty() ? kDefaultBudget : text,
             spec);
}

absl::Status SetTargets(const AutoRequest& request, v1::JobSpec* spec) {
  if (!request.target_loss.empty() && !request.target_accuracy.empty()) {
    return absl::InvalidArgumentError(
        "--target-accuracy excludes --target-loss: a search has one");
  }
  if (request.target_loss.empty() && request.target_accuracy.empty() &&
      request.target_size.empty()) {
    return absl::InvalidArgumentError(
        "--auto needs a target: --target-accuracy, --target-loss or "
        "--target-size");
  }
  if (!request.target_loss.empty()) {
    RETURN_IF_ERROR(Set("--target-loss", "objective.late.target_loss",
                        request.target_loss, spec));
  }
  if (!request.target_accuracy.empty()) {
    RETURN_IF_ERROR(Set("--target-accuracy", "objective.late.target_accuracy",
                        request.target_accuracy, spec));
  }
  if (!request.target_size.empty()) {
    RETURN_IF_ERROR(SetSize(request.target_size, spec));
  }
  return SetBudget(request.budget, spec);
}

// A model of a common small shape; the search tries narrower ones.
void SetModel(v1::ModelSpec::Family family, v1::JobSpec* spec) {
  v1::ModelSpec& model = *spec->mutable_model();
  model.set_family(family);
  model.set_layers(2);
  model.set_hidden(128);
  model.set_heads(4);
  v1::TokenizerSpec& tokenizer = *spec->mutable_data()->mutable_tokenizer();
  tokenizer.set_kind(v1::TokenizerSpec::BYTE_BPE);
  const bool classifier = family == v1::ModelSpec::ENCODER_CLASSIFIER;
  tokenizer.set_train_vocabulary_size(classifier ? 4096 : 1024);
  spec->mutable_data()->set_max_length(64);
  spec->mutable_training()->set_batch_size(classifier ? 32 : 64);
  spec->mutable_training()->set_seed(1);
}

void SetLabelled(const AutoRequest& request, const LabelledFile& file,
                 v1::JobSpec* spec) {
  SetModel(v1::ModelSpec::ENCODER_CLASSIFIER, spec);
  spec->mutable_model()->set_classes(static_cast<int32_t>(file.labels.size()));
  v1::LabelledText& data = *spec->mutable_data()->mutable_labelled_text();
  data.set_train(request.data);
  data.set_validation(request.validation);
  data.set_test(request.test);
  data.set_text(file.text);
  data.set_second_text(file.second_text);
  data.set_label(file.label);
  for (const std::string& label : file.labels) data.add_labels(label);
}

// The endings of the folder's files that are source code or text.
absl::StatusOr<std::vector<std::string>> FindGlobs(const std::string& folder) {
  std::map<std::string, int> found;
  std::error_code error;
  int files = 0;
  for (std::filesystem::recursive_directory_iterator at(
           folder, std::filesystem::directory_options::skip_permission_denied,
           error),
       end;
       !error && at != end && files < kMaxFiles; at.increment(error)) {
    if (!at->is_regular_file(error)) continue;
    ++files;
    ++found[at->path().extension().string()];
  }
  if (error) {
    return absl::NotFoundError(absl::StrCat(folder, ": ", error.message()));
  }
  std::vector<std::string> globs;
  for (const char* kind : kKinds) {
    if (found.count(kind) > 0) globs.push_back(absl::StrCat("*", kind));
  }
  if (globs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder, ": holds no source code or text (*.c, *.py, *.txt, ...)"));
  }
  return globs;
}

absl::Status SetCode(const AutoRequest& request, v1::JobSpec* spec) {
  ASSIGN_OR_RETURN(const std::vector<std::string> globs,
                   FindGlobs(request.data));
  SetModel(v1::ModelSpec::MASKED_LM, spec);
  v1::CodeDirectory& code = *spec->mutable_data()->mutable_code_directory();
  code.add_roots(request.data);
  for (const std::string& glob : globs) code.add_globs(glob);
  return absl::OkStatus();
}

absl::Status SetTexts(const AutoRequest& request, const LabelledFile& file,
                      v1::JobSpec* spec) {
  if (request.validation.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.data,
        ": has no labels, so that a language model is trained; name the file "
        "it is validated on with --validation"));
  }
  SetModel(v1::ModelSpec::MASKED_LM, spec);
  v1::Jsonl& data = *spec->mutable_data()->mutable_jsonl();
  data.set_train(request.data);
  data.set_validation(request.validation);
  data.set_test(request.test);
  data.add_fields(file.text);
  if (!file.second_text.empty()) data.add_fields(file.second_text);
  return absl::OkStatus();
}

bool IsPlainTextName(absl::string_view name) {
  absl::ConsumeSuffix(&name, ".gz");
  return absl::EndsWith(name, ".txt");
}

void SetPlainText(const AutoRequest& request, v1::JobSpec* spec) {
  SetModel(v1::ModelSpec::CAUSAL_LM, spec);
  v1::Text& text = *spec->mutable_data()->mutable_text();
  text.add_train(request.data);
  if (!request.validation.empty()) text.add_validation(request.validation);
  if (!request.test.empty()) text.add_test(request.test);
}

absl::Status SetData(const AutoRequest& request, v1::JobSpec* spec) {
  std::error_code error;
  if (std::filesystem::is_directory(request.data, error)) {
    return SetCode(request, spec);
  }
  if (IsPlainTextName(request.data)) {
    if (!std::filesystem::exists(request.data, error)) {
      return absl::NotFoundError(
          absl::StrCat(request.data, ": there is no such file"));
    }
    SetPlainText(request, spec);
    return absl::OkStatus();
  }
  if (!IsLabelledFileName(request.data)) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.data,
        ": data are a .csv, .tsv, .jsonl or .txt file (plain or .gz), or a "
        "folder of source code or text files"));
  }
  ASSIGN_OR_RETURN(const LabelledFile file,
                   SurveyLabelledFile(request.data, request.columns));
  if (!file.label.empty()) {
    if (file.labels.size() < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat(request.data, ": all rows have the same label"));
    }
    SetLabelled(request, file, spec);
    return absl::OkStatus();
  }
  if (!absl::StrContains(request.data, ".jsonl")) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.data, ": has no column of labels; name it with --label"));
  }
  return SetTexts(request, file, spec);
}

}  // namespace

absl::StatusOr<v1::JobSpec> MakeAutoJob(const AutoRequest& request) {
  v1::JobSpec spec;
  spec.set_display_name(absl::StrCat(
      "auto ",
      std::filesystem::path(request.data).filename().string().substr(0, 100)));
  spec.mutable_compression()->set_method(v1::CompressionSpec::AUTO);
  RETURN_IF_ERROR(SetTargets(request, &spec));
  RETURN_IF_ERROR(SetData(request, &spec));
  if (!request.target_accuracy.empty() &&
      spec.model().family() != v1::ModelSpec::ENCODER_CLASSIFIER) {
    return absl::InvalidArgumentError(
        "--target-accuracy: the data have no labels; a language model takes "
        "--target-loss");
  }
  return spec;
}

}  // namespace comera::client
