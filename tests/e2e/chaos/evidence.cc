// Collects jobs, events, logs, models and processes for the checker.

#include "tests/e2e/chaos/evidence.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/safetensors.h"
#include "common/status_macros.h"
#include "proto/job_state.h"

namespace comera::e2e {
namespace {

namespace fs = std::filesystem;

// The time for all events of one job.
constexpr absl::Duration kEventsLimit = absl::Seconds(20);

constexpr char kStartLine[] = "] training job=";
constexpr char kFetchLine[] = "] goes on job=";

int CountStarts(const std::string& log) {
  int starts = 0;
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    if (absl::StrContains(line, kStartLine)) ++starts;
  }
  return starts;
}

// The value of " key=" in the line; empty: it has none.
std::string ValueOf(absl::string_view line, const std::string& key) {
  const std::string start = absl::StrCat(" ", key, "=");
  const size_t at = line.find(start);
  if (at == absl::string_view::npos) return "";
  line.remove_prefix(at + start.size());
  return std::string(line.substr(0, line.find(' ')));
}

// Downloads a file and reads it as what it is.
absl::Status CheckFile(client::TrainingClient* client, const std::string& model,
                       const v1::ArtifactFile& file, const std::string& path) {
  // Compares size and checksum.
  RETURN_IF_ERROR(client->DownloadArtifact(model, file, path));
  if (!absl::EndsWith(path, ".safetensors")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string contents, ReadFile(path));
  return Safetensors::Parse(contents).status();
}

int RanksOf(const v1::Job& job) {
  return std::max(job.spec().resources().processes(), 1);
}

}  // namespace

absl::Status ReadJobs(client::TrainingClient* client, Evidence* evidence) {
  ASSIGN_OR_RETURN(evidence->jobs, client->List({}, 0));
  for (const v1::Job& job : evidence->jobs) {
    // A job that never ended is a violation, not something to wait for.
    client::TrainingClient::WatchOptions options;
    options.deadline = absl::Now() + kEventsLimit;
    std::vector<v1::JobEvent>& events = evidence->events[job.name()];
    const auto end = client->Watch(
        job.name(), options, {},
        [&events](const v1::JobEvent& event) { events.push_back(event); });
    if (!end.ok() && IsFinal(job.state())) return end.status();
  }
  return absl::OkStatus();
}

absl::Status ReadMemberLogs(const std::string& worker_folder,
                            Evidence* evidence) {
  std::error_code error;
  for (const auto& job :
       fs::directory_iterator(worker_folder + "/jobs", error)) {
    const std::string name = "jobs/" + job.path().filename().string();
    std::error_code none;
    for (const auto& log : fs::directory_iterator(job.path() / "logs", none)) {
      // The name is <attempt>-<member>.log.
      const std::vector<std::string> numbers =
          absl::StrSplit(log.path().stem().string(), '-');
      int64_t attempt = 0;
      int rank = 0;
      if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &attempt) ||
          !absl::SimpleAtoi(numbers[1], &rank)) {
        continue;
      }
      ASSIGN_OR_RETURN(const std::string text, ReadFile(log.path().string()));
      const int starts = CountStarts(text);
      if (starts > 0) evidence->starts[{name, attempt, rank}] += starts;
    }
  }
  return absl::OkStatus();
}

absl::Status ReadWorkerLog(const std::string& path, Evidence* evidence) {
  std::error_code error;
  if (!fs::exists(path, error)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StrContains(line, kFetchLine)) continue;
    StateFetch fetch;
    fetch.job = ValueOf(line, "job");
    // A worker of an earlier version does not say who saved it, and the last
    // line of one that was killed may be cut short.
    if (absl::SimpleAtoi(ValueOf(line, "attempt"), &fetch.attempt) &&
        absl::SimpleAtoi(ValueOf(line, "step"), &fetch.step) &&
        absl::SimpleAtoi(ValueOf(line, "saved_by"), &fetch.saved_by) &&
        !ValueOf(line, "from").empty()) {
      evidence->fetches.push_back(std::move(fetch));
    }
  }
  return absl::OkStatus();
}

void ReadLogs(client::TrainingClient* client, Evidence* evidence) {
  for (const v1::Job& job : evidence->jobs) {
    for (int rank = 0; rank < RanksOf(job) && job.attempt() > 0; ++rank) {
      client::TrainingClient::LogOptions options;
      options.rank = rank;
      options.attempt = job.attempt();
      std::string text;
      const absl::Status read =
          client->ReadLog(job.name(), options,
                          [&text](const std::string& piece) { text += piece; });
      const int starts = CountStarts(text);
      if (read.ok() && starts > 0) {
        evidence->log_starts[{job.name(), job.attempt(), rank}] = starts;
      }
    }
  }
}

void CheckModels(client::TrainingClient* client, const std::string& folder,
                 Evidence* evidence) {
  std::error_code error;
  for (const v1::Job& job : evidence->jobs) {
    for (const v1::Artifact& model : job.models()) {
      for (const v1::ArtifactFile& file : model.files()) {
        const fs::path path = fs::path(folder) / model.name() / file.path();
        fs::create_directories(path.parent_path(), error);
        if (const absl::Status status =
                CheckFile(client, model.name(), file, path.string());
            !status.ok()) {
          evidence->bad_models.push_back(absl::StrCat(
              model.name(), "/", file.path(), ": ", status.message()));
        }
        fs::remove(path, error);
      }
    }
  }
}

std::vector<std::string> ProcessesNaming(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == getpid()) continue;
    std::ifstream file(entry.path() / "cmdline");
    // A process may end while its file is read: the stream then fails, where an
    // iterator over it would throw.
    std::ostringstream read;
    read << file.rdbuf();
    std::string command = read.str();
    std::replace(command.begin(), command.end(), '\0', ' ');
    if (absl::StrContains(command, folder)) {
      found.push_back(absl::StrCat(pid, ": ", command));
    }
  }
  return found;
}

}  // namespace comera::e2e
