// Holds the dashboard's files, which are part of the program.
#include "server/http/dashboard_files.h"

#include "server/http/dashboard_tar.h"

namespace comera::server {

absl::StatusOr<StaticFiles> DashboardFiles() {
  return StaticFiles::FromTar(DashboardTar());
}

}  // namespace comera::server
