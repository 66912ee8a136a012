// The formats of comera export, one file each.
#ifndef COMERA_CLIENT_CLI_EXPORT_FORMATS_H_
#define COMERA_CLIENT_CLI_EXPORT_FORMATS_H_

#include <string>

#include "client/cli/session.h"

namespace comera::client {

struct ExportArguments {
  // A job, sweep or model, as typed.
  std::string what;
  std::string format;
  std::string to;
  bool follow = false;
  bool no_models = false;
};

// Each returns the exit code. `what` is a job or a sweep.
int ExportTensorBoard(const ExportArguments& arguments, const Session& session);
int ExportMlflow(const ExportArguments& arguments, const Session& session);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_EXPORT_FORMATS_H_
