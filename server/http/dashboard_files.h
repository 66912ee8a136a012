#ifndef COMERA_SERVER_HTTP_DASHBOARD_FILES_H_
#define COMERA_SERVER_HTTP_DASHBOARD_FILES_H_

#include "absl/status/statusor.h"
#include "server/http/static_files.h"

namespace comera::server {

// The dashboard in this program. Errors of StaticFiles::FromTar.
absl::StatusOr<StaticFiles> DashboardFiles();

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_DASHBOARD_FILES_H_
