// Parses the three formats of job files into one message.

#include "proto/job_text.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "nlohmann/json.hpp"
#include "proto/field_reader.h"
#include "proto/former_names_textproto.h"
#include "proto/yaml_tree.h"

namespace comera {
namespace {

// Keeps the first error of a textproto.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int /*column*/, const std::string& message) override {
    if (line_ < 0) {
      line_ = line + 1;
      message_ = message;
    }
  }
  std::string Text() const { return absl::StrCat(line_, ": ", message_); }

 private:
  int line_ = -1;
  std::string message_;
};

absl::StatusOr<v1::JobSpec> ParseTextproto(const std::string& contents,
                                           const std::string& name,
                                           std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(
      const std::string text,
      WithCurrentNames(contents, name, *v1::JobSpec::descriptor(), notes));
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(32);
  v1::JobSpec spec;
  if (!parser.ParseFromString(text, &spec)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ":", error.Text()));
  }
  return spec;
}

// Checks JSON syntax; the text is then parsed as YAML, which keeps line
// numbers.
absl::Status CheckJson(const std::string& contents, const std::string& name) {
  try {
    // Values are dropped as they come, because only the syntax matters here.
    const auto drop = [](int, nlohmann::json::parse_event_t, nlohmann::json&) {
      return false;
    };
    const nlohmann::json dropped = nlohmann::json::parse(contents, drop);
  } catch (const nlohmann::json::parse_error& error) {
    const size_t end = std::min<size_t>(error.byte, contents.size());
    const auto line =
        1 + std::count(contents.begin(), contents.begin() + end, '\n');
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", line, ": ", error.what()));
  } catch (const nlohmann::json::exception& error) {
    // The number is too large for a double.
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", error.what()));
  }
  return absl::OkStatus();
}

absl::Status Read(const std::string& contents, const std::string& name,
                  JobFileFormat format, JobFileText* text) {
  if (contents.size() > kMaxJobFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":1: larger than ", kMaxJobFileBytes, " bytes"));
  }
  if (format == JobFileFormat::kTextproto) {
    ASSIGN_OR_RETURN(text->spec, ParseTextproto(contents, name, &text->notes));
    return absl::OkStatus();
  }
  if (format == JobFileFormat::kJson) {
    RETURN_IF_ERROR(CheckJson(contents, name));
  }
  ASSIGN_OR_RETURN(const YamlNodePtr root, ParseYaml(contents, name));
  text->lines = FindFieldLines(*root, *v1::JobSpec::descriptor());
  return ReadMessage(*root, name, &text->spec, &text->notes);
}

}  // namespace

absl::StatusOr<JobFileFormat> FormatOf(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  if (ending == ".yaml" || ending == ".yml") return JobFileFormat::kYaml;
  if (ending == ".json") return JobFileFormat::kJson;
  if (ending == ".textproto" || ending == ".txtpb" || ending == ".pbtxt") {
    return JobFileFormat::kTextproto;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": a job file ends in .yaml, .yml, .json or .textproto"));
}

JobFileText ReadJobText(const std::string& contents, const std::string& name,
                        JobFileFormat format) {
  JobFileText text;
  text.status = Read(contents, name, format, &text);
  return text;
}

absl::StatusOr<v1::JobSpec> ParseJobFile(const std::string& contents,
                                         const std::string& name,
                                         JobFileFormat format,
                                         std::vector<std::string>* notes) {
  JobFileText text = ReadJobText(contents, name, format);
  if (notes != nullptr) {
    notes->insert(notes->end(), text.notes.begin(), text.notes.end());
  }
  RETURN_IF_ERROR(text.status);
  return std::move(text.spec);
}

}  // namespace comera
