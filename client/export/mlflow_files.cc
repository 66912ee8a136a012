// Writes the files of MLflow's runs.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/export/mlflow_run.h"
#include "common/files.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "yaml-cpp/emitter.h"
#include "yaml-cpp/emittermanip.h"

namespace comera::client {
namespace {

namespace fs = std::filesystem;

// The id of MLflow's default experiment.
constexpr char kExperiment[] = "0";

std::string RunFolder(const std::string& root, const MlflowRun& run) {
  return absl::StrCat(root, "/", kExperiment, "/", run.id);
}

// Returns a file:// URI, with all but plain characters as %XX.
std::string FileUri(const std::string& path) {
  std::string uri = "file://";
  for (const char c : path) {
    if (absl::ascii_isalnum(c) || c == '/' || c == '-' || c == '_' ||
        c == '.' || c == '~') {
      uri += c;
    } else {
      absl::StrAppendFormat(&uri, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return uri;
}

// Writes a file in a folder that is later renamed into place as a whole.
absl::Status WritePart(const std::string& path, const std::string& text) {
  RETURN_IF_ERROR(MakeDirectories(path.substr(0, path.rfind('/'))));
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return absl::ResourceExhaustedError(path + ": cannot be written");
  return absl::OkStatus();
}

// Formats a number as Python's float() reads it.
std::string Number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return absl::StrFormat("%.17g", value);
}

std::string MetaYaml(const std::string& root, const MlflowRun& run) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  const auto quoted = [&](const char* key, const std::string& value) {
    out << YAML::Key << key << YAML::Value << YAML::SingleQuoted << value;
  };
  const auto number = [&](const char* key, int64_t value) {
    out << YAML::Key << key << YAML::Value << value;
  };
  quoted("artifact_uri", FileUri(RunFolder(root, run) + "/artifacts"));
  out << YAML::Key << "end_time" << YAML::Value;
  if (run.end_ms > 0) {
    out << run.end_ms;
  } else {
    out << YAML::Null;
  }
  quoted("entry_point_name", "");
  quoted("experiment_id", kExperiment);
  quoted("lifecycle_stage", "active");
  quoted("run_id", run.id);
  quoted("run_name", run.name);
  quoted("run_uuid", run.id);
  quoted("source_name", "");
  number("source_type", 4);  // LOCAL
  quoted("source_version", "");
  number("start_time", run.start_ms);
  number("status", run.status);
  out << YAML::Key << "tags" << YAML::Value << YAML::Flow << YAML::BeginSeq
      << YAML::EndSeq;
  quoted("user_id", run.user);
  out << YAML::EndMap;
  return absl::StrCat(out.c_str(), "\n");
}

// Makes the default experiment, unless MLflow or an earlier export has.
absl::Status MakeExperiment(const std::string& root, int64_t now_ms) {
  const std::string path = absl::StrCat(root, "/", kExperiment, "/meta.yaml");
  std::error_code error;
  if (fs::exists(path, error)) return absl::OkStatus();
  RETURN_IF_ERROR(MakeDirectories(absl::StrCat(root, "/", kExperiment)));
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "artifact_location" << YAML::Value
      << FileUri(absl::StrCat(root, "/", kExperiment)) << YAML::Key
      << "creation_time" << YAML::Value << now_ms << YAML::Key
      << "experiment_id" << YAML::Value << YAML::SingleQuoted << kExperiment
      << YAML::Key << "last_update_time" << YAML::Value << now_ms << YAML::Key
      << "lifecycle_stage" << YAML::Value << "active" << YAML::Key << "name"
      << YAML::Value << "Default" << YAML::EndMap;
  return WriteFileAtomically(path, absl::StrCat(out.c_str(), "\n"));
}

nlohmann::ordered_json Description(const v1::Artifact& model,
                                   const std::string& folder,
                                   const std::string& run_id) {
  const absl::Time time = absl::FromUnixSeconds(model.create_time().seconds());
  return {{"artifact_path", folder},
          {"flavors",
           {{"comera",
             {{"comera_version", std::string(kVersion)},
              {"data", "model.safetensors"}}}}},
          {"model_uuid", MlflowRunId(model.name())},
          {"run_id", run_id},
          {"utc_time_created", absl::FormatTime("%Y-%m-%d %H:%M:%S.000000",
                                                time, absl::UTCTimeZone())}};
}

// Copies the entries of `from` that `to` lacks.
void KeepOthers(const fs::path& from, const fs::path& to) {
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(from, error);
       !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    std::error_code one;
    if (!it->is_regular_file(one)) continue;
    const fs::path target = to / it->path().lexically_relative(from);
    fs::create_directories(target.parent_path(), one);
    fs::copy_file(it->path(), target, fs::copy_options::skip_existing, one);
  }
}

}  // namespace

absl::StatusOr<std::string> MlflowArtifactFolder(const std::string& root,
                                                 const MlflowRun& run) {
  const std::string folder = RunFolder(root, run) + "/artifacts";
  RETURN_IF_ERROR(MakeDirectories(folder));
  return folder;
}

std::string MlModel(const v1::Artifact& model, const v1::Job& job,
                    const std::string& folder, const std::string& run_id) {
  const auto description = Description(model, folder, run_id);
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "artifact_path" << YAML::Value << folder
      << YAML::Key << "flavors" << YAML::Value << YAML::BeginMap << YAML::Key
      << "comera" << YAML::Value << YAML::BeginMap << YAML::Key
      << "comera_version" << YAML::Value << std::string(kVersion) << YAML::Key
      << "family" << YAML::Value
      << v1::ModelSpec::Family_Name(job.spec().model().family()) << YAML::Key
      << "files" << YAML::Value << YAML::BeginSeq;
  for (const v1::ArtifactFile& file : model.files()) out << file.path();
  out << YAML::EndSeq << YAML::Key << "job" << YAML::Value << job.name()
      << YAML::Key << "model" << YAML::Value << model.name() << YAML::Key
      << "size_parameters" << YAML::Value << model.size_parameters()
      << YAML::Key << "validation_loss" << YAML::Value
      << model.validation_loss() << YAML::EndMap << YAML::EndMap;
  for (const char* key : {"model_uuid", "run_id", "utc_time_created"}) {
    out << YAML::Key << key << YAML::Value << YAML::SingleQuoted
        << description[key].get<std::string>();
  }
  out << YAML::EndMap;
  return absl::StrCat(out.c_str(), "\n");
}

std::string MlModelHistory(const std::vector<v1::Artifact>& models,
                           const std::string& run_id) {
  nlohmann::ordered_json history = nlohmann::ordered_json::array();
  for (const v1::Artifact& model : models) {
    history.push_back(Description(
        model, model.name().substr(model.name().rfind('/') + 1), run_id));
  }
  return JsonText(history);
}

absl::Status WriteMlflowRun(const std::string& root, const MlflowRun& run) {
  RETURN_IF_ERROR(MakeExperiment(root, run.start_ms));
  const std::string folder = RunFolder(root, run);
  RETURN_IF_ERROR(MakeDirectories(folder + "/artifacts"));
  const std::string partial = folder + "/.partial";
  std::error_code error;
  fs::remove_all(partial, error);
  for (const auto& [name, value] : run.params) {
    RETURN_IF_ERROR(WritePart(absl::StrCat(partial, "/params/", name), value));
  }
  for (const auto& [name, value] : run.tags) {
    RETURN_IF_ERROR(
        WritePart(absl::StrCat(partial, "/tags/", MlflowKey(name)), value));
  }
  // Keeps the tags that people gave the run in MLflow.
  KeepOthers(folder + "/tags", partial + "/tags");
  for (const auto& [name, points] : run.metrics) {
    std::string lines;
    for (const MlflowPoint& point : points) {
      absl::StrAppend(&lines, point.time_ms, " ", Number(point.value), " ",
                      point.step, "\n");
    }
    RETURN_IF_ERROR(WritePart(absl::StrCat(partial, "/metrics/", name), lines));
  }
  for (const char* part : {"params", "tags", "metrics"}) {
    const std::string path = absl::StrCat(folder, "/", part);
    fs::remove_all(path, error);
    // MLflow expects these folders even if they are empty.
    RETURN_IF_ERROR(MakeDirectories(absl::StrCat(partial, "/", part)));
    fs::rename(absl::StrCat(partial, "/", part), path, error);
    if (error) {
      return absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
    }
  }
  fs::remove_all(partial, error);
  // Written last: it makes the run appear.
  return WriteFileAtomically(folder + "/meta.yaml", MetaYaml(root, run));
}

}  // namespace comera::client
