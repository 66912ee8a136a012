// Makes a folder into which nobody but its owner can look.
#ifndef COMERA_CLIENT_PRIVATE_FOLDER_H_
#define COMERA_CLIENT_PRIVATE_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace comera::client {

// Makes `path` with mode 0700, or gives the existing folder that mode if it is
// empty or the program's `own`. Other folders hold what others may need, so
// their mode is not changed.
//
// FailedPrecondition: the folder belongs to somebody else, or others may enter
// it and it is not one of those above. Errors of ErrnoStatus.
absl::Status MakePrivateFolder(const std::string& path, bool own);

}  // namespace comera::client

#endif  // COMERA_CLIENT_PRIVATE_FOLDER_H_
