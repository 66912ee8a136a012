// Where the fields of a job file stand in it.
#ifndef COMERA_PROTO_FIELD_LINES_H_
#define COMERA_PROTO_FIELD_LINES_H_

#include <map>
#include <string>

#include "google/protobuf/descriptor.h"
#include "proto/yaml_tree.h"

namespace comera {

// Lines, counted from 1, by paths of fields under their current names.
using FieldLines = std::map<std::string, int>;

// Finds the lines of all fields of a message of this type. Keys that name no
// field are left out.
FieldLines FindFieldLines(const YamlNode& node,
                          const google::protobuf::Descriptor& type);

// The line of the field, or of the nearest group around it that is in the file;
// 0 if there is none.
int LineOf(const FieldLines& lines, std::string field);

}  // namespace comera

#endif  // COMERA_PROTO_FIELD_LINES_H_
