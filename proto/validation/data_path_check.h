#ifndef COMERA_PROTO_VALIDATION_DATA_PATH_CHECK_H_
#define COMERA_PROTO_VALIDATION_DATA_PATH_CHECK_H_

#include <string>

#include "proto/data_paths.h"
#include "proto/validation/spec_checker.h"

namespace comera {

// Adds a violation unless `path` is absolute, names something in a dataset, or
// is a URL of a file (proto/data_url.h); where a folder may be meant, the
// dataset may be named as a whole. No violation repeats a URL.
void CheckDataPath(const std::string& field, const std::string& path,
                   PathKind kind, SpecChecker& check);

}  // namespace comera

#endif  // COMERA_PROTO_VALIDATION_DATA_PATH_CHECK_H_
