// Formats a job as a row of a table, and in detail.
#ifndef COMERA_CLIENT_CLI_OUTPUT_JOB_ROW_H_
#define COMERA_CLIENT_CLI_OUTPUT_JOB_ROW_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/output/style.h"
#include "comera/v1/job.pb.h"

namespace comera::client {

// The share of its steps that the job has done, in [0, 1].
double ShareOfSteps(const v1::JobProgress& progress);

// Loss and target, "3.217→3.100"; the training loss while there is no
// validation loss; "-".
std::string LossAndTarget(const v1::Job& job);
// Size and target in parameters, "1.03M→512.0k".
std::string SizeAndTarget(const v1::Job& job);

// The columns of comera top; the third is the state.
std::vector<std::string> JobHeader();
std::vector<std::string> JobRow(const v1::Job& job, absl::Time now);
// The columns that a narrow terminal leaves out first.
std::vector<std::string> JobDispensable();

// Everything known of the job, in lines of at most `width` columns.
std::vector<StyledLine> JobDetails(const v1::Job& job, absl::Time now,
                                   int width);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_JOB_ROW_H_
