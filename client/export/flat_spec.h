// Flattens a job's specification into names and values.
#ifndef COMERA_CLIENT_EXPORT_FLAT_SPEC_H_
#define COMERA_CLIENT_EXPORT_FLAT_SPEC_H_

#include <string>
#include <utility>
#include <vector>

#include "comera/v1/job.pb.h"

namespace comera::client {

// Returns every set field, including defaults: ("model.layers", "2"),
// ("data.tokenizer.kind", "BYTE_BPE"), ("compression.attention.ranks", "8,16"),
// ("labels.team", "nlp"). Repeated messages are numbered from 0.
std::vector<std::pair<std::string, std::string>> FlattenSpec(
    const v1::JobSpec& spec);

}  // namespace comera::client

#endif  // COMERA_CLIENT_EXPORT_FLAT_SPEC_H_
