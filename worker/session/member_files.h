#ifndef COMERA_WORKER_SESSION_MEMBER_FILES_H_
#define COMERA_WORKER_SESSION_MEMBER_FILES_H_

#include <string>
#include <vector>

#include "comera/v1/worker_service.pb.h"
#include "worker/gang/file_rules.h"
#include "worker/gang/job_folders.h"

namespace comera::worker {

// The files that a member needs: those of the machine (SystemFiles), the
// program `trainer` and the libraries and files that `environment` (KEY=VALUE)
// names, its job's own folders, and the data that its specification names,
// which must have been checked (DataRoots). So the daemon's other files, and
// other jobs', are not among them.
FileAccess MemberFiles(const v1::MemberAssignment& member,
                       const JobFolders& folders, const std::string& data_dir,
                       const std::string& trainer,
                       const std::vector<std::string>& environment);

}  // namespace comera::worker

#endif  // COMERA_WORKER_SESSION_MEMBER_FILES_H_
