#ifndef COMERA_PROTO_DATA_PATH_CHECK_H_
#define COMERA_PROTO_DATA_PATH_CHECK_H_

#include <string>

#include "proto/spec_checker.h"

namespace comera {

// A violation unless `path` is absolute, or that of a file in a dataset; with
// `folder` also of a folder, or of all of a dataset.
void CheckDataPath(const std::string& field, const std::string& path,
                   bool folder, SpecChecker& check);

}  // namespace comera

#endif  // COMERA_PROTO_DATA_PATH_CHECK_H_
