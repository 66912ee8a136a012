// Reads what a run of the service has left behind, after its end.
#ifndef COMERA_TESTS_E2E_CHAOS_EVIDENCE_H_
#define COMERA_TESTS_E2E_CHAOS_EVIDENCE_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/progress.pb.h"
#include "server/store/job_record.pb.h"

namespace comera::e2e {

struct Evidence {
  // The accepted submissions as clients know them: request id and job name.
  std::map<std::string, std::string> accepted;
  std::vector<server::JobRecord> records;
  // The events by job, in the order of their numbers.
  std::map<std::string, std::vector<v1::JobEvent>> events;
  // How often a member began to train, by job, attempt and member, over all
  // workers.
  std::map<std::tuple<std::string, int64_t, int>, int> starts;
  // One line per model file that does not match its job.
  std::vector<std::string> bad_models;
  // The command lines of processes that were left running.
  std::vector<std::string> orphans;
};

// Reads jobs and events of an SQLite store, which is opened read-only.
// DataLoss: it is damaged. Unavailable: it cannot be read.
absl::Status ReadStore(const std::string& path, Evidence* evidence);

// Counts the beginnings of training in the members' logs below a worker's
// folder. Unavailable: a log cannot be read.
absl::Status ReadMemberLogs(const std::string& worker_folder,
                            Evidence* evidence);

// Checks every model of every job in the coordinator's folder: the files exist,
// have the size and checksum of the job's record, and can be read.
void CheckModels(const std::string& server_folder, Evidence* evidence);

// Returns the command lines of other processes that name the folder.
std::vector<std::string> ProcessesNaming(const std::string& folder);

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_EVIDENCE_H_
