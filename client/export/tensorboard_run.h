// The event file of one job.
#ifndef COMERA_CLIENT_EXPORT_TENSORBOARD_RUN_H_
#define COMERA_CLIENT_EXPORT_TENSORBOARD_RUN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/export/record_file.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"

namespace comera::client {

// Writes below a folder that TensorBoard shows as one run. Beside the event
// file stands what is in it (comera_export.json): a later export, also after a
// crash, goes on there and repeats nothing. Not thread-safe.
//
//   ASSIGN_OR_RETURN(auto run, TensorBoardRun::Open(folder, job, job_file));
//   ... run->Add(event) for events after run->last_sequence(); run->Flush();
//   run->Finish(job);
class TensorBoardRun {
 public:
  // FailedPrecondition: another job's export is in the folder, or another
  // process exports to it. DataLoss: comera_export.json is none.
  static absl::StatusOr<std::unique_ptr<TensorBoardRun>> Open(
      const std::string& folder, const v1::Job& job,
      const std::string& job_file);

  // The newest event in the file; 0: none.
  int64_t last_sequence() const { return last_sequence_; }
  // Whether the job's end is in it.
  bool finished() const { return finished_; }

  // Written by Flush at the latest.
  absl::Status Add(const v1::JobEvent& event);
  absl::Status Flush();
  // The job has ended: how, once.
  absl::Status Finish(const v1::Job& job);

 private:
  TensorBoardRun(std::string folder, std::string job)
      : folder_(std::move(folder)), job_(std::move(job)) {}
  std::string StatePath() const;
  absl::Status ReadState(std::string* file, int64_t* bytes);

  const std::string folder_;
  const std::string job_;
  std::string file_name_;
  std::unique_ptr<RecordFile> file_;
  int64_t last_sequence_ = 0;
  bool finished_ = false;
  int pending_ = 0;  // events since the last Flush
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_EXPORT_TENSORBOARD_RUN_H_
