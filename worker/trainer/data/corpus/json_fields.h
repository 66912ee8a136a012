#ifndef COMERA_WORKER_TRAINER_DATA_CORPUS_JSON_FIELDS_H_
#define COMERA_WORKER_TRAINER_DATA_CORPUS_JSON_FIELDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace comera::trainer {

// The string values of `fields` in the JSON object `text`, in the order of
// `fields`; other members are passed over without being kept. `scalar_field`
// may also be a number or a boolean, whose text is then its value.
// InvalidArgument: malformed or not an object, deeper than 64 levels, a field
// missing, twice, or not a string.
absl::Status ReadJsonFields(absl::string_view text,
                            const std::vector<std::string>& fields,
                            std::vector<std::string>* values,
                            absl::string_view scalar_field = {});

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CORPUS_JSON_FIELDS_H_
