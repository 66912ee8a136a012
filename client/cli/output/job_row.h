// A job as a row of a table, and in detail.
#ifndef COMERA_CLIENT_CLI_OUTPUT_JOB_ROW_H_
#define COMERA_CLIENT_CLI_OUTPUT_JOB_ROW_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/output/style.h"
#include "comera/v1/job.pb.h"

namespace comera::client {

// Of its steps, in [0, 1].
double ShareOfSteps(const v1::JobProgress& progress);

// "3.217→3.100"; the training loss while there is no validation loss; "-".
std::string LossAndTarget(const v1::Job& job);
// "1.03M→512.0k" parameters.
std::string SizeAndTarget(const v1::Job& job);

// What comera top shows; the state is in the third column.
std::vector<std::string> JobHeader();
std::vector<std::string> JobRow(const v1::Job& job, absl::Time now);
// Columns that a narrow terminal does without.
std::vector<std::string> JobDispensable();

// All of it, line by line, at most `width` columns.
std::vector<StyledLine> JobDetails(const v1::Job& job, absl::Time now,
                                   int width);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_JOB_ROW_H_
