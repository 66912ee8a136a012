// Former names of fields, which files, flags and JSON bodies may still use.
#ifndef COMERA_PROTO_FORMER_NAMES_H_
#define COMERA_PROTO_FORMER_NAMES_H_

#include <string>
#include <string_view>

#include "google/protobuf/descriptor.h"

namespace comera {

// The field of `type` that was called `name` in an earlier release, in the
// proto's spelling or in camel case; null if there is none.
const google::protobuf::FieldDescriptor* FindByFormerName(
    const google::protobuf::Descriptor& type, const std::string& name);

// The dotted `path`, which starts at a message of `type`, with every former
// name in it replaced by the current one. A path that leads nowhere keeps its
// rest as it is.
std::string CurrentPath(const google::protobuf::Descriptor& type,
                        const std::string& path);

// Whether the JSON `text` has a key or a string that is a former name of some
// field: most texts have none and need no closer look.
bool MayQuoteFormerNames(std::string_view text);

// "resources.ranks is now called resources.processes; the old name is still
// read", for a field that was written as `path` and is now called `name`.
std::string FormerNameNote(const std::string& path, const std::string& name);

}  // namespace comera

#endif  // COMERA_PROTO_FORMER_NAMES_H_
