// Collects records, events, logs, models and processes for the checker.

#include "tests/e2e/chaos/evidence.h"

#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/safetensors.h"
#include "common/status_macros.h"

namespace comera::e2e {
namespace {

namespace fs = std::filesystem;

constexpr char kStartLine[] = "] training job=";

struct CloseDatabase {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};

// Calls `row` with the two columns of each row.
absl::Status Query(sqlite3* db, const char* sql,
                   const std::function<absl::Status(const std::string&,
                                                    const std::string&)>& row) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, nullptr) != SQLITE_OK) {
    return absl::UnavailableError(absl::StrCat(sql, ": ", sqlite3_errmsg(db)));
  }
  absl::Status status;
  int code;
  while (status.ok() && (code = sqlite3_step(statement)) == SQLITE_ROW) {
    std::string columns[2];
    for (int i = 0; i < 2; ++i) {
      const auto* bytes =
          static_cast<const char*>(sqlite3_column_blob(statement, i));
      columns[i].assign(bytes != nullptr ? bytes : "",
                        sqlite3_column_bytes(statement, i));
    }
    status = row(columns[0], columns[1]);
  }
  if (status.ok() && code != SQLITE_DONE) {
    status = absl::DataLossError(absl::StrCat(sql, ": ", sqlite3_errmsg(db)));
  }
  sqlite3_finalize(statement);
  return status;
}

int CountStarts(const std::string& log) {
  int starts = 0;
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    if (absl::StrContains(line, kStartLine)) ++starts;
  }
  return starts;
}

absl::Status CheckFile(const std::string& path, const v1::ArtifactFile& file) {
  ASSIGN_OR_RETURN(const std::string contents, ReadFile(path));
  if (static_cast<int64_t>(contents.size()) != file.size_bytes()) {
    return absl::DataLossError(absl::StrCat("has ", contents.size(),
                                            " bytes, not ", file.size_bytes()));
  }
  if (Sha256Hex(contents) != file.sha256()) {
    return absl::DataLossError("has another checksum");
  }
  if (absl::EndsWith(path, ".safetensors")) {
    return Safetensors::Parse(contents).status();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadStore(const std::string& path, Evidence* evidence) {
  sqlite3* raw = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
  const std::unique_ptr<sqlite3, CloseDatabase> db(raw);
  if (code != SQLITE_OK) {
    return absl::UnavailableError(
        absl::StrCat(path, ": ", sqlite3_errstr(code)));
  }
  RETURN_IF_ERROR(Query(raw, "PRAGMA quick_check(1)",
                        [](const std::string& verdict, const std::string&) {
                          return verdict == "ok" ? absl::OkStatus()
                                                 : absl::DataLossError(verdict);
                        }));
  RETURN_IF_ERROR(Query(
      raw, "SELECT name, record FROM jobs ORDER BY serial",
      [&](const std::string& name, const std::string& bytes) {
        server::JobRecord record;
        if (!record.ParseFromString(bytes) || record.job().name() != name) {
          return absl::DataLossError("the record of " + name + " is damaged");
        }
        evidence->records.push_back(std::move(record));
        return absl::OkStatus();
      }));
  return Query(
      raw, "SELECT job, event FROM events ORDER BY job, sequence",
      [&](const std::string& job, const std::string& bytes) {
        v1::JobEvent event;
        if (!event.ParseFromString(bytes)) {
          return absl::DataLossError("an event of " + job + " is damaged");
        }
        evidence->events[job].push_back(std::move(event));
        return absl::OkStatus();
      });
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

void CheckModels(const std::string& server_folder, Evidence* evidence) {
  for (const server::JobRecord& record : evidence->records) {
    for (const v1::Artifact& model : record.job().models()) {
      // The name is jobs/{job}/models/{model}.
      const std::vector<std::string> parts = absl::StrSplit(model.name(), '/');
      if (parts.size() != 4) {
        evidence->bad_models.push_back(model.name() + ": malformed name");
        continue;
      }
      for (const v1::ArtifactFile& file : model.files()) {
        const std::string path =
            absl::StrCat(server_folder, "/artifacts/", parts[1], "/", parts[3],
                         "/", file.path());
        if (const absl::Status status = CheckFile(path, file); !status.ok()) {
          evidence->bad_models.push_back(absl::StrCat(
              model.name(), "/", file.path(), ": ", status.message()));
        }
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
