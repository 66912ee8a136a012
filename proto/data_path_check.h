#ifndef COMERA_PROTO_DATA_PATH_CHECK_H_
#define COMERA_PROTO_DATA_PATH_CHECK_H_

#include <string>

#include "proto/spec_checker.h"

namespace comera {

// Adds a violation unless `path` is absolute or names a file in a dataset. With
// `folder`, it may also name a folder in a dataset, or the whole dataset.
void CheckDataPath(const std::string& field, const std::string& path,
                   bool folder, SpecChecker& check);

}  // namespace comera

#endif  // COMERA_PROTO_DATA_PATH_CHECK_H_
