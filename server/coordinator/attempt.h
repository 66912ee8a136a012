// Questions about one placement of a gang.
#ifndef COMERA_SERVER_COORDINATOR_ATTEMPT_H_
#define COMERA_SERVER_COORDINATOR_ATTEMPT_H_

#include <string>

#include "server/store/job_record.pb.h"

namespace comera::server {

// Its process is verified gone, or its worker is.
bool Ended(const AttemptMember& rank);
// Whether the worker is to run it.
bool IsWanted(const Attempt& attempt, const AttemptMember& rank);
bool AllEnded(const Attempt& attempt);
// Every rank has reported, or ended after it did.
bool AllStarted(const Attempt& attempt);
// Rank 0 exited and left a result: training is over, whatever the others do.
bool HasResult(const Attempt& attempt);
// Rank 0's models lie whole in the coordinator's files (or it has none).
bool ModelsAreStored(const Attempt& attempt);

// Notes that `file` of `artifact` is stored; a newer one replaces it.
void AddUpload(const std::string& artifact, const v1::ArtifactFile& file,
               Attempt* attempt);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_ATTEMPT_H_
